"""What the help pages show beyond argparse: groups of commands, examples, and near names."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

EXAMPLES = (
    ("lanekit demo", "watch an agent learn"),
    ("lanekit run --worker sb3 --env CartPole-v1", "train, with a progress bar"),
    ("lanekit view", "watch the run that is live"),
    ("lanekit doctor", "what works here, and what to do about the rest"),
)


def overview(groups: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """Return the text of `lanekit --help`: all commands by group, and where to begin."""
    lines = ["Move data between the processes of an RL run, and watch it."]
    for title, commands in groups.items():
        lines += ["", f"{title}:", *(f"  {name:<12}{told}" for name, told in commands)]
    return "\n".join([*lines, "", *_examples(EXAMPLES)])


def _examples(examples: Iterable[tuple[str, str]]) -> list[str]:
    pairs = list(examples)
    width = max(len(command) for command, _ in pairs) + 2
    return ["examples:", *(f"  {command:<{width}}# {why}" for command, why in pairs)]


class CommandParser(argparse.ArgumentParser):
    """A parser whose complaints end with the next command to type."""

    def add_examples(self, examples: Sequence[tuple[str, str]]) -> None:
        """Show these below the options."""
        if examples:
            self.formatter_class = argparse.RawDescriptionHelpFormatter
            self.epilog = "\n".join(_examples(examples))

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
