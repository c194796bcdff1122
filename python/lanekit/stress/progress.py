"""How far a run is: a bar on a terminal, a line now and then anywhere else."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping
from typing import TextIO

from lanekit.stress.plan import Round
from lanekit.stress.verdict import Counts
from lanekit.viewer.terminal.stream import write

_LINE_EVERY = 5.0
_BAR_WIDTH = 20


class Progress:
    """Shows the share done, the frames checked per second, and the time that is left.

    Colours are not used; a pipe or a dumb terminal gets plain lines.
    """

    def __init__(
        self,
        out: TextIO,
        environment: Mapping[str, str],
        *,
        frames: int | None,
        seconds: float | None,
    ) -> None:
        self._out = out
        self._bar = out.isatty() and environment.get("TERM", "dumb") != "dumb"
        self._frames, self._seconds = frames, seconds
        self._started = time.monotonic()
        self._due = self._started + (0.0 if self._bar else _LINE_EVERY)
        self._before = Counts()
        self._round: Round | None = None
        self._now = Counts()

    def show(self, round_: Round, counts: Counts) -> None:
        """Take in the counts of the round under way; write if it is time to."""
        if round_ is not self._round:
            self._before += self._now
            self._round = round_
        self._now = counts
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + (0.1 if self._bar else _LINE_EVERY)
        text = self.line(now - self._started)
        if self._bar:
            columns = shutil.get_terminal_size().columns
            write(self._out, f"\r{text[: columns - 1]}\x1b[K")
        else:
            write(self._out, text + "\n")

    def clear(self) -> None:
        """Take the bar away, for the verdict to come."""
        if self._bar:
            write(self._out, "\r\x1b[K")

    def line(self, elapsed: float) -> str:
        """Return the state after `elapsed` seconds in one line."""
        total = self._before + self._now
        shares = [0.0]
        if self._frames:
            shares.append(total.frames / self._frames)
        if self._seconds:
            shares.append(elapsed / self._seconds)
        share = min(1.0, max(shares))
        filled = round(share * _BAR_WIDTH)
        bar = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] " if self._bar else ""
        rate = total.frames / elapsed if elapsed > 0 else 0.0
        left = elapsed / share - elapsed if share > 0 else math.inf
        errors = f"  ERRORS {total.errors:,}" if total.errors else ""
        title = "" if self._round is None else self._round.title
        return (
            f"{bar}{share:4.0%}  {total.frames:,} frames  {_per_second(rate)}  "
            f"ETA {_clock(left)}{errors}  {title}"
        )


def _per_second(rate: float) -> str:
    return f"{rate / 1e6:.2f} M/s" if rate >= 1e5 else f"{rate / 1e3:.1f} k/s"


def _clock(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
