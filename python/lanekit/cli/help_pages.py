"""What the help pages show beyond argparse: groups of commands, examples, and near names."""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

EXAMPLES = (
    ("lanekit demo", "watch an agent learn"),
    ("lanekit run --worker demo", "train, with a progress bar"),
    ("lanekit view", "watch the run that is live"),
    ("lanekit doctor", "what works here, and what does not"),
)


def overview(groups: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """Return the text of `lanekit --help`: all commands by group, and where to begin."""
    lines = wrapped("Move data between the processes of an RL run, and watch it.")
    for title, commands in groups.items():
        lines += ["", f"{title}:"]
        for name, told in commands:
            lines += wrapped(told, f"  {name:<12}", " " * 14)
    return "\n".join([*lines, "", *_examples(EXAMPLES)])


def _examples(examples: Iterable[tuple[str, str]]) -> list[str]:
    """Return examples with what they do: beside them where there is room, else above."""
    pairs = list(examples)
    width = max(len(command) for command, _ in pairs) + 2
    room = _columns()
    if all(2 + width + 2 + len(why) <= room for _, why in pairs):
        return ["examples:", *(f"  {command:<{width}}# {why}" for command, why in pairs)]
    lines = ["examples:"]
    for command, why in pairs:
        # Never broken: a command that is copied must be whole.
        lines += [*wrapped(why, "  # ", "  # "), f"  {command}"]
    return lines


def wrapped(text: str, first: str = "", others: str = "") -> list[str]:
    """Break a text into lines that fit the terminal."""
    return textwrap.wrap(text, _columns(), initial_indent=first, subsequent_indent=others)


def _columns() -> int:
    """Return how long a line may be: a full one would wrap on some terminals."""
    return max(20, shutil.get_terminal_size().columns - 1)


class CommandParser(argparse.ArgumentParser):
    """A parser whose complaints end with the next command to type."""

    def add_examples(self, examples: Sequence[tuple[str, str]]) -> None:
        """Show these below the options."""
        if examples:
            self.formatter_class = argparse.RawDescriptionHelpFormatter
            self.description = "\n".join(wrapped(self.description or ""))
            self.epilog = "\n".join(_examples(examples))

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print all that was asked for, or fail: argparse keeps silent about a full disk."""
        if file is None:
            print(self.format_help(), end="")
        else:
            super().print_help(file)

    def error_of_unknown(self, words: Sequence[str]) -> NoReturn:
        """Complain about arguments that nothing takes, and name a near option."""
        known = [flag for action in self._actions for flag in action.option_strings]
        first = words[0].partition("=")[0]
        near = difflib.get_close_matches(first, known, n=1) if first.startswith("-") else []
        hint = f"; did you mean `{near[0]}`?" if near else ""
        self.error(f"unrecognized arguments: {shlex.join(words)}{hint}")

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where help is; the status is 2."""
        unknown = re.match(
            r"argument COMMAND: invalid choice: '(.*?)' \(choose from (.*)\)", message
        )
        if unknown is not None:
            known = re.findall(r"[a-z-]+", unknown[2])
            near = difflib.get_close_matches(unknown[1], known, n=1)
            message = f"there is no command {unknown[1]!r} (invalid choice)"
            if near:
                message += f"; did you mean `{self.prog} {near[0]}`?"
        elif message.endswith("required: COMMAND"):
            self.print_help(sys.stderr)
            self.exit(2)
        else:
            self.print_usage(sys.stderr)
        self.exit(
            2, f"{self.prog}: error: {message}\n{self.prog}: `{self.prog} --help` tells more\n"
        )
