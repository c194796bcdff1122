"""How far a training is: a bar on a terminal, a line now and then anywhere else."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from typing import TextIO

from lanekit.cli.columns import Paint, width_of
from lanekit.cli.quantities import clock, number
from lanekit.cli.runs import STATE_COLOURS
from lanekit.viewer.terminal.stream import write

LINE_EVERY = 10.0
"""Seconds between two lines where there is no terminal."""
_SMALLEST_BAR, _LARGEST_BAR = 8, 40


@dataclass(frozen=True)
class Reading:
    """What is known of a training at one moment."""

    state: str = "submitted"
    step: int = 0
    total: int | None = None
    """How many steps there will be; None: nobody knows."""
    rate: float | None = None
    """Steps a second lately."""
    last_return: float | None = None
    mean_return: float | None = None
    """Over the last episodes."""
    elapsed: float = 0.0

    @property
    def share(self) -> float | None:
        """How much of it is done: 0 to 1."""
        return min(1.0, self.step / self.total) if self.total else None

    @property
    def left(self) -> float | None:
        """How many seconds the rest will take at this rate."""
        if not self.total or not self.rate:
            return None
        return max(0, self.total - self.step) / self.rate


def bar_line(reading: Reading, width: int, paint: Paint, glyphs: str = "█░") -> str:
    """Return a reading in one line of at most `width` cells: what matters least gives way."""
    share, left = reading.share, reading.left
    # The smaller the number, the longer it stays.
    parts = [(2, _steps(reading)), (3, "" if reading.rate is None else f"{_rate(reading.rate)}/s")]
    if reading.mean_return is not None and reading.last_return is not None:
        parts.append((5, f"return {number(reading.last_return)}"))
        parts.append((4, f"mean {number(reading.mean_return)}"))
    parts.append((6, clock(reading.elapsed)))
    parts.append((1, "" if left is None else f"{clock(math.ceil(left))} left"))
    parts = [part for part in parts if part[1]]
    colour = STATE_COLOURS.get(reading.state)
    head = reading.state if colour is None else paint(reading.state, colour)
    if share is not None:
        head = f"{head} {{}} {math.floor(share * 100):3d}%"
    smallest = 0 if share is None else _SMALLEST_BAR

    def room() -> int:
        """Return the cells that are left for the bar."""
        return width - width_of("  ".join([head, *(text for _, text in parts)])) + len("{}")

    while parts and room() < smallest:
        parts.remove(max(parts))
    if share is None:
        return "  ".join([head, *(text for _, text in parts)])
    size = max(0, min(_LARGEST_BAR, room()))
    filled = math.floor(share * size)
    bar = glyphs[0] * filled + glyphs[1] * (size - filled)
    return "  ".join([head.format(bar), *(text for _, text in parts)])


def plain_line(reading: Reading) -> str:
    """Return a reading in one line for a file."""
    parts = [reading.state]
    if reading.share is not None:
        parts.append(f"{math.floor(reading.share * 100)}%")
    parts.append(f"{_steps(reading)} steps")
    if reading.rate is not None:
        parts.append(f"{_rate(reading.rate)} steps/s")
    if reading.mean_return is not None and reading.last_return is not None:
        parts.append(f"return {number(reading.last_return)}")
        parts.append(f"mean {number(reading.mean_return)}")
    parts.append(f"{clock(reading.elapsed)} elapsed")
    if reading.left is not None:
        parts.append(f"{clock(math.ceil(reading.left))} left")
    return "  ".join(parts)


def _steps(reading: Reading) -> str:
    return f"{reading.step:,}" + (f"/{reading.total:,}" if reading.total else "")


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else number(rate)


class ProgressBar:
    """Shows readings on a stream, and lets other words pass without tearing the bar."""

    def __init__(self, out: TextIO, notes: TextIO) -> None:
        """Draw on `out`; what else is to be said goes to `notes`."""
        self._out, self._notes = out, notes
        self._drawn = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._paint = Paint(out)
        unicode = (out.encoding or "").lower().startswith("utf")
        self._glyphs = "█░" if unicode else "#."
        self._last: Reading | None = None
        self._due = -math.inf

    def show(self, reading: Reading) -> None:
        """Take a reading in; write if it is time to."""
        now = time.monotonic()
        if self._drawn:
            # One column less than there are: a full line would wrap on some terminals.
            line = bar_line(reading, self._columns() - 1, self._paint, self._glyphs)
            write(self._out, f"\r{line}\x1b[K")
        elif self._last is None or reading.state != self._last.state or now >= self._due:
            write(self._out, plain_line(reading) + "\n")
            self._due = now + LINE_EVERY
        self._last = reading

    def say(self, text: str) -> None:
        """Say something else; the bar comes back below it with the next reading."""
        if self._drawn and self._last is not None:
            write(self._out, "\r\x1b[K")
        write(self._notes, text + "\n")

    def leave(self) -> None:
        """Leave the last reading where it is, and go on below."""
        if self._drawn and self._last is not None:
            write(self._out, "\n")

    def _columns(self) -> int:
        # Not the variable COLUMNS: it tells how wide some terminal was once.
        try:
            return os.get_terminal_size(self._out.fileno()).columns or 80
        except OSError:
            return 80
