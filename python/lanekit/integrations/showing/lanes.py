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
from lanekit.integrations.showing.spec_file import DIGEST_SIZE, SpecFile

_EMPTY = FastLaneConfig(1, 1, 1, "GRAY", capacity=1)
_FEWEST_SLOTS = 2
_STATE_MAGIC = b"LKS2"
# Which spec the state belongs to, and where else than in the reader's own list it is found.
_STATE_SPEC = struct.Struct(f"<4s{DIGEST_SIZE}sii")
_STATE_PLACE = struct.Struct("<QQ")  # step, episode
_STATE_AT = _STATE_SPEC.size + _STATE_PLACE.size
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
    """What an environment was like after a step."""

    step: int
    episode: int
    data: bytes
    """See :mod:`lanekit.integrations.shadow.state_codec`."""


class StateMessage(NamedTuple):
    """A state as it was found in a lane: checked for its form, and not to be trusted beyond."""

    state: State
    spec_digest: bytes
    """Which spec makes the environment again."""
    pid: int
    """The process that has that spec for others, 0 if none has."""
    descriptor: int


class StateLane:
    """An environment's state, for a process that draws it. ``watched`` says that there is one.

    How the environment is made again does not go through the lane, only the digest of its spec
    does: the process that draws knows it from its parent. Where that is another process than this
    one, it finds the spec in `spec_file`, which the lane owns from now on.
    """

    def __init__(self, run_id: str, spec_digest: bytes, spec_file: SpecFile | None = None) -> None:
        self.run_id = run_id
        self._room = _SMALLEST_STATE
        self._spec_file = spec_file
        place = (0, -1) if spec_file is None else (spec_file.pid, spec_file.descriptor)
        self._head = _STATE_SPEC.pack(_STATE_MAGIC, spec_digest, *place)
        self._writer = self._create()

    @property
    def watched(self) -> bool:
        """Whether a process wants states now."""
        return self._writer.watched

    def publish(self, state: State, metrics: FastLaneMetrics) -> None:
        """Hand a state over."""
        place = _STATE_PLACE.pack(state.step, state.episode)
        message = b"".join((self._head, place, state.data))
        if len(message) > self._room:
            self._leave()
            self._room = 2 * len(message)
            self._writer = self._create()
        self._writer.publish(_NOTHING, metrics=metrics, metadata=message)

    def update_metrics(self, metrics: FastLaneMetrics) -> None:
        """Tell the numbers without a state."""
        self._writer.update_metrics(metrics)

    def close(self) -> None:
        """Leave, and remove the segment. May be called twice."""
        self._leave()
        if self._spec_file is not None:
            self._spec_file.close()

    def _leave(self) -> None:
        self._writer.unlink()
        self._writer.close()

    def _create(self) -> FastLaneWriter:
        config = FastLaneConfig(1, 1, 1, "GRAY", capacity=4, metadata_size=self._room)
        return FastLaneWriter.create(self.run_id, config)


def state_in(frame: FastLaneFrame, run_id: str) -> StateMessage | None:
    """Return the state that a frame of lane `run_id` carries; None if it is not one of a state."""
    message = frame.metadata
    if message is None or not message.startswith(_STATE_MAGIC):
        return None
    if len(message) < _STATE_AT:
        raise errors.SegmentCorrupt(
            f"run {run_id!r}: a state's message has {len(message)} bytes, at least {_STATE_AT} "
            "were expected; is it another program's lane?"
        )
    _, digest, pid, descriptor = _STATE_SPEC.unpack_from(message)
    step, episode = _STATE_PLACE.unpack_from(message, _STATE_SPEC.size)
    return StateMessage(State(step, episode, message[_STATE_AT:]), digest, pid, descriptor)


def state_lane_of(run_id: str) -> str:
    """Return the run id of the lane that carries a run's states."""
    return f"{run_id}/state"


def slot_lane_of(run_id: str, slot: int) -> str:
    """Return the run id of the lane that one environment of a grid fills."""
    return f"{run_id}/env-{slot}"
