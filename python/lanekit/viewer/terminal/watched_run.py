"""A run being watched: its reader, its newest frame, and what was seen of it so far."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from typing import Self

from lanekit import FastLaneFrame, FastLaneReader, SegmentNotFound, SegmentNotReady
from lanekit.viewer.terminal.hud import Reading, State
from lanekit.viewer.terminal.sparkline import History

_SLICE = 0.05
"""The longest sleep, in seconds, so that keys and signals feel immediate."""

_REFRESH = 0.2
"""Seconds after which the numbers are shown anew although no frame came."""


class WatchedRun:
    """Takes the newest frame of a run every ``interval`` seconds, from its first writer on."""

    def __init__(self, run_id: str, interval: float) -> None:
        """Begin without a reader: the run may not be there yet."""
        self.frame: FastLaneFrame | None = None
        self.frames_shown = 0
        self.metadata: dict[str, object] = {}
        self._run_id = run_id
        self._interval = interval
        self._reader: FastLaneReader | None = None
        self._returns = History(limit=28, interval=0.25)
        self._moments: deque[float] = deque(maxlen=31)
        self._state = State.WAITING
        self._frame_due = self._refresh_due = -math.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.close()

    @property
    def appeared(self) -> bool:
        """Whether there has been a writer."""
        return self._reader is not None

    def wait(self) -> bool:
        """Wait a little for something new, and say whether there is something to show."""
        now = time.monotonic()
        if now < self._frame_due:
            time.sleep(min(self._frame_due - now, _SLICE))
            return False
        if self._reader is None:
            self._reader = self._attach()
        if self._reader is None:
            time.sleep(_SLICE)
        else:
            # Spinning would save microseconds that no eye can see, at the training's expense.
            self._reader.wait(_SLICE, strategy="block")
            self._read(self._reader)
        now = time.monotonic()
        if now < self._refresh_due:
            return False
        self._refresh_due = now + _REFRESH
        return True

    def reading(self) -> Reading:
        """Return what there is to tell now."""
        if self._reader is None:
            return Reading(self._run_id, self._state)
        if self.frame is None:
            return Reading(self._run_id, self._state, metrics=self._reader.metrics())
        return Reading(
            self._run_id,
            self._state,
            metrics=self.frame.metrics,
            seq=self.frame.seq,
            shown_per_second=self._shown_per_second(),
            age_ms=(time.monotonic_ns() - self.frame.timestamp_ns) / 1e6,
            skipped=self._reader.stats().skipped,
            returns=tuple(self._returns.points),
            metadata=self.metadata,
        )

    def _attach(self) -> FastLaneReader | None:
        try:
            # The writer must not think us gone between two frames that are far apart.
            return FastLaneReader.attach(self._run_id, lease=min(3600.0, 1.0 + self._interval))
        except (SegmentNotFound, SegmentNotReady):
            return None

    def _read(self, reader: FastLaneReader) -> None:
        state = State.LIVE if reader.connected else State.LEFT
        frame = reader.latest_frame(fresh=True)
        now = time.monotonic()
        if frame is not None:
            self.frame = frame
            self.frames_shown += 1
            self.metadata = read_metadata(frame.metadata)
            self._moments.append(now)
            self._returns.add(frame.metrics.rolling_return, now)
            # From the moment it was due, not from now, or the rate would stay below the one asked.
            self._frame_due = max(self._frame_due + self._interval, now)
        if frame is not None or state is not self._state:
            self._state = state
            self._refresh_due = now

    def _shown_per_second(self) -> float:
        now = time.monotonic()
        recent = [moment for moment in self._moments if moment > now - 2.0]
        return (len(recent) - 1) / (now - recent[0]) if len(recent) > 1 else 0.0


def read_metadata(metadata: bytes | None) -> dict[str, object]:
    """Return a frame's metadata if it is a JSON object, else nothing: it belongs to the run."""
    if not metadata:
        return {}
    try:
        value = json.loads(metadata)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
