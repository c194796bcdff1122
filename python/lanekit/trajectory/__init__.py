"""The trajectory lane: many rollout workers, one trainer, every record exactly once."""

from lanekit.trajectory.reader import TrajectoryReader
from lanekit.trajectory.record import TrajectoryBatch, TrajectoryRecord
from lanekit.trajectory.schema import TrajectoryField, TrajectorySchema
from lanekit.trajectory.statistics import (
    ProducerStats,
    TrajectoryLaneInfo,
    TrajectoryStats,
    inspect_trajectory_lane,
)
from lanekit.trajectory.writer import TrajectoryReservation, TrajectoryWriter

__all__ = [
    "ProducerStats",
    "TrajectoryBatch",
    "TrajectoryField",
    "TrajectoryLaneInfo",
    "TrajectoryReader",
    "TrajectoryRecord",
    "TrajectoryReservation",
    "TrajectorySchema",
    "TrajectoryStats",
    "TrajectoryWriter",
    "inspect_trajectory_lane",
]
