"""The end of a log, which says why a process ended."""

from __future__ import annotations

import os
from pathlib import Path

_LINES = 20
_BYTES = 16384


def last_lines(path: Path, *, after: int = 0) -> list[str]:
    """Return a file's last lines, of those that begin `after` so many bytes; none if it is gone."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(after, size - _BYTES))
            text = file.read(_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    # Of a line that was written over and over, a progress bar's, only the last state counts.
    lines = [line.rstrip().rpartition("\r")[2] for line in text.split("\n")]
    return [line for line in lines if line][-_LINES:]
