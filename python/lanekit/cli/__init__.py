"""The `lanekit` command: one module per sub-command.

Each module has ``NAME``, ``HELP``, ``configure(parser)`` and ``run(args) -> exit status``. ``HELP``
is a phrase like argparse's own: it begins small, has no full stop, and fits in a line of `lanekit
--help`. Exit
status 0 is success, 1 an answer of "no" or an error, 2 a misuse of the command line.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Protocol

from lanekit import LanekitError, __version__
from lanekit.cli import (
    certs,
    clean,
    control,
    daemon,
    demo,
    doctor,
    engine,
    export,
    gui,
    ls,
    proxy,
    replay,
    run,
    runs,
    serve,
    show,
    stress,
    submit,
    top,
    view,
    web,
    worker,
    workers,
)


class Command(Protocol):
    """What a sub-command's module offers."""

    NAME: str
    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit status."""


COMMANDS: tuple[Command, ...] = (
    demo,
    view,
    gui,
    web,
    ls,
    top,
    clean,
    stress,
    doctor,
    serve,
    engine,
    daemon,
    certs,
    proxy,
    run,
    submit,
    control,
    runs,
    show,
    replay,
    export,
    workers,
    worker,
)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command."""
    parser = argparse.ArgumentParser(
        prog="lanekit",
        description="Move data between the processes of an RL run, and watch it.",
    )
    parser.add_argument("--version", action="version", version=f"lanekit {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        sentence = f"{command.HELP[0].upper()}{command.HELP[1:]}."
        sub = commands.add_parser(command.NAME, help=command.HELP, description=sentence)
        command.configure(sub)
        sub.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line."""
    args = build_parser().parse_args(arguments)
    try:
        status = int(args.run(args))
        sys.stdout.flush()
    except LanekitError as error:
        print(f"lanekit: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output (head, less) has left: not an error. Python flushes once more at
        # exit and would complain, so let what is left go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status
