"""Text in columns, coloured where a terminal shows colours."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Collection, Sequence
from enum import Enum
from typing import TextIO


class Colour(Enum):
    """What the commands paint with; the value is the terminal's code."""

    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    BLUE = "34"
    MAGENTA = "35"


_CODES = re.compile(r"\x1b\[[0-9;]*m")


class Paint:
    """Colours text if its stream is a terminal that wants colours, else leaves it as it is."""

    def __init__(self, out: TextIO | None = None) -> None:
        """Look at the stream (standard output, if none is named) and at the environment."""
        stream = sys.stdout if out is None else out
        self.on = (
            stream.isatty()
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM", "dumb") != "dumb"
        )

    def __call__(self, text: str, colour: Colour) -> str:
        """Return the text in this colour."""
        return f"\x1b[{colour.value}m{text}\x1b[0m" if self.on and text else text


def width_of(text: str) -> int:
    """Return how many cells of a terminal the text takes."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in _CODES.sub("", text)
    )


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Align rows of cells; the columns numbered in `right` are aligned on their right."""
    if not rows:
        return []
    widths = [max(width_of(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(_cells(row, widths, right)).rstrip() for row in rows]


def _cells(row: Sequence[str], widths: Sequence[int], right: Collection[int]) -> list[str]:
    gaps = [" " * (width - width_of(cell)) for cell, width in zip(row, widths, strict=True)]
    pairs = enumerate(zip(row, gaps, strict=True))
    return [gap + cell if i in right else cell + gap for i, (cell, gap) in pairs]
