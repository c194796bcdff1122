"""A long series of numbers, ready to be drawn: as quickly with a million of them as with a few.

Beside the values stand the lowest and highest of each 64 and of each 4,096 of them, and their sums
so far: a curve as wide as the screen then looks at some thousand numbers, however many there are,
and so does the mean over any window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanekit.viewer.live.growing import GrowingArray

Floats = NDArray[np.float64]
BLOCK = 64
BLOCKS_IN_COLUMN = 8
"""Blocks are used where a column of pixels has at least so many: what they blur is invisible."""

LARGEST = 1e200
"""What is drawn is at most this large: sums and distances of such numbers are still numbers."""


class Series:
    """Numbers in their order. NaN stands for one that is not known."""

    def __init__(self, values: Any = ()) -> None:
        self._values = GrowingArray(np.float64)
        self._sums = GrowingArray(np.float64)
        self._known = GrowingArray(np.int64)
        self._sums.extend([0.0])
        self._known.extend([0])
        self._levels = [_Level(), _Level()]
        self.low = float("nan")
        """The lowest number; NaN when none is known."""
        self.high = float("nan")
        if len(values):
            self.extend(values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def values(self) -> Floats:
        """All numbers, as a view that is good until the next ones come."""
        return self._values.values

    def extend(self, values: Any) -> None:
        """Add numbers at the end."""
        new = np.clip(np.asarray(values, np.float64), -LARGEST, LARGEST)
        if not len(new):
            return
        known = ~np.isnan(new)
        self._values.extend(new)
        self._sums.extend(self._sums.values[-1] + np.cumsum(np.where(known, new, 0.0)))
        self._known.extend(self._known.values[-1] + np.cumsum(known))
        self.low = float(np.fmin(self.low, np.fmin.reduce(new)))
        self.high = float(np.fmax(self.high, np.fmax.reduce(new)))
        lows = highs = self.values
        for level in self._levels:
            level.take_in(lows, highs)
            lows, highs = level.lows.values, level.highs.values

    def envelope(self, columns: int) -> tuple[Floats, Floats]:
        """Return the lowest and the highest number of each of so many equal parts."""
        lows = highs = self.values
        per_column, size = len(self) / columns, 1
        for level in self._levels:
            if per_column < BLOCKS_IN_COLUMN * BLOCK * size:
                break
            size *= BLOCK
            rest = self.values[len(level.lows) * size :]
            lows = (
                np.append(level.lows.values, np.fmin.reduce(rest))
                if len(rest)
                else (level.lows.values)
            )
            highs = (
                np.append(level.highs.values, np.fmax.reduce(rest))
                if len(rest)
                else (level.highs.values)
            )
        starts = (np.arange(columns) * (len(self) / size) / columns).astype(np.int64)
        return np.fmin.reduceat(lows, starts), np.fmax.reduceat(highs, starts)

    def means(self, last: NDArray[np.int64], window: int) -> Floats:
        """Return, for each index in `last`, the mean of the `window` numbers that end there.

        At the beginning, where there are not that many, of those there are.
        """
        first = np.maximum(0, last + 1 - window)
        sums, known = self._sums.values, self._known.values
        count = known[last + 1] - known[first]
        total = sums[last + 1] - sums[first]
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


class _Level:
    """The lowest and highest of each whole block of the level below."""

    def __init__(self) -> None:
        self.lows = GrowingArray(np.float64)
        self.highs = GrowingArray(np.float64)

    def take_in(self, lows: Floats, highs: Floats) -> None:
        done, whole = len(self.lows), len(lows) // BLOCK
        if whole > done:
            new = slice(done * BLOCK, whole * BLOCK)
            self.lows.extend(np.fmin.reduce(lows[new].reshape(-1, BLOCK), axis=1))
            self.highs.extend(np.fmax.reduce(highs[new].reshape(-1, BLOCK), axis=1))
