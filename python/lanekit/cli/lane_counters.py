"""What `lanekit top` reads of each lane, and what follows from two readings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lanekit import errors
from lanekit.fast.frame import inspect_frames
from lanekit.segments import SegmentInfo, SegmentKind, scan_segments
from lanekit.step import inspect_steps
from lanekit.trajectory.statistics import inspect_trajectory_segment


@dataclass(frozen=True)
class Counters:
    """One reading of a lane. What a kind of lane does not count is None."""

    unit: str
    """What `count` counts."""
    count: int
    bytes: int
    peers: int
    places: int | None = None
    """How many peers there is room for."""
    depth: int | None = None
    """How many wait in the lane."""
    depth_bytes: int | None = None
    stalls: int | None = None
    """How often somebody had to wait for room."""
    waiting: int = 0
    """How many wait for room right now."""
    details: list[dict[str, Any]] = field(default_factory=list)


def count_frames(info: SegmentInfo) -> Counters:
    """Read a fast lane: nothing waits in it, and nobody waits for it."""
    found = inspect_frames(info.name)
    return Counters(
        unit="frames",
        count=found.head,
        bytes=found.head * found.config.frame_size,
        peers=found.viewers,
    )


def count_steps(info: SegmentInfo) -> Counters:
    """Read a step lane: an exchange carries all actions there and all observations back."""
    found = inspect_steps(info.name)
    return Counters(
        unit="exchanges",
        count=found.state.completed,
        bytes=found.state.completed * found.exchange_bytes,
        peers=int(found.state.client_alive),
        places=1,
        depth=found.state.sent - found.state.completed,
        depth_bytes=(found.state.sent - found.state.completed) * found.exchange_bytes,
    )


def count_records(info: SegmentInfo) -> Counters:
    """Read a trajectory lane."""
    found = inspect_trajectory_segment(info.name)
    stats = found.stats
    return Counters(
        unit="records",
        count=stats.records,
        bytes=stats.bytes,
        peers=len(stats.producers),
        places=len(stats.rings),
        depth=stats.depth,
        depth_bytes=stats.depth_bytes,
        stalls=stats.stalls,
        waiting=sum(ring.waiting for ring in stats.producers),
        details=[
            {
                "pid": ring.pid,
                "records": ring.records,
                "bytes": ring.bytes,
                "depth": ring.depth,
                "stalls": ring.stalls,
                "stalled_seconds": round(ring.stalled_seconds, 6),
                "waiting": ring.waiting,
            }
            for ring in stats.producers
        ],
    )


# One reader for each kind of lane.
READERS: dict[SegmentKind, Callable[[SegmentInfo], Counters]] = {
    "frame": count_frames,
    "step": count_steps,
    "traj": count_records,
}


@dataclass(frozen=True)
class Reading:
    """A lane at one moment; `counters` is None if it could not be read."""

    info: SegmentInfo
    counters: Counters | None
    taken_ns: int


@dataclass(frozen=True)
class Movement:
    """A lane and how fast it moves, from two readings; rates are None after only one."""

    reading: Reading
    per_second: float | None
    bytes_per_second: float | None
    stalls_per_second: float | None

    @property
    def owner(self) -> str:
        """The owner's pid and state."""
        return self.reading.info.owner_text

    def to_json(self) -> dict[str, Any]:
        """Return everything known, for other programs."""
        info, counters = self.reading.info, self.reading.counters
        out: dict[str, Any] = {
            "name": info.name,
            "kind": info.kind,
            "run": info.run_id,
            "owner_pid": info.owner_pid,
            "owner": info.owner,
            "owner_uid": info.owner_uid,
            "invalidated": info.invalidated,
            "age_seconds": time.time() - info.created_unix_ns / 1e9,
            "per_second": self.per_second,
            "bytes_per_second": self.bytes_per_second,
            "stalls_per_second": self.stalls_per_second,
        }
        if counters is not None:
            out |= {
                "unit": counters.unit,
                "count": counters.count,
                "bytes": counters.bytes,
                "peers": counters.peers,
                "places": counters.places,
                "depth": counters.depth,
                "depth_bytes": counters.depth_bytes,
                "stalls": counters.stalls,
                "waiting": counters.waiting,
                "producers": counters.details,
            }
        return out


def read_lanes() -> dict[str, Reading]:
    """Read every lane of this machine that can be read."""
    found = {}
    for info in scan_segments():
        if isinstance(info, tuple):
            continue
        counters = None
        reader = READERS.get(info.kind)
        if reader is not None:
            try:
                counters = reader(info)
            except errors.SegmentNotFound:
                continue  # it went away between listing and looking
            except errors.LanekitError:
                counters = None
        found[info.name] = Reading(info, counters, time.monotonic_ns())
    return found


def movements(before: dict[str, Reading], now: dict[str, Reading]) -> list[Movement]:
    """Return all lanes, the busiest first."""
    moved = [_movement(before.get(name), reading) for name, reading in now.items()]
    return sorted(moved, key=lambda m: (-(m.bytes_per_second or 0.0), m.reading.info.name))


def _movement(before: Reading | None, now: Reading) -> Movement:
    old = None if before is None else before.counters
    new = now.counters
    same = before is not None and before.info.created_unix_ns == now.info.created_unix_ns
    if old is None or new is None or before is None or not same:
        return Movement(now, None, None, None)
    seconds = max(1, now.taken_ns - before.taken_ns) / 1e9
    stalls = None if new.stalls is None else (new.stalls - (old.stalls or 0)) / seconds
    return Movement(
        now, (new.count - old.count) / seconds, (new.bytes - old.bytes) / seconds, stalls
    )
