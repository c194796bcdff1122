"""Draws what training processes publish, into the run's own lane: one state, or a grid of several.

Each source is a lane that a training process (or one sub-process of a vector environment) fills:
with states, which are drawn on this process's own copy of the environment, or with pictures, which
are only put together. A source is read while somebody watches the run, and not otherwise: that is
how its process knows that nobody needs it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lanekit import errors
from lanekit.fast import (
    FastLaneFrame,
    FastLaneMetrics,
    FastLaneReader,
    tile_frames_into,
    tile_shape,
)
from lanekit.fast.frame import PixelFormat
from lanekit.integrations.shadow.adapters import StateAdapter
from lanekit.integrations.shadow.state_codec import decode_state
from lanekit.integrations.showing.frame_note import FrameNote
from lanekit.integrations.showing.frames import Frame
from lanekit.integrations.showing.lanes import PictureLane, StateMessage, state_in
from lanekit.integrations.showing.spec_file import digest_of, read_spec
from lanekit.segments import reclaim_segment, segment_name

_IDLE = 0.02
_LONGEST_SLEEP = 0.1  # then it is time to see whether the worker lives
_TOGETHER = 0.005  # how long the tiles of one step are waited for after the first of them


class Stage:
    """A copy of the environment on which states are put and drawn.

    Making it runs what `stage` says. So `stage` comes from the process that started this one, or
    from one that the kernel knows to be of the same user; never from a lane.
    """

    def __init__(self, stage: bytes) -> None:
        import gymnasium

        from lanekit.integrations.showing.painter import painter_of

        adapter: StateAdapter
        spec, adapter = pickle.loads(stage)
        env = gymnasium.make(spec, render_mode="rgb_array", disable_env_checker=True)
        env.reset(seed=0)
        self._bare = env.unwrapped
        self._adapter = adapter
        self._paint = painter_of(self._bare)

    def draw(self, state: Any) -> Frame:
        """Return the picture of a state, as :func:`decode_state` returned it."""
        self._adapter.set_state(self._bare, state)
        return self._paint()


class Source:
    """One environment's lane."""

    def __init__(self, run_id: str, period: float) -> None:
        self.run_id = run_id
        self._glance = period / 4
        self._reader: FastLaneReader | None = None
        self.metrics = FastLaneMetrics()
        self.step = -1
        self.episode = 0
        self.pixels: npt.NDArray[np.uint8] | None = None
        self.pixel_format: PixelFormat = "RGB"
        self.rendering = ""

    def wait(self, timeout: float) -> bool:
        """Wait for something new; attach if that has not been possible yet.

        By looking four times in the time of a picture: who sleeps in a lane has to be woken, and
        that system call would take the training process longer than all the rest of handing over
        a state.
        """
        if self._reader is None:
            with contextlib.suppress(errors.SegmentNotFound, errors.SegmentNotReady):
                self._reader = FastLaneReader.attach(self.run_id)
        if self._reader is None:
            return False
        end = time.monotonic() + timeout
        while not self._reader.wait(0):
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, self._glance))
        return True

    def newest(self) -> FastLaneFrame | None:
        """Return what has come since the last time, if anything."""
        return None if self._reader is None else self._reader.latest_frame(fresh=True)

    @property
    def connected(self) -> bool:
        """Whether the process that fills the lane is alive."""
        return self._reader is not None and self._reader.connected

    def corrupt(self, what: str) -> errors.SegmentCorrupt:
        """Return the error for a message that no environment's process has written."""
        return errors.SegmentCorrupt(
            f"run {self.run_id!r} (segment {segment_name('frame', self.run_id)}): {what}; is it "
            "another program's lane?"
        )

    def reclaim(self) -> None:
        """Remove the lane if its process died and could not."""
        if self._reader is not None:
            self._reader.close()
        with contextlib.suppress(errors.LanekitError):
            reclaim_segment(segment_name("frame", self.run_id))


class Renderer:
    """Fills a run's lane from its sources for as long as the process that asked for it lives."""

    def __init__(
        self,
        worker_pid: int,
        run_id: str,
        sources: list[str],
        stages: list[bytes],
        max_hz: float,
        capacity: int,
    ) -> None:
        self._worker_pid = worker_pid
        self._run_id = run_id
        self._period = min(1 / max_hz, _LONGEST_SLEEP)
        self._sources = [Source(source, self._period) for source in sources]
        self._stages = {digest_of(stage): Stage(stage) for stage in stages}
        self._capacity = capacity
        self._lane: PictureLane | None = None

    def run(self, ready: Callable[[], None]) -> int:
        """Draw until the worker has left."""
        ready()
        try:
            while not self._worker_gone():
                if self._lane is None:
                    self._lane = self._take_over()
                    if self._lane is None:
                        time.sleep(_IDLE)
                elif not self._lane.watched:
                    time.sleep(_IDLE)
                elif len(self._sources) == 1:
                    self._relay(self._lane, self._sources[0])
                else:
                    self._compose(self._lane)
        finally:
            if self._lane is not None:
                self._lane.close()
            for source in self._sources:
                source.reclaim()
        return 0

    def _worker_gone(self) -> bool:
        """Whether the process that started this one has ended: then this one has another parent."""
        return os.getppid() != self._worker_pid

    def _take_over(self) -> PictureLane | None:
        """Become the run's writer, once the worker has left the lane to us."""
        try:
            return PictureLane(self._run_id, self._capacity)
        except errors.SegmentExists:
            return None

    def _relay(self, lane: PictureLane, source: Source) -> None:
        """Draw one environment's newest state."""
        if not source.wait(_LONGEST_SLEEP):
            time.sleep(_IDLE)
            return
        found = source.newest()
        if found is None:
            return
        frame = self._take(source, found)
        if frame is not None:
            note = FrameNote(source.rendering, source.step, source.episode)
            lane.publish(frame, found.metrics, note)

    def _compose(self, lane: PictureLane) -> None:
        """Put the newest picture of each environment into one."""
        due = until = time.monotonic() + self._period
        fresh = False
        for source in self._sources:
            if source.wait(max(0.0, until - time.monotonic())) and not fresh:
                until = min(until, time.monotonic() + _TOGETHER)
            found = source.newest()
            if found is not None:
                frame = self._take(source, found)
                if frame is not None:
                    drawn = source.rendering == "shadow"  # into memory that the next one reuses
                    source.pixels = frame.pixels.copy() if drawn else frame.pixels
                    source.pixel_format = frame.pixel_format
                    source.metrics = found.metrics
                    fresh = True
        shown = [source for source in self._sources if source.pixels is not None]
        if fresh and shown:
            self._publish_grid(lane, shown)
        time.sleep(max(0.0, due - time.monotonic()))

    def _take(self, source: Source, found: FastLaneFrame) -> Frame | None:
        """Return the picture that a source's lane carries, drawn here if it is a state.

        None if a process that has ended left something that is of no use: its successor makes the
        lane anew.
        """
        try:
            return self._picture_in(source, found)
        except errors.SegmentError:
            if source.connected:
                raise
            return None

    def _picture_in(self, source: Source, found: FastLaneFrame) -> Frame | None:
        message = state_in(found, source.run_id)
        if message is None:
            note = FrameNote.decode(found.metadata)
            if note is None:
                raise source.corrupt("it carries neither a state nor a picture with a note")
            source.step, source.episode = note.step, note.episode
            source.rendering = note.rendering
            return Frame(found.array, found.pixel_format)
        stage = self._stage_for(message, source)
        if stage is None:
            return None
        try:
            state = decode_state(message.state.data)
        except ValueError as error:
            size = len(message.state.data)
            raise source.corrupt(f"a message of {size} bytes is not a state: {error}") from error
        source.step, source.episode = message.state.step, message.state.episode
        source.rendering = "shadow"
        return stage.draw(state)

    def _stage_for(self, message: StateMessage, source: Source) -> Stage | None:
        """Return the stage that a state belongs on; environments made alike share one.

        None if it belongs to a process that has just ended.
        """
        digest = message.spec_digest
        if digest not in self._stages:
            if message.pid <= 0:
                raise source.corrupt(f"no environment with spec {digest.hex()} is known")
            spec = read_spec(message.pid, message.descriptor, digest)
            if spec is None:
                return None
            self._stages[digest] = Stage(spec)
        return self._stages[digest]

    def _publish_grid(self, lane: PictureLane, shown: list[Source]) -> None:
        last = self._sources.index(shown[-1])
        first = shown[0]
        tiles = [
            source.pixels if source.pixel_format == first.pixel_format else None
            for source in self._sources[: last + 1]
        ]
        whole = fitted(tiles)
        height, width, channels = tile_shape(len(whole), whole[0].shape)
        size = Frame(np.broadcast_to(np.uint8(0), (height, width, channels)), first.pixel_format)
        reservation = lane.writer_for(size).reserve()
        tile_frames_into(whole, reservation.array)
        steps = tuple(source.step for source in self._sources[: last + 1])
        note = FrameNote(first.rendering, max(steps), max(s.episode for s in shown), steps)
        reservation.commit(metrics=mean_metrics(shown), metadata=note.encode())


def fitted(
    tiles: list[npt.NDArray[np.uint8] | None],
) -> list[npt.NDArray[np.uint8]]:
    """Return tiles of one size: smaller ones get a black margin, missing ones are black."""
    there = [tile for tile in tiles if tile is not None]
    shape = tuple(max(sides) for sides in zip(*(tile.shape for tile in there), strict=True))
    whole = []
    for tile in tiles:
        if tile is not None and tile.shape == shape:
            whole.append(tile)
            continue
        cell = np.zeros(shape, np.uint8)
        if tile is not None:
            cell[: tile.shape[0], : tile.shape[1]] = tile
        whole.append(cell)
    return whole


def mean_metrics(shown: list[Source]) -> FastLaneMetrics:
    """Return the numbers of all: mean reward and return, steps per second of all together."""
    count = len(shown)
    return FastLaneMetrics(
        sum(source.metrics.last_reward for source in shown) / count,
        sum(source.metrics.rolling_return for source in shown) / count,
        sum(source.metrics.step_rate_hz for source in shown),
    )
