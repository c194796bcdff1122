"""The `lanekit` command: one module per sub-command.

Each module has ``NAME``, ``HELP``, ``configure(parser)`` and ``run(args) -> exit status``. ``HELP``
is a phrase like argparse's own: it begins small, has no full stop, and fits in a line of `lanekit
--help`. What else a help page shows is in :mod:`lanekit.cli.help_pages`, the exit statuses and what
becomes of an exception in :mod:`lanekit.cli.endings`; docs/cli.md tells both to users.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Protocol

from lanekit import __version__
from lanekit.cli import (
    clean,
    completion,
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
    worker,
    workers,
)
from lanekit.cli.endings import run_to_its_end
from lanekit.cli.help_pages import CommandParser, overview


class Command(Protocol):
    """What a sub-command's module offers."""

    NAME: str
    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit status."""


GROUPS: dict[str, tuple[Command, ...]] = {
    "See it": (demo, view, gui, replay),
    "Train": (run, workers, worker, serve, engine),
    "What was recorded": (runs, show, export),
    "The daemon and its runs": (daemon, submit, control, proxy),
    "This machine": (doctor, ls, top, clean, stress, completion),
}
"""The commands, as `lanekit --help` shows them."""

COMMANDS: tuple[Command, ...] = tuple(command for group in GROUPS.values() for command in group)


def build_parser() -> CommandParser:
    """Return the parser of the whole command."""
    parser = CommandParser(
        prog="lanekit",
        usage="lanekit [-h] [--version] COMMAND ...",
        description=overview(
            {
                title: [(command.NAME, command.HELP) for command in group]
                for title, group in GROUPS.items()
            }
        ),
        epilog="`lanekit COMMAND --help` tells more of one. Exit statuses: 0 fine, 1 no or an\n"
        "error, 2 misuse, 130 Ctrl-C. The documentation has them all: docs/cli.md.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lanekit {__version__}")
    commands = parser.add_subparsers(
        metavar="COMMAND",
        required=True,
        help=argparse.SUPPRESS,
        prog="lanekit",
        parser_class=CommandParser,
    )
    for command in COMMANDS:
        sentence = f"{command.HELP[0].upper()}{command.HELP[1:]}."
        sub = commands.add_parser(command.NAME, description=sentence)
        sub.add_examples(getattr(command, "EXAMPLES", ()))
        command.configure(sub)
        sub.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line."""
    args = build_parser().parse_args(arguments)
    return run_to_its_end(lambda: int(args.run(args)))
