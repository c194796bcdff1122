"""The `lanekit` command: one module per sub-command.

Each module has ``NAME``, ``HELP``, ``configure(parser)`` and ``run(args) -> exit status``, and is
loaded when its command is asked for. ``HELP`` is a phrase like argparse's own: it begins small, has
no full stop, and fits in a line of `lanekit --help`. Exit status 0 is success, 1 an answer of "no"
or an error, 2 a misuse of the command line.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from lanekit.errors import LanekitError


class Command(Protocol):
    """What a sub-command's module offers."""

    NAME: str
    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit status."""


COMMANDS = (
    "demo",
    "view",
    "gui",
    "web",
    "ls",
    "top",
    "clean",
    "stress",
    "doctor",
    "serve",
    "engine",
    "daemon",
    "certs",
    "proxy",
    "run",
    "submit",
    "control",
    "runs",
    "show",
    "replay",
    "export",
    "workers",
    "worker",
)
"""In the order of `lanekit --help`; each is its module's name."""


def load(name: str) -> Command:
    """Return a command's module."""
    return cast(Command, import_module(f"lanekit.cli.{name}"))


class _Version(argparse.Action):
    """Look the version up only when it is asked for: that takes its time."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from lanekit import __version__

        parser.exit(message=f"lanekit {__version__}\n")


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of the whole command, or of some sub-commands only."""
    parser = argparse.ArgumentParser(
        prog="lanekit",
        description="Move data between the processes of an RL run, and watch it.",
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show program's version number and exit"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in map(load, names):
        sentence = f"{command.HELP[0].upper()}{command.HELP[1:]}."
        sub = commands.add_parser(command.NAME, help=command.HELP, description=sentence)
        command.configure(sub)
        sub.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line."""
    if arguments is None:
        arguments = sys.argv[1:]
    # A known command needs its own module only; help and mistakes need all of them.
    asked = [name for name in arguments[:1] if name in COMMANDS]
    args = build_parser(asked or COMMANDS).parse_args(arguments)
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
