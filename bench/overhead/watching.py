"""Somebody who looks: a viewer in a process of its own, and the price of what it is shown."""

from __future__ import annotations

import math
import time
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np

import lanekit
from bench import machine
from bench.overhead.modes import FRAME_HZ
from lanekit.integrations.showing.publisher import Publisher

_GRAIN = 8


class Seen(NamedTuple):
    """What a viewer saw of a run since it was last asked."""

    frames: int = 0
    different: int = 0
    """Frames that did not look like the one before."""


def view(conn: Connection, run_ids: list[str], anywhere: bool = False) -> None:
    """Watch these runs at display rate; answer, to the name of one, what was seen of it.

    A role of :class:`bench.companion.Companion`; `anywhere` is for runs that are not pinned to a
    core either.
    """
    if anywhere:
        machine.unpin()
    watchers = {run_id: _Watcher(run_id) for run_id in run_ids}
    due = time.monotonic()
    while True:
        if conn.poll(max(0.0, due - time.monotonic())):
            message = conn.recv()
            if message == "end":
                return
            conn.send(watchers[message].report())
            continue
        due = max(due + 1 / FRAME_HZ, time.monotonic())
        for watcher in watchers.values():
            watcher.look()


class _Watcher:
    """Looks at one run, which may begin and end several times."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._reader: lanekit.FastLaneReader | None = None
        self._picture = np.zeros(0, np.uint8)
        self._before = b""
        self._seen = Seen()

    def look(self) -> None:
        """Take the newest frame if there is a new one."""
        try:
            if self._reader is None:
                self._reader = lanekit.FastLaneReader.attach(self._run_id)
                self._picture = np.zeros(self._reader.config.shape, np.uint8)
            if not self._reader.read_into(self._picture, fresh=True):
                return
        except lanekit.GeometryChanged as changed:
            self._picture = np.zeros(changed.config.shape, np.uint8)
            return
        except (lanekit.SegmentNotFound, lanekit.SegmentNotReady):
            return
        looks = self._picture[::_GRAIN, ::_GRAIN].tobytes()
        frames, different = self._seen
        self._seen = Seen(frames + 1, different + (looks != self._before))
        self._before = looks

    def report(self) -> Seen:
        """Return what was seen since the last report."""
        seen, self._seen = self._seen, Seen()
        return seen


class PictureClock:
    """Times what the training process does to be seen, where it does it."""

    def __init__(self) -> None:
        self._pictures = 0
        self._seconds = 0.0

    def govern(self, publisher: type[Publisher]) -> None:
        """Have all looks of these publishers timed."""
        look = publisher.look

        def timed(this: Publisher) -> None:
            begin = time.perf_counter()
            look(this)
            self._seconds += time.perf_counter() - begin
            self._pictures += 1

        publisher.look = timed  # type: ignore[method-assign]

    def report(self) -> dict[str, float]:
        """Return how many pictures there were since the last report, and what they took."""
        found = {"pictures": self._pictures, "picture_seconds": self._seconds}
        self._pictures, self._seconds = 0, 0.0
        return found


def explained(picture: float) -> float:
    """Return the ratio that pictures at display rate explain, each of which costs so many seconds.

    A second of training contains 60 of them, so 1 - 60 × price of it is left for the rest.
    """
    left = 1 - FRAME_HZ * picture
    return 1 / left if left > 0 else math.inf
