"""The frame tap: a machine's fast lanes for watchers elsewhere, each at its own rate and size.

>>> tap = FrameTap()                                              # doctest: +SKIP
>>> with tap.watch("run-1", rate=15, recipe=Recipe("jpeg", max_width=640)) as watch:
...     async for update in watch:
...         if update.frame is not None:
...             await send(update.frame.picture.data)

A watch gives the newest frame each time it is asked for one, so a watcher that is slow to come back
- its network is slow - misses frames and never gets an old one. Nothing waits for it: not the
worker, not the lane, not the other watchers. A lane is read only while somebody watches it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from lanekit.slow.daemon.frames.capture import (
    QUIET_INTERVAL,
    Appetite,
    Captured,
    FrameKey,
    LaneCapture,
    LaneState,
)
from lanekit.slow.daemon.frames.encoding import check_encoding
from lanekit.slow.daemon.frames.lanes import find_lanes, lane_id
from lanekit.slow.watched_frames import (
    DEFAULT_RATE,
    MAX_RATE,
    MIN_RATE,
    FrameUpdate,
    LaneInfo,
    Recipe,
    Status,
    WatchedFrame,
)

__all__ = ["FrameTap", "FrameUpdate", "FrameWatch", "LaneInfo", "Recipe", "WatchedFrame"]

ENCODING_THREADS = 2
_NICENESS = 5
"""Encoding gives way to the training that it shows."""


class FrameTap:
    """Hands out watches. Made and used inside one event loop."""

    def __init__(self) -> None:
        self._captures: dict[str, LaneCapture] = {}
        self._watches: set[FrameWatch] = set()
        self._threads = ThreadPoolExecutor(
            ENCODING_THREADS, thread_name_prefix="lanekit-encode", initializer=_give_way
        )

    async def lanes(self, run_id: str = "") -> list[LaneInfo]:
        """Return what can be watched of a run, or of every run on this machine."""
        return await asyncio.get_running_loop().run_in_executor(None, find_lanes, run_id)

    def watch(
        self,
        run_id: str,
        lane: str = "",
        *,
        rate: float = DEFAULT_RATE,
        recipe: Recipe | None = None,
    ) -> FrameWatch:
        """Begin to watch a run's lane, whether or not it is there yet.

        `lane` is empty for the run's own, else as :meth:`lanes` names it; `rate` the most frames
        per second. Raises ValueError for what can not be asked for, and
        :class:`~lanekit.errors.MissingExtra` for an encoding that this machine can not make.
        """
        name = lane_id(run_id, lane)
        watch = FrameWatch(self, name, rate, recipe or Recipe())
        self._watches.add(watch)
        return watch

    @property
    def watches(self) -> int:
        """How many watches are under way."""
        return len(self._watches)

    def end_watches(self) -> None:
        """End all watches: whoever iterates over one comes to its end."""
        for watch in tuple(self._watches):
            watch.close()

    def close(self) -> None:
        """End all watches, and leave all lanes."""
        captures = list(self._captures.values())
        self.end_watches()
        for capture in captures:
            capture.join()
        self._threads.shutdown(cancel_futures=True)

    def _join(self, name: str) -> LaneCapture:
        capture = self._captures.get(name)
        if capture is None:
            capture = self._captures[name] = LaneCapture(name)
        capture.watchers += 1
        return capture

    def _leave(self, watch: FrameWatch, capture: LaneCapture) -> None:
        self._watches.discard(watch)
        capture.watchers -= 1
        if capture.watchers == 0:
            del self._captures[capture.lane_id]
            capture.close()


class FrameWatch:
    """One watcher's view of one lane: an asynchronous iterator of :class:`FrameUpdate`.

    Close it, or use it in a ``with`` block: the lane is read until then.
    """

    def __init__(self, tap: FrameTap, name: str, rate: float, recipe: Recipe) -> None:
        self.change(rate=rate, recipe=recipe)
        self._tap = tap
        self._capture = tap._join(name)
        self._due = -math.inf
        self._had: FrameKey | None = None
        self._told: Status | None = None
        self._appetite: Appetite | None = None
        self._ended = asyncio.Event()

    def change(self, *, rate: float | None = None, recipe: Recipe | None = None) -> None:
        """Ask for something else from the next frame on."""
        if rate is not None:
            if not MIN_RATE <= rate <= MAX_RATE:
                raise ValueError(
                    f"a rate is {MIN_RATE:g} to {MAX_RATE:g} frames per second; got {rate}"
                )
            self._interval = 1.0 / rate
        if recipe is not None:
            check_encoding(recipe.encoding)
            self._recipe = recipe

    @property
    def ended(self) -> bool:
        """Whether it was closed."""
        return self._ended.is_set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FrameUpdate:
        """Wait for news, and give the newest there are.

        Raises ValueError for a frame that the encoding has no room for.
        """
        if (wait := self._due - time.monotonic()) > 0 and not self._ended.is_set():
            with self._capture.pacing(), contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), wait)
        if self._ended.is_set():
            raise StopAsyncIteration
        state = await self._news()
        if self._ended.is_set():
            raise StopAsyncIteration
        self._told = state.status
        frame = None
        if state.newest is not None and state.newest.key != self._had:
            now = time.monotonic()
            # From the moment it was due, not from now, or the rate would stay below the one asked;
            # but what a silence or a slow watcher left out is not made up for.
            late = now - self._due
            self._due = (now if late > self._interval else self._due) + self._interval
            frame = await self._frame(state.newest)
        return FrameUpdate(state.status, frame, state.metrics, state.problem)

    async def _news(self) -> LaneState:
        appetite = Appetite(self._had, self._told, time.monotonic() + QUIET_INTERVAL)
        self._appetite = appetite
        self._capture.ask(appetite)
        try:
            return await appetite.answer
        finally:
            self._appetite = None
            self._capture.withdraw(appetite)

    async def _frame(self, captured: Captured) -> WatchedFrame:
        picture = await captured.picture(self._recipe, self._tap._threads)
        frame = captured.frame
        last_seq = self._had[1] if self._had is not None else frame.seq
        self._had = captured.key
        return WatchedFrame(
            picture=picture,
            source_width=frame.width,
            source_height=frame.height,
            seq=frame.seq,
            published_unix_ns=captured.published_unix_ns,
            metrics=frame.metrics,
            metadata=frame.metadata,
            skipped=max(0, frame.seq - last_seq - 1),  # a new writer counts from 1 again
            age_ns=time.monotonic_ns() - frame.timestamp_ns,
        )

    def close(self) -> None:
        """End the watch; whoever iterates over it now comes to the end. May be called twice."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._appetite is not None:
            self._appetite.meet(LaneState())
        self._tap._leave(self, self._capture)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _give_way() -> None:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
