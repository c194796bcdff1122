"""lanekit moves data between the processes of a reinforcement-learning run.

>>> import lanekit
>>> config = lanekit.FastLaneConfig(width=84, height=84)
>>> writer = lanekit.FastLaneWriter.create("my-run", config)
"""

from typing import TYPE_CHECKING

from lanekit.errors import (
    BadSegmentGeometry,
    CommandError,
    ConcurrentUse,
    FrameOverwritten,
    GeometryChanged,
    HandleClosed,
    HandleError,
    HandleForked,
    LanekitError,
    MalformedMessage,
    OutOfSharedMemory,
    OutOfTurn,
    PeerLost,
    PlaceTaken,
    RemoteError,
    ReplyTimeout,
    SchemaMismatch,
    SegmentCorrupt,
    SegmentError,
    SegmentExists,
    SegmentInvalidated,
    SegmentNotFound,
    SegmentNotReady,
    SegmentPermissionDenied,
    SegmentTruncated,
    SegmentUnusable,
    TooLarge,
    UnknownMethod,
    WaitTimeout,
    WrongSegmentKind,
    WrongSegmentVersion,
)
from lanekit.fast import (
    FastLaneConfig,
    FastLaneEnvironment,
    FastLaneFrame,
    FastLaneFrameInfo,
    FastLaneMetrics,
    FastLaneReader,
    FastLaneStats,
    FastLaneWriter,
    FramePeek,
    Reservation,
    apply_fastlane_environment,
    create_fastlane_name,
    read_fastlane_environment,
    tile_frames,
    tile_frames_into,
    tile_shape,
)
from lanekit.segments import SegmentInfo, inspect_segment, reclaim_segment, segment_name
from lanekit.step import (
    StepClient,
    StepExchange,
    StepGpu,
    StepLaneConfig,
    StepResult,
    StepServer,
    StepState,
)
from lanekit.trajectory import (
    TrajectoryBatch,
    TrajectoryField,
    TrajectoryReader,
    TrajectoryRecord,
    TrajectoryReservation,
    TrajectorySchema,
    TrajectoryStats,
    TrajectoryWriter,
    inspect_trajectory_lane,
)

if TYPE_CHECKING:
    __version__: str

__all__ = [
    "BadSegmentGeometry",
    "CommandError",
    "ConcurrentUse",
    "FastLaneConfig",
    "FastLaneEnvironment",
    "FastLaneFrame",
    "FastLaneFrameInfo",
    "FastLaneMetrics",
    "FastLaneReader",
    "FastLaneStats",
    "FastLaneWriter",
    "FrameOverwritten",
    "FramePeek",
    "GeometryChanged",
    "HandleClosed",
    "HandleError",
    "HandleForked",
    "LanekitError",
    "MalformedMessage",
    "OutOfSharedMemory",
    "OutOfTurn",
    "PeerLost",
    "PlaceTaken",
    "RemoteError",
    "ReplyTimeout",
    "Reservation",
    "SchemaMismatch",
    "SegmentCorrupt",
    "SegmentError",
    "SegmentExists",
    "SegmentInfo",
    "SegmentInvalidated",
    "SegmentNotFound",
    "SegmentNotReady",
    "SegmentPermissionDenied",
    "SegmentTruncated",
    "SegmentUnusable",
    "StepClient",
    "StepExchange",
    "StepGpu",
    "StepLaneConfig",
    "StepResult",
    "StepServer",
    "StepState",
    "TooLarge",
    "TrajectoryBatch",
    "TrajectoryField",
    "TrajectoryReader",
    "TrajectoryRecord",
    "TrajectoryReservation",
    "TrajectorySchema",
    "TrajectoryStats",
    "TrajectoryWriter",
    "UnknownMethod",
    "WaitTimeout",
    "WrongSegmentKind",
    "WrongSegmentVersion",
    "__version__",
    "apply_fastlane_environment",
    "create_fastlane_name",
    "inspect_segment",
    "inspect_trajectory_lane",
    "read_fastlane_environment",
    "reclaim_segment",
    "segment_name",
    "tile_frames",
    "tile_frames_into",
    "tile_shape",
]


def __getattr__(name: str) -> str:
    """Look the version up when it is asked for: that takes longer than all other imports here."""
    if name != "__version__":
        raise AttributeError(f"module 'lanekit' has no attribute {name!r}")
    from importlib.metadata import version

    return version("lanekit")
