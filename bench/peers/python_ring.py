"""A fast lane in plain Python, as MOSAIC's documents describe theirs.

``multiprocessing.shared_memory``, ``struct`` and memoryview slices; an odd/even sequence number per
slot; the HUD numbers as doubles in the header. A reader compares the slot's sequence number before
and after its copy and relies on the GIL for everything else. Written from the published
description, to compare with; do not use it: bench/torn_frames.py shows why.
"""

from __future__ import annotations

import struct
from multiprocessing.shared_memory import SharedMemory
from types import TracebackType
from typing import NamedTuple, Self

from lanekit import FastLaneConfig, FastLaneMetrics

_MAGIC = 0x464C414E
# magic, version, width, height, channels, capacity
_GEOMETRY = struct.Struct("<6I")
_WORD = struct.Struct("<Q")
_METRICS = struct.Struct("<3d")
_HEAD_AT = 32
_METRICS_AT = 40
_HEADER_SIZE = 64
_SLOT_HEADER = 8


class PythonFrame(NamedTuple):
    """A frame as the plain-Python reader returns it."""

    data: bytes
    metrics: FastLaneMetrics


class _PythonRing:
    def __init__(self, memory: SharedMemory, config: FastLaneConfig) -> None:
        self._memory = memory
        self._buffer = memory.buf
        self.config = config
        self._frame_size = config.frame_size
        self._slot_size = _SLOT_HEADER + config.frame_size

    def close(self) -> None:
        """Let go of the mapping."""
        self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class PythonRingWriter(_PythonRing):
    """The one writer."""

    @classmethod
    def create(cls, name: str, config: FastLaneConfig) -> Self:
        """Create the ring; :meth:`close` removes it again."""
        size = _HEADER_SIZE + config.capacity * (_SLOT_HEADER + config.frame_size)
        memory = SharedMemory(name, create=True, size=size)
        geometry = (config.width, config.height, config.channels, config.capacity)
        _GEOMETRY.pack_into(memory.buf, 0, _MAGIC, 1, *geometry)
        return cls(memory, config)

    def publish(self, frame: bytes, *, metrics: FastLaneMetrics | None = None) -> int:
        """Copy a frame into the next slot and advance the head."""
        if len(frame) != self._frame_size:
            raise ValueError(f"expected {self._frame_size} bytes, got {len(frame)}")
        buffer = self._buffer
        head = _WORD.unpack_from(buffer, _HEAD_AT)[0]
        slot = _HEADER_SIZE + head % self.config.capacity * self._slot_size
        _WORD.pack_into(buffer, slot, 2 * head + 1)
        pixels = slot + _SLOT_HEADER
        buffer[pixels : pixels + self._frame_size] = frame
        if metrics is not None:
            _METRICS.pack_into(
                buffer,
                _METRICS_AT,
                metrics.last_reward,
                metrics.rolling_return,
                metrics.step_rate_hz,
            )
        _WORD.pack_into(buffer, slot, 2 * head + 2)
        _WORD.pack_into(buffer, _HEAD_AT, head + 1)
        return int(head + 1)

    def close(self) -> None:
        """Let go of the mapping and remove the name, so that nothing is left to be tracked."""
        super().close()
        self._memory.unlink()


class PythonRingReader(_PythonRing):
    """The one reader."""

    @classmethod
    def attach(cls, name: str) -> Self:
        """Join a ring.

        Before Python 3.13 attaching registers the name with the resource tracker once more; a child
        of the writer's process shares its tracker, for which the second time changes nothing.
        """
        memory = SharedMemory(name)
        magic, _, width, height, channels, capacity = _GEOMETRY.unpack_from(memory.buf, 0)
        if magic != _MAGIC:
            raise ValueError(f"{name} is no ring")
        return cls(memory, FastLaneConfig(width, height, channels, capacity=capacity))

    def latest_frame(self) -> PythonFrame | None:
        """Return the newest frame that looks whole: one sequence number before and after."""
        buffer = self._buffer
        head = _WORD.unpack_from(buffer, _HEAD_AT)[0]
        for back in range(1, min(head, self.config.capacity) + 1):
            slot = _HEADER_SIZE + (head - back) % self.config.capacity * self._slot_size
            before = _WORD.unpack_from(buffer, slot)[0]
            if before % 2 == 1:
                continue
            pixels = slot + _SLOT_HEADER
            data = bytes(buffer[pixels : pixels + self._frame_size])
            if _WORD.unpack_from(buffer, slot)[0] == before:
                return PythonFrame(data, self.metrics())
        return None

    def metrics(self) -> FastLaneMetrics:
        """Return the HUD numbers from the header."""
        return FastLaneMetrics(*_METRICS.unpack_from(self._buffer, _METRICS_AT))
