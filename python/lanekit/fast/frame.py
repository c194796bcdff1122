"""What travels over the fast lane: configuration, metrics, frames."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from lanekit._core import CData, check, ffi, lib

PixelFormat = Literal["RGB", "RGBA", "BGRX", "GRAY"]

CHANNELS: dict[str, int] = {"RGB": 3, "RGBA": 4, "BGRX": 4, "GRAY": 1}
FORMAT_CODES: dict[str, int] = {
    "RGB": lib.LK_PIXEL_RGB,
    "RGBA": lib.LK_PIXEL_RGBA,
    "BGRX": lib.LK_PIXEL_BGRX,
    "GRAY": lib.LK_PIXEL_GRAY,
}
_FORMATS: dict[int, PixelFormat] = {
    lib.LK_PIXEL_RGB: "RGB",
    lib.LK_PIXEL_RGBA: "RGBA",
    lib.LK_PIXEL_BGRX: "BGRX",
    lib.LK_PIXEL_GRAY: "GRAY",
}
_UINT32_MAX = 2**32 - 1


@dataclass(frozen=True)
class FastLaneConfig:
    """The geometry of a run's frames.

    ``capacity`` is the number of frames the ring holds; ``metadata_size`` the bytes reserved for
    each frame's metadata. ``BGRX`` is what SDL and Qt hold natively.
    """

    width: int
    height: int
    channels: int = 3
    pixel_format: PixelFormat = "RGB"
    capacity: int = 128
    metadata_size: int = 0

    def __post_init__(self) -> None:
        for name in ("width", "height", "channels", "capacity", "metadata_size"):
            value = getattr(self, name)
            least = 0 if name == "metadata_size" else 1
            if not isinstance(value, int | np.integer) or isinstance(value, bool):
                raise TypeError(f"{name} must be an int, not {type(value).__name__}")
            if not least <= value <= _UINT32_MAX:
                raise ValueError(f"{name} must be {least} to {_UINT32_MAX}, not {value}")
            object.__setattr__(self, name, int(value))
        if self.pixel_format not in CHANNELS:
            raise ValueError(
                f"unknown pixel format {self.pixel_format!r}; known: {', '.join(CHANNELS)}"
            )
        if self.channels != CHANNELS[self.pixel_format]:
            raise ValueError(
                f"pixel format {self.pixel_format} has {CHANNELS[self.pixel_format]} channels, "
                f"not {self.channels}: pass channels={CHANNELS[self.pixel_format]}"
            )
        if lib.lk_frame_segment_size(self.to_c()) < 0:
            raise ValueError(
                f"impossible geometry {self.width}x{self.height}, capacity {self.capacity}, "
                f"metadata_size {self.metadata_size}: sides go up to 65536, capacity to 1048576, "
                "metadata to 64 MiB per frame, a segment to 16 TiB"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of a frame's array: height, width, channels."""
        return self.height, self.width, self.channels

    @property
    def frame_size(self) -> int:
        """Bytes of one frame's pixels."""
        return self.width * self.height * self.channels

    @property
    def segment_size(self) -> int:
        """Bytes of shared memory that a run with this geometry takes."""
        return lib.lk_frame_segment_size(self.to_c())

    def to_c(self) -> CData:
        """Return the configuration as the core's struct."""
        return ffi.new(
            "struct lk_frame_config *",
            (
                self.width,
                self.height,
                self.channels,
                FORMAT_CODES[self.pixel_format],
                self.capacity,
                self.metadata_size,
            ),
        )

    @classmethod
    def from_c(cls, struct: CData) -> FastLaneConfig:
        """Return the configuration that a core's struct holds."""
        return cls(
            width=struct.width,
            height=struct.height,
            channels=struct.channels,
            pixel_format=_FORMATS[struct.pixel_format],
            capacity=struct.capacity,
            metadata_size=struct.metadata_size,
        )


@dataclass(frozen=True, slots=True, weakref_slot=True)
class FastLaneMetrics:
    """The numbers a viewer shows beside the picture."""

    last_reward: float = 0.0
    rolling_return: float = 0.0
    step_rate_hz: float = 0.0


@dataclass(frozen=True, slots=True, weakref_slot=True)
class FastLaneFrame:
    """One frame, copied out of the ring: pixels, metrics and metadata belong together."""

    data: bytes
    width: int
    height: int
    channels: int
    metrics: FastLaneMetrics
    metadata: bytes | None
    seq: int
    """1 for the writer's first frame, then one more for each."""
    timestamp_ns: int
    """When it was published, on CLOCK_MONOTONIC (``time.monotonic_ns()``)."""
    pixel_format: PixelFormat = "RGB"
    skipped: int = 0
    """How many frames this reader passed over since the one it had before."""

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """The pixels as a read-only array of shape (height, width, channels), without a copy."""
        pixels = np.frombuffer(self.data, dtype=np.uint8)
        return pixels.reshape(self.height, self.width, self.channels)


@dataclass(frozen=True)
class FastLaneFrameInfo:
    """Everything about a frame but its pixels."""

    seq: int
    timestamp_ns: int
    metrics: FastLaneMetrics
    metadata: bytes | None
    skipped: int


@dataclass(frozen=True)
class FastLaneStats:
    """What a reader has been through."""

    frames_read: int
    skipped: int
    """Frames this reader never had, because it was slower than the writer."""
    retries: int
    """Copies thrown away because the writer overwrote them meanwhile."""
    starved: int
    """Reads that gave up because the writer overwrote every attempt."""
    reattached: int
    """How often the reader moved on to a new writer."""


@dataclass(frozen=True)
class FastLaneStatus:
    """What a fast-lane segment's header says about its traffic."""

    config: FastLaneConfig
    head: int
    """Frames published so far."""
    viewers: int
    """Readers whose process is alive; the table lists up to 32."""


def inspect_frames(name: str) -> FastLaneStatus:
    """Read the traffic of a fast-lane segment without joining it."""
    out = ffi.new("struct lk_frame_status *")
    check(lib.lk_frame_inspect(os.fsencode(name), out), f"segment {name}")
    return FastLaneStatus(FastLaneConfig.from_c(out.config), out.head, out.viewers)
