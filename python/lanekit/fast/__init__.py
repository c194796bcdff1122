"""The fast lane: one training worker's frames to any number of viewers; the newest one wins."""

from lanekit.fast.environment import (
    FastLaneEnvironment,
    apply_fastlane_environment,
    read_fastlane_environment,
)
from lanekit.fast.frame import (
    FastLaneConfig,
    FastLaneFrame,
    FastLaneFrameInfo,
    FastLaneMetrics,
    FastLaneStats,
    PixelFormat,
)
from lanekit.fast.reader import FastLaneReader, FramePeek
from lanekit.fast.tiling import tile_frames, tile_frames_into, tile_grid, tile_shape
from lanekit.fast.writer import FastLaneWriter, Reservation
from lanekit.segments import segment_name


def create_fastlane_name(run_id: str) -> str:
    """Return the name of a run's fast-lane segment: ``segment_name("frame", run_id)``."""
    return segment_name("frame", run_id)


__all__ = [
    "FastLaneConfig",
    "FastLaneEnvironment",
    "FastLaneFrame",
    "FastLaneFrameInfo",
    "FastLaneMetrics",
    "FastLaneReader",
    "FastLaneStats",
    "FastLaneWriter",
    "FramePeek",
    "PixelFormat",
    "Reservation",
    "apply_fastlane_environment",
    "create_fastlane_name",
    "read_fastlane_environment",
    "tile_frames",
    "tile_frames_into",
    "tile_grid",
    "tile_shape",
]
