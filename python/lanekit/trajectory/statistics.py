"""What is counted on a trajectory lane."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lanekit._core import CData, check, ffi, lib
from lanekit.segments import Liveness, segment_name
from lanekit.trajectory.schema import TrajectorySchema

_LIVENESS: dict[int, Liveness] = {
    lib.LK_DEAD: "dead",
    lib.LK_ALIVE: "alive",
    lib.LK_UNKNOWN: "unknown",
}


@dataclass(frozen=True)
class ProducerStats:
    """One ring: the producer that has it now, and what all its producers have put."""

    ring: int
    pid: int
    """0: nobody has this ring."""
    liveness: Liveness
    waiting: bool
    """Whether the producer sleeps for room right now."""
    spoiled: bool
    """Whether its content was impossible, so that the ring is out of use."""
    session: int
    records: int
    bytes: int
    released: int
    depth_bytes: int
    stalls: int
    stalled_seconds: float

    @property
    def depth(self) -> int:
        """Records that were put, but not released. A kill may leave it one too high."""
        return max(0, self.records - self.released)

    @classmethod
    def from_c(cls, ring: int, found: CData) -> ProducerStats:
        """Read the core's struct."""
        return cls(
            ring=ring,
            pid=found.producer_pid,
            liveness=_LIVENESS[found.producer],
            waiting=bool(found.waiting),
            spoiled=bool(found.spoiled),
            session=found.session,
            records=found.records,
            bytes=found.bytes,
            released=found.released,
            depth_bytes=found.depth_bytes,
            stalls=found.stalls,
            stalled_seconds=found.stalled_ns / 1e9,
        )


@dataclass(frozen=True)
class TrajectoryStats:
    """A lane's numbers, in all and for each producer's ring."""

    rings: tuple[ProducerStats, ...]

    @property
    def producers(self) -> tuple[ProducerStats, ...]:
        """Rings whose producer is not known to be dead."""
        return tuple(ring for ring in self.rings if ring.pid and ring.liveness != "dead")

    @property
    def records(self) -> int:
        """Records put."""
        return sum(ring.records for ring in self.rings)

    @property
    def bytes(self) -> int:
        """Bytes that all producers have put so far."""
        return sum(ring.bytes for ring in self.rings)

    @property
    def released(self) -> int:
        """Records released."""
        return sum(ring.released for ring in self.rings)

    @property
    def depth(self) -> int:
        """Records that were put, but not released."""
        return sum(ring.depth for ring in self.rings)

    @property
    def depth_bytes(self) -> int:
        """Bytes of the rings that are in use."""
        return sum(ring.depth_bytes for ring in self.rings)

    @property
    def stalls(self) -> int:
        """How often producers had to wait for room."""
        return sum(ring.stalls for ring in self.rings)

    @property
    def stalled_seconds(self) -> float:
        """How long producers have waited for room, in all."""
        return sum(ring.stalled_seconds for ring in self.rings)


@dataclass(frozen=True)
class TrajectoryLaneInfo:
    """A lane seen from outside."""

    schema: TrajectorySchema
    ring_bytes: int
    record_bytes: int
    consumer_pid: int
    consumer: Liveness
    takeovers: int
    stats: TrajectoryStats


def inspect_trajectory_segment(name: str) -> TrajectoryLaneInfo:
    """Read a trajectory lane's state without joining it."""
    what = f"segment {name}"
    status = ffi.new("struct lk_traj_status *")
    fields = ffi.new("struct lk_traj_field[]", lib.LK_TRAJ_FIELDS_MAX)
    rings = ffi.new("struct lk_traj_ring_status[]", lib.LK_TRAJ_RINGS_MAX)
    check(lib.lk_traj_inspect(os.fsencode(name), status, fields, rings), what)
    config = status.config
    try:
        schema = TrajectorySchema.from_c(fields, config.fields, config.schema_version)
    except (TypeError, ValueError):
        check(lib.LK_E_CORRUPT, what)
        raise
    return TrajectoryLaneInfo(
        schema=schema,
        ring_bytes=config.ring_size,
        record_bytes=config.record_max,
        consumer_pid=status.consumer_pid,
        consumer=_LIVENESS[status.consumer],
        takeovers=status.takeovers,
        stats=TrajectoryStats(
            tuple(ProducerStats.from_c(i, rings[i]) for i in range(config.rings))
        ),
    )


def inspect_trajectory_lane(name: str) -> TrajectoryLaneInfo:
    """Read the state of the lane with this name without joining it."""
    return inspect_trajectory_segment(segment_name("traj", name))
