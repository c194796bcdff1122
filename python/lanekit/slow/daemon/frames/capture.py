"""One watched lane: the thread that reads it, while somebody wants its frames and no longer.

A watcher asks for a frame, gets the newest, and asks again when it is ready for another. The thread
reads only when somebody has asked, so a lane with slow watchers is read slowly, and whatever was
published meanwhile is passed over. Each read tells the worker that somebody watches; when nobody
asks any more, that runs out by itself, and a worker that draws on demand stops drawing.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from lanekit import errors
from lanekit.fast.frame import FastLaneFrame, FastLaneMetrics
from lanekit.fast.reader import FastLaneReader
from lanekit.slow.daemon.frames.encoding import encode
from lanekit.slow.watched_frames import Picture, Recipe, Status

FrameKey: TypeAlias = tuple[int, int]
"""When a frame was published, and its number: no other frame of its lane has the same."""

ATTACH_INTERVAL = 0.25
"""Seconds between two tries to attach: a run that is not there costs a system call each."""
WAIT_SLICE = 0.1
"""Seconds that the thread waits for a frame before it looks whether it is still needed."""
LIVENESS_INTERVAL = 0.5
"""Seconds without a frame after which the writer is asked after, and between two such questions."""
QUIET_INTERVAL = 1.0
"""Seconds without a frame after which a watcher is told so, with the run's newest numbers."""


class Captured:
    """A frame taken from the lane, and the pictures that were made of it so far."""

    def __init__(self, frame: FastLaneFrame) -> None:
        self.frame = frame
        # The frame's own clock is this machine's; watchers have none in common with it but this.
        self.published_unix_ns = time.time_ns() - (time.monotonic_ns() - frame.timestamp_ns)
        self._pictures: dict[Recipe, asyncio.Future[Picture]] = {}

    @property
    def key(self) -> FrameKey:
        """What tells it from every other frame of the lane, a later writer's too."""
        return self.frame.timestamp_ns, self.frame.seq

    async def picture(self, recipe: Recipe, threads: Executor) -> Picture:
        """Return the picture; all who want the same one share the work."""
        if (making := self._pictures.get(recipe)) is None:
            loop = asyncio.get_running_loop()
            making = loop.run_in_executor(threads, encode, self.frame, recipe)
            self._pictures[recipe] = making
        # One watcher's end must not end the work that others wait for.
        return await asyncio.shield(making)


@dataclass(frozen=True, slots=True)
class LaneState:
    """What is known of a lane at one moment."""

    status: Status = "fastlane-unavailable"
    problem: str = ""
    """Why there is no picture, in words; empty while there is nothing to say."""
    metrics: FastLaneMetrics | None = None
    newest: Captured | None = None


class Appetite:
    """What one watcher waits for: a frame it has not had, another status, or some silence."""

    __slots__ = ("_had", "_quiet_at", "_told", "answer")

    def __init__(self, had: FrameKey | None, told: Status | None, quiet_at: float) -> None:
        self._had = had
        self._told = told
        self._quiet_at = quiet_at
        self.answer: asyncio.Future[LaneState] = asyncio.get_running_loop().create_future()
        """Belongs to the event loop; the thread only sends for it."""

    def is_met_by(self, state: LaneState) -> bool:
        """Tell whether this state is news to the watcher."""
        return (
            (state.newest is not None and state.newest.key != self._had)
            or state.status != self._told
            or time.monotonic() >= self._quiet_at
        )

    def meet(self, state: LaneState) -> None:
        """Hand the news over. In the event loop."""
        if not self.answer.done():
            self.answer.set_result(state)


class LaneCapture:
    """Reads one lane in a thread of its own, for the watchers in one event loop."""

    def __init__(self, lane_id: str) -> None:
        self.lane_id = lane_id
        self.watchers = 0
        self._loop = asyncio.get_running_loop()
        self._reader: FastLaneReader | None = None
        # What loop and thread share, under the condition:
        self._change = threading.Condition()
        self._state = LaneState()
        self._hungry: set[Appetite] = set()
        self._pacing = 0
        """Watchers that want another frame as soon as their rate allows it."""
        self._waiting = False
        """Whether the thread waits for a frame: then the state is the newest there is."""
        self._closed = False
        self._thread = threading.Thread(
            target=self._read, name=f"lanekit-watch {lane_id}", daemon=True
        )
        self._thread.start()

    # --- in the event loop -----------------------------------------------------------------------

    @contextmanager
    def pacing(self) -> Iterator[None]:
        """Count as watching although no frame is wanted at this moment."""
        with self._change:
            self._pacing += 1
            self._change.notify()
        try:
            yield
        finally:
            with self._change:
                self._pacing -= 1

    def ask(self, appetite: Appetite) -> None:
        """Have the watcher's answer set as soon as there are news for it."""
        with self._change:
            if self._waiting and appetite.is_met_by(self._state):
                appetite.meet(self._state)
            else:
                self._hungry.add(appetite)
                self._change.notify()

    def withdraw(self, appetite: Appetite) -> None:
        """Forget what a watcher asked for."""
        with self._change:
            self._hungry.discard(appetite)

    def close(self) -> None:
        """Let the thread end; it leaves the lane within a moment."""
        with self._change:
            self._closed = True
            self._change.notify()

    def join(self) -> None:
        """Wait for the thread's end."""
        self._thread.join()

    # --- in the thread ---------------------------------------------------------------------------

    def _read(self) -> None:
        state = LaneState()
        heard_at = 0.0
        try:
            while self._is_needed():
                state, heard_at = self._look(state, heard_at)
                if self._feed(state):
                    self._wait()
        finally:
            self._let_go()

    def _is_needed(self) -> bool:
        """Wait until a watcher is hungry; while some only pace, be seen by the worker."""
        with self._change:
            self._waiting = False
            while not self._closed and not self._hungry:
                renewing = self._pacing > 0 and self._reader is not None
                if not self._change.wait(LIVENESS_INTERVAL if renewing else None):
                    self._be_seen()
            return not self._closed

    def _look(self, state: LaneState, heard_at: float) -> tuple[LaneState, float]:
        """Return the lane's state now, and when the writer was last asked after."""
        now = time.monotonic()
        try:
            if self._reader is None:
                self._reader = FastLaneReader.attach(self.lane_id)
            frame = self._reader.latest_frame(fresh=True)
            if frame is not None and state.status == "connected":
                heard_at = now
            if frame is not None:
                state = replace(state, newest=Captured(frame), metrics=frame.metrics)
            if state.status != "connected" or now - heard_at >= LIVENESS_INTERVAL:
                heard_at = now
                # A dead writer's last frame is a picture, too.
                status: Status = "connected" if self._reader.connected else "reconnecting"
                metrics = self._reader.metrics() if frame is None else frame.metrics
                state = replace(state, status=status, problem="", metrics=metrics)
        except (errors.LanekitError, MemoryError) as error:
            self._let_go()
            state = replace(state, status=_without_writer(state.status), problem=str(error))
        return state, heard_at

    def _feed(self, state: LaneState) -> bool:
        """Answer those to whom this state is news; tell whether others still wait."""
        with self._change:
            self._state = state
            fed = [each for each in self._hungry if each.is_met_by(state)]
            self._hungry.difference_update(fed)
            self._waiting = bool(self._hungry) and self._reader is not None
            still_hungry = bool(self._hungry)
        if fed:
            try:
                self._loop.call_soon_threadsafe(_meet_all, fed, state)
            except RuntimeError:
                self.close()  # the loop has ended, and with it all who watched
        return still_hungry

    def _wait(self) -> None:
        """Wait a little for a frame, or for a writer."""
        if self._reader is None:
            with self._change:
                if not self._closed:
                    self._change.wait(ATTACH_INTERVAL)
            return
        try:
            # Spinning would save microseconds that no network keeps, at the training's expense.
            self._reader.wait(WAIT_SLICE, strategy="block")
        except errors.LanekitError:
            self._let_go()  # the next look says what is wrong

    def _be_seen(self) -> None:
        """Tell the worker that somebody watches, without taking a frame."""
        if self._reader is not None:
            try:
                self._reader.metrics()
            except errors.LanekitError:
                self._let_go()

    def _let_go(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _without_writer(status: Status) -> Status:
    return "fastlane-unavailable" if status == "fastlane-unavailable" else "reconnecting"


def _meet_all(fed: list[Appetite], state: LaneState) -> None:
    for appetite in fed:
        appetite.meet(state)
