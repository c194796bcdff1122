"""Frames that carry the time at which they were made, to be read off a screen again.

Two rows of black and white fields: the time in tenths of a millisecond, a bit for each field, and
the same inverted below, so that a picture that is half of one frame and half of another is told
apart. A magenta frame around it says where on the screen the picture is.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 60.0
BITS = 24
_UNIT_NS = 100_000
_BORDER = 1 / 32
"""Share of the smaller side."""
_LEFT, _RIGHT = 0.1, 0.9
_TOP, _MIDDLE, _BOTTOM = 0.35, 0.5, 0.65
MAGENTA = (255, 0, 255)


def now() -> int:
    """Return the time as a frame carries it."""
    return (time.monotonic_ns() // _UNIT_NS) % (1 << BITS)


def age_ms(stamp: int) -> float:
    """Return how long ago a frame was made."""
    return ((now() - stamp) % (1 << BITS)) * _UNIT_NS / 1e6


class StampedFrames:
    """Makes RGB frames: noise, and the time."""

    def __init__(self, width: int, height: int) -> None:
        rng = np.random.default_rng(1)
        self._frames = [rng.integers(0, 256, (height, width, 3), np.uint8) for _ in range(4)]
        border = max(4, round(min(width, height) * _BORDER))
        for frame in self._frames:
            frame[:border], frame[-border:] = MAGENTA, MAGENTA
            frame[:, :border], frame[:, -border:] = MAGENTA, MAGENTA
        edges = np.linspace(_LEFT * width, _RIGHT * width, BITS + 1).round().astype(int)
        self._columns = np.repeat(np.arange(BITS), np.diff(edges))
        self._x = slice(int(edges[0]), int(edges[-1]))
        rows = [round(share * height) for share in (_TOP, _MIDDLE, _BOTTOM)]
        self._above, self._below = slice(rows[0], rows[1]), slice(rows[1], rows[2])
        self._number = 0

    def stamped(self) -> NDArray[np.uint8]:
        """Return the next frame, with the time as it is."""
        frame = self._frames[self._number % len(self._frames)]
        self._number += 1
        bits = (now() >> np.arange(BITS)) & 1
        line = (bits * 255).astype(np.uint8)[self._columns][:, None]
        frame[self._above, self._x] = line
        frame[self._below, self._x] = 255 - line
        return frame


class StampReader:
    """Reads the time off a screen of 32-bit pixels, blue first."""

    def __init__(self, screen: NDArray[np.uint32]) -> None:
        """Find the picture; raises LookupError if there is none."""
        red, green, blue = MAGENTA
        found = np.argwhere((screen & 0xFFFFFF) == (red << 16 | green << 8 | blue))
        if len(found) == 0:
            raise LookupError("no picture on the screen")
        (top, left), (bottom, right) = found.min(axis=0), found.max(axis=0) + 1
        self.size = int(right - left), int(bottom - top)
        places = np.linspace(_LEFT, _RIGHT, BITS, endpoint=False) + (_RIGHT - _LEFT) / BITS / 2
        self._x = (left + places * (right - left)).astype(int)
        height = bottom - top
        self._above = int(top + (_TOP + _MIDDLE) / 2 * height)
        self._below = int(top + (_MIDDLE + _BOTTOM) / 2 * height)
        self._screen = screen

    def stamp(self) -> int | None:
        """Return the time that is on the screen; None if it is of more than one frame."""
        above = self._bits(self._above)
        if (above == self._bits(self._below)).any():
            return None
        return int((above.astype(np.int64) << np.arange(BITS)).sum())

    def _bits(self, y: int) -> NDArray[Any]:
        return ((self._screen[y, self._x] >> 8) & 0xFF) > 127


def at_60_hz() -> Iterator[None]:
    """Yield when the next frame is due, until standard input ends."""
    due = time.monotonic()
    while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
        yield
        # Who can not keep up does not send everything at once when it can.
        due = max(due + 1 / RATE, time.monotonic() - 1 / RATE)
