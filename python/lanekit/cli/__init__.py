"""The `lanekit` command: one module per sub-command.

Each module has ``NAME``, ``HELP``, ``configure(parser)`` and ``run(args) -> exit status``, and is
loaded when its command is asked for. ``HELP`` is a phrase like argparse's own: it begins small, has
no full stop, and fits in a line of `lanekit --help`. What else a help page shows is in
:mod:`lanekit.cli.help_pages`, the exit statuses and what becomes of an exception in
:mod:`lanekit.cli.endings`; docs/cli.md tells both to users.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from lanekit.cli.endings import run_to_its_end
from lanekit.cli.help_pages import CommandParser, overview, wrapped


class Command(Protocol):
    """What a sub-command's module offers."""

    NAME: str
    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit status."""


GROUPS: dict[str, tuple[str, ...]] = {
    "See it": ("demo", "view", "gui", "web", "replay"),
    "Train": ("run", "workers", "worker", "serve", "engine"),
    "What was recorded": ("runs", "show", "export"),
    "The daemon and its runs": ("daemon", "certs", "submit", "control", "proxy"),
    "This machine": ("doctor", "ls", "top", "clean", "stress", "completion"),
}
"""The commands, as `lanekit --help` shows them; each is its module's name."""

COMMANDS: tuple[str, ...] = tuple(name for group in GROUPS.values() for name in group)


def load(name: str) -> Command:
    """Return a command's module."""
    return cast(Command, import_module(f"lanekit.cli.{name}"))


class _Version(argparse.Action):
    """Look the version up only when it is asked for: that takes its time."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from lanekit import __version__

        print(f"lanekit {__version__}")  # argparse's own exit would say it as an error
        parser.exit()


def build_parser(names: Sequence[str] = COMMANDS) -> CommandParser:
    """Return the parser of the whole command, or of some sub-commands only."""
    loaded = {name: load(name) for name in names}
    parser = CommandParser(
        prog="lanekit",
        usage="lanekit [-h] [--version] COMMAND ...",
        description=overview(
            {
                title: [(loaded[name].NAME, loaded[name].HELP) for name in group if name in loaded]
                for title, group in GROUPS.items()
            }
        ),
        epilog="\n".join(
            wrapped(
                "`lanekit COMMAND --help` tells more of one. Exit statuses: 0 fine, 1 no or an "
                "error, 2 misuse, 130 Ctrl-C. The documentation has them all: docs/cli.md."
            )
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show program's version number and exit"
    )
    commands = parser.add_subparsers(
        metavar="COMMAND",
        required=True,
        help=argparse.SUPPRESS,
        prog="lanekit",
        parser_class=CommandParser,
    )
    for command in loaded.values():
        sentence = f"{command.HELP[0].upper()}{command.HELP[1:]}."
        sub = commands.add_parser(command.NAME, description=sentence)
        sub.add_examples(getattr(command, "EXAMPLES", ()))
        command.configure(sub)
        sub.set_defaults(run=command.run, parser=sub)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line."""
    words = sys.argv[1:] if arguments is None else arguments
    return run_to_its_end(lambda: _run(words))


def _run(arguments: Sequence[str]) -> int:
    # A known command needs its own module only; help and mistakes need all of them.
    asked = [name for name in arguments[:1] if name in COMMANDS]
    args, unknown = build_parser(asked or COMMANDS).parse_known_args(arguments)
    if unknown:
        args.parser.error_of_unknown(unknown)
    return int(args.run(args))
