"""Replay: a recorded run's frames on the fast lane again, at the speed they were recorded.

To a viewer a replay is a run like any other. It can be paused, sought through and sped up from any
thread while one thread is inside :meth:`Replay.play`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from lanekit.fast import FastLaneMetrics
from lanekit.slow.replay.lane import ReplayLane
from lanekit.slow.replay.pacing import USUAL_GAP, timeline
from lanekit.slow.replay.reel import Reel

if TYPE_CHECKING:
    from lanekit.slow.store.run_store import RunStore

SLOWEST, FASTEST = 0.01, 1000.0
_SIGN_OF_LIFE = 0.5
"""Seconds between heartbeats while nothing is published."""
_MOST_LATE = 0.5
"""Seconds behind which a replay does not try to catch up, as after the machine slept."""


class ReplayState(Enum):
    """What a replay is doing; the value is how to say it."""

    PLAYING = "playing"
    PAUSED = "paused"
    ENDED = "at the end"
    STOPPED = "stopped"


@dataclass(frozen=True)
class ReplayStatus:
    """Where a replay is."""

    state: ReplayState
    index: int
    """The frame shown now, from 0; -1 before the first."""
    frames: int
    episode: int
    step: int
    seconds: float
    """Of the recording, up to this frame."""
    duration: float
    speed: float
    metrics: FastLaneMetrics


class Replay:
    """Publishes a recorded run on the fast lane.

    >>> with Replay(store, "cartpole-7", episode=3) as replay:     # doctest: +SKIP
    ...     replay.play()

    The lane's run id is ``<run>-replay``, if no other is given: a replay must not take the name
    that the run's own worker may want at any time.
    """

    def __init__(
        self,
        store: RunStore,
        run_id: str,
        *,
        episode: int | None = None,
        agent: str | None = None,
        worker: str | None = None,
        speed: float = 1.0,
        loop: bool = False,
        hold: bool = False,
        publish_as: str | None = None,
    ) -> None:
        """Load what was recorded; nothing is published before :meth:`play`.

        With `hold` the lane stays at the end, with the last frame, until :meth:`stop`. Raises
        :class:`~lanekit.errors.TelemetryError` if there are no frames.
        """
        self._speed = checked_speed(speed)
        self.reel = Reel.load(store, run_id, episode=episode, agent=agent, worker=worker)
        self.timeline = timeline(self.reel.wall_time_ns)
        self.run_id = publish_as or f"{run_id}-replay"
        self._loop = loop
        self._hold = hold
        self._inside_play = threading.Lock()
        # Guards everything below, and is not held while a frame is read or published.
        self._changed = threading.Condition()
        self._state = ReplayState.PLAYING
        self._shown = -1
        self._next = 0
        self._at_once = True  # the next frame does not wait for its time: the first, or one sought
        # This moment of the recording is due at this time; None: from the frame shown now on.
        self._anchor: tuple[float, float] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        with self._inside_play:  # the thread that plays has left, and the lane is gone
            pass

    # --- from any thread --------------------------------------------------------------------------

    def pause(self) -> None:
        """Stand still; the lane and its last frame stay."""
        with self._changed:
            if self._state is ReplayState.PLAYING:
                self._enter(ReplayState.PAUSED)

    def resume(self) -> None:
        """Go on; from the beginning, if the end was reached."""
        with self._changed:
            if self._state is ReplayState.ENDED:
                self._go_to(0)
            elif self._state is ReplayState.PAUSED:
                self._enter(ReplayState.PLAYING)

    def stop(self) -> None:
        """End :meth:`play`, for good."""
        with self._changed:
            self._enter(ReplayState.STOPPED)

    def seek(self, step: int, episode: int | None = None) -> None:
        """Show the first frame at or after this step of an episode (by default of the one shown).

        Works while paused, too. Raises ``ValueError``, naming what there is, when the episode has
        no such frame.
        """
        with self._changed:
            shown = int(self.reel.episode[max(0, self._shown)])
            self._go_to(self.reel.find(shown if episode is None else episode, step))

    def seek_seconds(self, seconds: float) -> None:
        """Move by so many seconds of the recording, backwards if negative; at least one frame."""
        with self._changed:
            here = max(0, self._shown)
            moment = float(self.timeline.seconds[here]) + seconds
            there = int(np.searchsorted(self.timeline.seconds, moment, side="left"))
            there = min(there, here - 1) if seconds < 0 else max(there, here + 1)
            self._go_to(there)

    def seek_frames(self, count: int) -> None:
        """Move by so many frames, backwards if negative."""
        with self._changed:
            self._go_to(max(0, self._shown) + count)

    @property
    def speed(self) -> float:
        """How many seconds of the recording pass in a second."""
        return self._speed

    @speed.setter
    def speed(self, factor: float) -> None:
        factor = checked_speed(factor)
        with self._changed:
            self._speed = factor
            self._enter(self._state)

    def status(self) -> ReplayStatus:
        """Say where the replay is."""
        with self._changed:
            here = max(0, self._shown)
            return ReplayStatus(
                state=self._state,
                index=self._shown,
                frames=len(self.reel),
                episode=int(self.reel.episode[here]),
                step=int(self.reel.step[here]),
                seconds=float(self.timeline.seconds[here]),
                duration=self.timeline.duration,
                speed=self._speed,
                metrics=self.reel.metrics(here),
            )

    # --- the thread that plays --------------------------------------------------------------------

    def play(self, on_frame: Callable[[ReplayStatus], None] | None = None) -> None:
        """Publish until the end, or until :meth:`stop`; the lane is gone when this returns."""
        if not self._inside_play.acquire(blocking=False):
            raise RuntimeError(f"another thread plays {self.run_id!r} already")
        try:
            with ReplayLane(self.run_id) as lane:
                while (index := self._wait_for_frame(lane)) is not None:
                    lane.publish(self.reel, index)
                    if on_frame is not None:
                        on_frame(self.status())
        finally:
            self._inside_play.release()

    def _wait_for_frame(self, lane: ReplayLane) -> int | None:
        """Wait until a frame is due and return which one; None when it is over."""
        with self._changed:
            while self._state is not ReplayState.STOPPED:
                if self._next == len(self.reel) and self._state is ReplayState.PLAYING:
                    if self._loop:
                        self._next = 0
                        self._anchor = (0.0, time.monotonic() + USUAL_GAP / self._speed)
                    elif self._hold:
                        self._state = ReplayState.ENDED
                    else:
                        return None
                delay = self._delay()
                if delay <= 0:
                    self._shown, self._next, self._at_once = self._next, self._next + 1, False
                    return self._shown
                if not self._changed.wait(min(delay, _SIGN_OF_LIFE)):
                    lane.heartbeat()
            return None

    def _delay(self) -> float:
        """Return the seconds until the next frame is due."""
        if self._at_once:
            return 0.0
        if self._state is not ReplayState.PLAYING or self._next == len(self.reel):
            return math.inf
        now = time.monotonic()
        if self._anchor is None:
            self._anchor = (float(self.timeline.seconds[max(0, self._shown)]), now)
        moment, then = self._anchor
        ahead = (float(self.timeline.seconds[self._next]) - moment) / self._speed
        delay = then + ahead - now
        if delay < -_MOST_LATE:
            self._anchor = (float(self.timeline.seconds[self._next]), now)
            return 0.0
        return delay

    # --- with the lock held -----------------------------------------------------------------------

    def _go_to(self, index: int) -> None:
        self._next = min(max(0, index), len(self.reel) - 1)
        self._at_once = True
        ended = self._state is ReplayState.ENDED
        self._enter(ReplayState.PLAYING if ended else self._state)

    def _enter(self, state: ReplayState) -> None:
        if self._state is not ReplayState.STOPPED:
            self._state = state
        self._anchor = None
        self._changed.notify_all()


def checked_speed(factor: float) -> float:
    """Return the factor, if a replay can run at it."""
    if not SLOWEST <= factor <= FASTEST:
        raise ValueError(f"speed is a factor from {SLOWEST:g} to {FASTEST:g}, not {factor:g}")
    return factor
