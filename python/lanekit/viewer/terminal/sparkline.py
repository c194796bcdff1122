"""A number over time in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence


class History:
    """A number over the whole run in at most ``limit`` points, coarser as the run grows."""

    def __init__(self, limit: int, interval: float) -> None:
        """Take one point every ``interval`` seconds until there are ``limit`` of them."""
        self.points: list[float] = []
        self._limit = limit
        self._interval = interval
        self._due = -math.inf

    def add(self, value: float, now: float) -> None:
        """Note the value, if a point is due."""
        if now < self._due or not math.isfinite(value):
            return
        if len(self.points) == self._limit:
            pairs = zip(self.points[::2], self.points[1::2], strict=False)
            self.points = [(one + other) / 2 for one, other in pairs]
            self._interval *= 2
        self.points.append(value)
        self._due = now + self._interval


def sparkline(values: Sequence[float]) -> str:
    """Draw finite values as a row of bars, the lowest to the highest."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    span = (high - low) or 1.0
    return "".join("▁▂▃▄▅▆▇█"[min(7, int((value - low) / span * 8))] for value in values)
