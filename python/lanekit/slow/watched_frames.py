"""What a watcher of frames asks for and gets: the same words on both sides of the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from lanekit.fast.frame import FastLaneMetrics, PixelFormat

Encoding = Literal["jpeg", "webp", "png", "raw"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
DEFAULT_QUALITY = 85

DEFAULT_RATE = 30.0
MIN_RATE, MAX_RATE = 0.02, 240.0
"""Frames per second that a watcher may ask for."""

Status = Literal["connected", "reconnecting", "fastlane-unavailable"]
"""The local viewer's words: publishing; its writer left or died; there was none yet."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a watcher wants made of a frame. Equal recipes share one picture."""

    encoding: Encoding = "jpeg"
    max_width: int = 0
    """A wider frame is made smaller, in proportion. 0: as wide as it is."""
    max_height: int = 0
    quality: int = DEFAULT_QUALITY
    """1 (small) to 100 (faithful), for JPEG and WebP."""

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise ValueError(f"an encoding is one of {', '.join(ENCODINGS)}; got {self.encoding!r}")
        if self.max_width < 0 or self.max_height < 0:
            raise ValueError(f"a picture can not be {self.max_width}x{self.max_height}")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"quality goes from 1 to 100; got {self.quality}")

    def size_of(self, width: int, height: int) -> tuple[int, int]:
        """Return the size that a frame of this size gets: never larger, never less than a pixel."""
        shares = [1.0]
        if self.max_width:
            shares.append(self.max_width / width)
        if self.max_height:
            shares.append(self.max_height / height)
        scale = min(shares)
        return max(1, round(width * scale)), max(1, round(height * scale))


@dataclass(frozen=True, slots=True)
class Picture:
    """A frame as it travels."""

    data: bytes
    width: int
    height: int
    encoding: Encoding
    pixel_format: PixelFormat
    """Of raw data. The other encodings are RGB, or GRAY if the frame was."""


@dataclass(frozen=True, slots=True)
class WatchedFrame:
    """A frame, encoded, with all that was published with it."""

    picture: Picture
    source_width: int
    """As the worker published it; the picture may be smaller."""
    source_height: int
    seq: int
    published_unix_ns: int
    """By the wall clock of the machine that it was published on."""
    metrics: FastLaneMetrics
    metadata: bytes | None
    skipped: int
    """Frames that were published since the one this watch gave before, and passed over."""
    age_ns: int = 0
    """From when it was published to when it was ready to be sent."""


@dataclass(frozen=True, slots=True)
class FrameUpdate:
    """What a watch gives: mostly a frame; else a change of status, or numbers in a silence."""

    status: Status
    frame: WatchedFrame | None = None
    """None: no frame is new. Said when the status changes, and once a second in a silence."""
    metrics: FastLaneMetrics | None = None
    """The run's newest numbers, which may be newer than its newest frame. None before any."""
    problem: str = ""
    """Why there is no picture, in words; empty while there is nothing to say."""


@dataclass(frozen=True, slots=True)
class LaneInfo:
    """One lane of a run as its header describes it."""

    run_id: str
    lane: str
    """Empty for the run's own lane; ``env-3`` for one environment of a grid."""
    width: int
    height: int
    pixel_format: PixelFormat
    frames: int
    """Published so far."""
    viewers: int
    """Readers on that machine, the daemon among them."""
    live: bool
    """Whether somebody publishes there now."""
    created_unix_ns: int
