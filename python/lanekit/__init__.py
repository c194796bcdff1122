"""lanekit moves data between the processes of a reinforcement-learning run.

>>> import lanekit
>>> config = lanekit.FastLaneConfig(width=84, height=84)
>>> writer = lanekit.FastLaneWriter.create("my-run", config)
"""

from importlib import import_module
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

if TYPE_CHECKING:
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

# The lanes need numpy and the extension, which take longer to load than all the rest: each is
# loaded when a name of it is first asked for. A worker that only writes events never does.
_LANES = {
    "lanekit.fast": (
        "FastLaneConfig",
        "FastLaneEnvironment",
        "FastLaneFrame",
        "FastLaneFrameInfo",
        "FastLaneMetrics",
        "FastLaneReader",
        "FastLaneStats",
        "FastLaneWriter",
        "FramePeek",
        "Reservation",
        "apply_fastlane_environment",
        "create_fastlane_name",
        "read_fastlane_environment",
        "tile_frames",
        "tile_frames_into",
        "tile_shape",
    ),
    "lanekit.segments": ("SegmentInfo", "inspect_segment", "reclaim_segment", "segment_name"),
    "lanekit.step": (
        "StepClient",
        "StepExchange",
        "StepGpu",
        "StepLaneConfig",
        "StepResult",
        "StepServer",
        "StepState",
    ),
    "lanekit.trajectory": (
        "TrajectoryBatch",
        "TrajectoryField",
        "TrajectoryReader",
        "TrajectoryRecord",
        "TrajectoryReservation",
        "TrajectorySchema",
        "TrajectoryStats",
        "TrajectoryWriter",
        "inspect_trajectory_lane",
    ),
}
_HOMES = {name: lane for lane, names in _LANES.items() for name in names}

if not TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> object:
        if name == "__version__":  # looked up when it is asked for, since that takes its time too
            from importlib.metadata import version

            return version("lanekit")
        if name in _HOMES:
            value = globals()[name] = getattr(import_module(_HOMES[name]), name)
            return value
        if f"lanekit.{name}" in _LANES:
            return import_module(f"lanekit.{name}")
        raise AttributeError(f"module 'lanekit' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name what is there to be asked for, loaded or not."""
    return sorted({*globals(), *__all__})
