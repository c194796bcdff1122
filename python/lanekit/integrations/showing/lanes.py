"""The two kinds of lane that a training process fills: pictures, and states to draw them from.

Neither knows its size before there is something to carry. Until then a picture's lane is a single
empty slot of one pixel, which takes no time to make and lets viewers announce themselves.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from lanekit import errors
from lanekit.fast import FastLaneConfig, FastLaneFrame, FastLaneMetrics, FastLaneWriter
from lanekit.integrations.showing.frame_note import NOTE_SIZE, FrameNote
from lanekit.integrations.showing.frames import Frame

_EMPTY = FastLaneConfig(1, 1, 1, "GRAY", capacity=1)
_FEWEST_SLOTS = 2
_STATE_MAGIC = b"LKST"
_STATE_HEAD = struct.Struct("<4sIIQQ")
_SMALLEST_STATE = 256
_NOTHING = np.zeros((1, 1, 1), np.uint8)  # an array, which publish() takes without a detour


class PictureLane:
    """A run's frames, in a ring that takes on the size of what is published."""

    def __init__(self, run_id: str, capacity: int) -> None:
        self.run_id = run_id
        self._capacity = capacity
        self._writer = FastLaneWriter.create(run_id, _EMPTY)

    @property
    def watched(self) -> bool:
        """Whether a viewer is alive."""
        return self._writer.watched

    def publish(self, frame: Frame, metrics: FastLaneMetrics, note: FrameNote) -> None:
        """Show a frame; when its size is new, in a new ring, to which viewers follow."""
        self.writer_for(frame).publish(frame.pixels, metrics=metrics, metadata=note.encode())

    def writer_for(self, frame: Frame) -> FastLaneWriter:
        """Return a writer whose ring has this frame's geometry."""
        height, width, channels = frame.pixels.shape
        config = self._writer.config
        if (height, width, channels) != config.shape or frame.pixel_format != config.pixel_format:
            self.close()
            self._writer = self._create(width, height, channels, frame)
        return self._writer

    def update_metrics(self, metrics: FastLaneMetrics) -> None:
        """Tell the numbers without a frame, which also shows that the worker is alive."""
        self._writer.update_metrics(metrics)

    def close(self) -> None:
        """Leave, and remove the segment. May be called twice."""
        self._writer.unlink()
        self._writer.close()

    def _create(self, width: int, height: int, channels: int, frame: Frame) -> FastLaneWriter:
        for capacity in sorted({self._capacity, min(self._capacity, _FEWEST_SLOTS)}, reverse=True):
            config = FastLaneConfig(
                width, height, channels, frame.pixel_format, capacity, metadata_size=NOTE_SIZE
            )
            try:
                return FastLaneWriter.create(self.run_id, config)
            except errors.OutOfSharedMemory as error:
                missing = error
        raise missing


class State(NamedTuple):
    """What an environment was like after a step, and all else that is needed to draw it."""

    step: int
    episode: int
    stage: bytes
    """How to make a copy of the environment; see ``ShadowPlan`` in :mod:`..painter`."""
    data: bytes


class StateLane:
    """An environment's state, for a process that draws it. ``watched`` says that there is one."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._room = _SMALLEST_STATE
        self._writer = self._create()

    @property
    def watched(self) -> bool:
        """Whether a process wants states now."""
        return self._writer.watched

    def publish(self, state: State, metrics: FastLaneMetrics) -> None:
        """Hand a state over."""
        head = _STATE_HEAD.pack(
            _STATE_MAGIC, len(state.stage), len(state.data), state.step, state.episode
        )
        message = b"".join((head, state.stage, state.data))
        if len(message) > self._room:
            self.close()
            self._room = 2 * len(message)
            self._writer = self._create()
        self._writer.publish(_NOTHING, metrics=metrics, metadata=message)

    def update_metrics(self, metrics: FastLaneMetrics) -> None:
        """Tell the numbers without a state."""
        self._writer.update_metrics(metrics)

    def close(self) -> None:
        """Leave, and remove the segment. May be called twice."""
        self._writer.unlink()
        self._writer.close()

    def _create(self) -> FastLaneWriter:
        config = FastLaneConfig(1, 1, 1, "GRAY", capacity=4, metadata_size=self._room)
        return FastLaneWriter.create(self.run_id, config)


def state_in(frame: FastLaneFrame) -> State | None:
    """Return the state that a state lane's frame carries; None if it is a picture."""
    message = frame.metadata
    if message is None or not message.startswith(_STATE_MAGIC):
        return None
    if len(message) < _STATE_HEAD.size:
        return None
    _, stage_size, data_size, step, episode = _STATE_HEAD.unpack_from(message)
    data_at = _STATE_HEAD.size + stage_size
    if len(message) != data_at + data_size:
        return None
    return State(step, episode, message[_STATE_HEAD.size : data_at], message[data_at:])


def state_lane_of(run_id: str) -> str:
    """Return the run id of the lane that carries a run's states."""
    return f"{run_id}/state"


def slot_lane_of(run_id: str, slot: int) -> str:
    """Return the run id of the lane that one environment of a grid fills."""
    return f"{run_id}/env-{slot}"
