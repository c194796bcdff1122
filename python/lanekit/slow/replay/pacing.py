"""When each recorded frame is due: the worker's clock, made fit to be waited for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LONGEST_GAP = 2.0
"""Seconds that a replay waits between two frames at most: nobody wants to sit through a pause."""
USUAL_GAP = 1 / 30
"""Seconds between two frames when the clock does not tell."""


@dataclass(frozen=True)
class Timeline:
    """Seconds from the first frame to each one, and what had to be changed to get there."""

    seconds: npt.NDArray[np.float64]
    backwards: int = 0
    """Gaps below zero: the clock was set back. The usual gap stands in for them."""
    shortened: int = 0
    """Gaps longer than the longest one allowed."""
    untimed: bool = False
    """Every frame has the same time, so all gaps are the usual one."""

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the last."""
        return float(self.seconds[-1]) if len(self.seconds) else 0.0

    def remarks(self) -> list[str]:
        """Say what differs from the recorded times."""
        said = []
        if self.untimed:
            said.append(
                f"the frames have no times of their own: shown {1 / USUAL_GAP:.0f} a second"
            )
        if self.backwards:
            said.append(
                f"the worker's clock went backwards {_times(self.backwards)}: "
                "the usual gap between frames stands in"
            )
        if self.shortened:
            said.append(
                f"{_times(self.shortened)} the next frame came more than {LONGEST_GAP:g} s later: "
                f"shortened to {LONGEST_GAP:g} s"
            )
        return said


def timeline(wall_time_ns: npt.NDArray[np.int64]) -> Timeline:
    """Turn recorded wall-clock times into waits between 0 and :data:`LONGEST_GAP` seconds."""
    if len(wall_time_ns) < 2:
        return Timeline(np.zeros(len(wall_time_ns)))
    # In floating point: the difference of two arbitrary 64-bit times may not fit into 64 bits.
    gaps = np.diff(wall_time_ns.astype(np.float64)) / 1e9
    exact = np.abs(gaps) < 2 * LONGEST_GAP
    gaps[exact] = np.diff(wall_time_ns)[exact] / 1e9
    if not gaps.any():
        return Timeline(np.arange(len(wall_time_ns), dtype=np.float64) * USUAL_GAP, untimed=True)
    backwards, long = gaps < 0, gaps > LONGEST_GAP
    usable = gaps[(gaps > 0) & ~long]
    gaps[backwards] = np.median(usable) if len(usable) else USUAL_GAP
    gaps[long] = LONGEST_GAP
    return Timeline(np.concatenate(([0.0], np.cumsum(gaps))), int(backwards.sum()), int(long.sum()))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
