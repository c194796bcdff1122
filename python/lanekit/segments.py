"""Shared-memory segments as things that can be named, listed and cleaned up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lanekit import errors
from lanekit._core import SHM_DIRECTORY, check, ffi, lib, user_name

SegmentKind = Literal["frame", "step", "traj"]
Liveness = Literal["alive", "dead", "unknown"]

_KINDS: dict[int, SegmentKind] = {
    lib.LK_KIND_FRAME: "frame",
    lib.LK_KIND_STEP: "step",
    lib.LK_KIND_TRAJ: "traj",
}
_KIND_CODES: dict[str, int] = {kind: code for code, kind in _KINDS.items()}
_LIVENESS: dict[int, Liveness] = {
    lib.LK_DEAD: "dead",
    lib.LK_ALIVE: "alive",
    lib.LK_UNKNOWN: "unknown",
}
_PREFIX = "lanekit-"


def encode_run_id(run_id: str) -> bytes:
    """Return the bytes that stand for a run id; any non-empty text is one."""
    if not isinstance(run_id, str):
        raise TypeError(f"a run id is a str, not {type(run_id).__name__}")
    if not run_id:
        raise ValueError("a run id must not be empty")
    return run_id.encode("utf-8", "surrogatepass")


def segment_name(kind: SegmentKind, run_id: str) -> str:
    """Return the name that a run's segment has in ``/dev/shm``.

    Readable slug plus 64 bits of the id's SHA-256, so any id works and no two share a name.
    """
    if kind not in _KIND_CODES:
        raise ValueError(f"unknown kind of segment {kind!r}; known: {', '.join(_KIND_CODES)}")
    encoded = encode_run_id(run_id)
    out = ffi.new("char[]", 256)
    check(
        lib.lk_segment_name(_KIND_CODES[kind], encoded, len(encoded), out, len(out)),
        f"run id {run_id!r}",
    )
    return ffi.string(out).decode("ascii")


@dataclass(frozen=True)
class SegmentInfo:
    """What a segment's header says about it."""

    name: str
    kind: SegmentKind
    run_id: str
    size: int
    owner_pid: int
    owner: Liveness
    owner_uid: int
    foreign: bool
    """Whether the owner is in another pid namespace, so that its pid is a number from there."""
    invalidated: bool
    created_unix_ns: int
    heartbeat_ns: int
    """CLOCK_MONOTONIC time of the owner's last sign of life."""

    @property
    def owner_text(self) -> str:
        """The owner as lists show it: its pid and state, and what is unusual about it."""
        notes = [user_name(self.owner_uid)] if self.owner_uid != os.geteuid() else []
        notes += ["another pid namespace"] if self.foreign else []
        state = "left" if self.invalidated else self.owner
        return ", ".join([f"{self.owner_pid} {state}", *notes])

    @property
    def orphan(self) -> bool:
        """Whether nobody will write to it again, so that it may be removed."""
        return self.owner == "dead" or self.invalidated


def inspect_segment(name: str) -> SegmentInfo:
    """Read a segment's header without joining it."""
    out = ffi.new("struct lk_segment_info *")
    check(lib.lk_segment_inspect(os.fsencode(name), out), f"segment {name}")
    if out.run_id_size == 0:  # nobody can have created that, and nobody could attach to it
        check(lib.LK_E_BAD_GEOMETRY, f"segment {name}")
    return SegmentInfo(
        name=name,
        kind=_KINDS[out.kind],
        run_id=ffi.buffer(out.run_id, out.run_id_size)[:].decode("utf-8", "replace"),
        size=out.total_size,
        owner_pid=out.owner_pid,
        owner=_LIVENESS[out.owner],
        owner_uid=out.owner_uid,
        foreign=bool(out.foreign),
        invalidated=bool(out.flags & lib.LK_FLAG_INVALIDATED),
        created_unix_ns=out.created_unix_ns,
        heartbeat_ns=out.heartbeat_ns,
    )


def segment_names() -> list[str]:
    """Return the names of all lanekit segments on this machine, sorted."""
    try:
        entries = os.listdir(SHM_DIRECTORY)
    except FileNotFoundError:
        return []
    return sorted(name for name in entries if name.startswith(_PREFIX))


def scan_segments() -> Iterator[SegmentInfo | tuple[str, errors.LanekitError]]:
    """Inspect every lanekit segment; one that can not be read comes as (name, reason)."""
    for name in segment_names():
        try:
            yield inspect_segment(name)
        except errors.SegmentNotFound:
            continue  # it went away between listing and looking
        except errors.LanekitError as reason:
            yield name, reason


def reclaim_segment(name: str, *, force: bool = False) -> None:
    """Remove a segment whose owner is dead or has left; attached readers are told.

    Raises :class:`~lanekit.SegmentExists` if its owner lives, unless `force` is set, and
    :class:`~lanekit.SegmentPermissionDenied` if it is another user's, forced or not.
    """
    if not name.startswith(_PREFIX):
        raise ValueError(
            f"{name!r} is not the name of a lanekit segment: those begin with lanekit-"
        )
    check(lib.lk_segment_reclaim(os.fsencode(name), int(force)), f"segment {name}")


def owner_of(name: str) -> tuple[int, str]:
    """Return the pid that owns a segment, 0 if that cannot be told, and how to call its process."""
    out = ffi.new("struct lk_segment_info *")
    lib.lk_segment_inspect(os.fsencode(name), out)  # a refusal for its version fills this in, too
    pid = int(out.owner_pid)
    where = " of another pid namespace, such as a container's," if out.foreign else ""
    return pid, f"process {pid}{where}"


def check_orphan(name: str) -> None:
    """Raise what :func:`reclaim_segment` would raise; return if it would remove the segment."""
    check(lib.lk_segment_judge(os.fsencode(name)), f"segment {name}")


@dataclass(frozen=True)
class SharedMemorySpace:
    """How much the shared-memory file system holds and has left."""

    total: int
    free: int
    free_files: int
    read_only: bool

    def __str__(self) -> str:
        return f"{human_size(self.free)} free of {human_size(self.total)}"


def shared_memory_space() -> SharedMemorySpace:
    """Look at the shared-memory file system."""
    stat = os.statvfs(SHM_DIRECTORY)
    return SharedMemorySpace(
        total=stat.f_blocks * stat.f_frsize,
        free=stat.f_bavail * stat.f_frsize,
        free_files=stat.f_favail,
        read_only=bool(stat.f_flag & os.ST_RDONLY),
    )


def human_size(size: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def segment_path(name: str) -> Path:
    """Return where a segment is in the file system."""
    return Path(SHM_DIRECTORY) / name
