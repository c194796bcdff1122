"""The stream that the terminal viewer writes to: what it can show, and how to write to it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TextIO


class Depth(Enum):
    """What a terminal can paint; the value is how many numbers make one colour."""

    TRUE_COLOUR = 3
    INDEXED = 1
    MONO = 0


def colour_depth(environment: Mapping[str, str], encoding: str | None) -> Depth:
    """Say what the terminal that ``environment`` describes can paint.

    A stream whose encoding has no half block gets characters, as one without colour does.
    """
    is_unicode = (encoding or "").lower().startswith("utf")
    if environment.get("NO_COLOR") or not is_unicode:
        return Depth.MONO
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return Depth.TRUE_COLOUR
    return Depth.INDEXED


def write(out: TextIO, text: str) -> None:
    """Write at once; a run's name may hold characters that the stream has no code for."""
    encoding = out.encoding or "ascii"
    out.write(text.encode(encoding, "replace").decode(encoding))
    out.flush()
