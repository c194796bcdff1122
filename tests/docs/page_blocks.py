"""The code blocks of the pages, and what a page says about how each of them is run.

A fenced block is run as it stands, unless a comment right above its fence says otherwise:

    <!-- file: worker.py -->                      written, for the blocks after it
    <!-- run by tests/test_step_pages.py -->      by that test: two processes, a framework
    <!-- not run: it opens a window -->           for this reason

What follows a block as "It prints `...`", or as "It prints" and a block of text, it has to print.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

# Blocks of these are looked at, not run: pictures made of letters, and what programs say.
TEXT = ("", "text")

_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?"
    r"```(?P<language>\w*)(?P<rest>[^\n]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_PRINTS = re.compile(
    r"\n+(?:That|It) prints(?: `(?P<line>[^`]+)`|:?\n+```text\n(?P<text>.*?)^```)", re.S | re.M
)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    code: str
    mark: str
    promised: str | None

    @property
    def file(self) -> str | None:
        """The file that it is written to instead of being run."""
        return self.mark.removeprefix("file: ") if self.mark.startswith("file: ") else None

    @property
    def run_by(self) -> str | None:
        """The test that runs it."""
        return self.mark.removeprefix("run by ") if self.mark.startswith("run by ") else None

    @property
    def not_run(self) -> str | None:
        """Why it is not run."""
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run: ") else None

    @property
    def is_text(self) -> bool:
        """Whether there is nothing to run in it."""
        return self.language in TEXT

    @property
    def typed(self) -> list[str]:
        """A console block's lines that somebody types, without their prompts."""
        return [line.removeprefix("$ ") for line in self.code.splitlines() if line.startswith("$ ")]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order; Sphinx's own directives are none."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        if match["rest"].startswith("{"):
            continue
        prints = _PRINTS.match(text, match.end())
        promised = None if prints is None else prints["text"] or f"{prints['line']}\n"
        found.append(
            Block(
                page.relative_to(ROOT).as_posix(),
                text.count("\n", 0, match.start("language")) + 1,
                match["language"],
                match["code"],
                match["mark"] or "",
                promised,
            )
        )
    return found


def all_blocks() -> list[Block]:
    """Return the blocks of all pages."""
    return [block for page in PAGES for block in blocks_of(page)]
