"""The one place where Python meets the C core.

Nothing else imports the cffi extension. :func:`check` is the one way from a C status to a Python
exception, :func:`shared_array` the one way from C memory to numpy, :func:`finalize_at_exit` the one
way to end a handle that nobody closed.
"""

from __future__ import annotations

import errno
import functools
import math
import os
import pwd
import re
import stat
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from lanekit import errors
from lanekit._native import (
    FrameReader,
    FrameWriter,
    RecordPutter,
    TakenRecord,
    copy_records,
    ffi,
    hand_out_records,
    lib,
)

if TYPE_CHECKING:
    from lanekit._native import CData
else:
    CData = ffi.CData

__all__ = [
    "CData",
    "FrameReader",
    "FrameWriter",
    "RecordPutter",
    "TakenRecord",
    "address_of",
    "check",
    "copy_records",
    "fail",
    "ffi",
    "finalize_at_exit",
    "hand_out_records",
    "lib",
    "shared_array",
]

SHM_DIRECTORY = "/dev/shm"
REMEDY_OF_READ_ONLY = (
    f"mount -o remount,rw {SHM_DIRECTORY} (as root); a container gets one of its own with --tmpfs "
    f"{SHM_DIRECTORY}:rw,size=2g"
)

WaitStrategy = Literal["hybrid", "spin", "block"]

STRATEGIES: dict[str, int] = {
    "hybrid": lib.LK_WAIT_HYBRID,
    "spin": lib.LK_WAIT_SPIN,
    "block": lib.LK_WAIT_BLOCK,
}
SLICE_NS = 50_000_000
"""Waits return to Python this often, so that Ctrl-C works."""

# status -> (exception, what it means and what to do). "{what}" names the segment or handle.
_MEANINGS: dict[int, tuple[type[Exception], str]] = {
    lib.LK_E_INVALID: (ValueError, "{what}: an argument is outside its range"),
    lib.LK_E_NOT_FOUND: (
        errors.SegmentNotFound,
        "{what}: no such segment; start its writer first, `lanekit ls` lists the runs of this "
        "machine",
    ),
    lib.LK_E_NOT_READY: (
        errors.SegmentNotReady,
        "{what}: still being created; try again in a moment",
    ),
    lib.LK_E_EXISTS: (
        errors.SegmentExists,
        "{what}: already owned by a live process; use another run id, or end that process",
    ),
    lib.LK_E_WRONG_KIND: (
        errors.WrongSegmentKind,
        "{what}: exists, but is not a lanekit segment of this kind; if nothing uses it, "
        "`lanekit clean --force NAME` removes it",
    ),
    lib.LK_E_WRONG_VERSION: (
        errors.WrongSegmentVersion,
        "{what}: written by a lanekit with another layout version; use the same lanekit on both "
        "sides",
    ),
    lib.LK_E_TRUNCATED: (
        errors.SegmentTruncated,
        "{what}: shorter than its header says; another process cut it. Restart the writer",
    ),
    lib.LK_E_BAD_GEOMETRY: (
        errors.BadSegmentGeometry,
        "{what}: the sizes in its header contradict each other. Restart the writer",
    ),
    lib.LK_E_CORRUPT: (
        errors.SegmentCorrupt,
        "{what}: its state was overwritten by something that is not a lanekit writer. Restart the "
        "writer",
    ),
    lib.LK_E_NO_SPACE: (errors.OutOfSharedMemory, "{what}: shared memory is full"),
    lib.LK_E_CLOSED: (errors.HandleClosed, "{what}: this handle was closed"),
    lib.LK_E_FORKED: (
        errors.HandleForked,
        "{what}: this handle was opened before a fork; create or attach again in this process",
    ),
    lib.LK_E_CONCURRENT: (
        errors.ConcurrentUse,
        "{what}: two threads used one handle at the same time; give each thread its own reader, or "
        "put a lock around the writer",
    ),
    lib.LK_E_INVALIDATED: (
        errors.SegmentInvalidated,
        "{what}: marked as left, by invalidate() or by a process that took over; create a new "
        "writer",
    ),
    lib.LK_E_RESERVED: (
        ValueError,
        "{what}: a reserved slot is still open; commit or abandon it first",
    ),
    lib.LK_E_NOT_RESERVED: (ValueError, "{what}: this reservation has ended already"),
    lib.LK_E_TOO_MANY: (
        errors.SegmentError,
        "{what}: this process has 1024 segments open, which is the limit; close some",
    ),
    lib.LK_E_OVERWRITTEN: (
        errors.FrameOverwritten,
        "{what}: the writer overwrote this frame while it was looked at; copy it with read_into, "
        "or create the writer with a larger capacity",
    ),
    lib.LK_E_PEER_LOST: (errors.PeerLost, "{what}: the process at the other end died or left"),
    lib.LK_E_TAKEN: (
        errors.PlaceTaken,
        "{what}: another live process is attached at this end; end that one first",
    ),
    lib.LK_E_OUT_OF_TURN: (errors.OutOfTurn, "{what}: not now: the exchange is in another state"),
    lib.LK_E_TOO_LARGE: (errors.TooLarge, "{what}: larger than the lane can carry in one piece"),
    lib.LK_E_SCHEMA: (
        errors.SchemaMismatch,
        "{what}: its records have another schema than the one asked for",
    ),
}


def fail(status: int, what: str) -> NoReturn:
    """Raise the exception that belongs to a negative status."""
    if status == lib.LK_E_SYSTEM:
        code = ffi.errno
        raise errors.SegmentError(f"{what}: {_refusal(code)}")
    if status in (lib.LK_E_PERMISSION, lib.LK_E_UNTRUSTED):
        raise errors.SegmentPermissionDenied(f"{what}: {_distrust(what)}")
    if status not in _MEANINGS:
        name = ffi.string(lib.lk_status_name(status)).decode()
        raise errors.LanekitError(f"{what}: unexpected status {name} ({status})")
    kind, meaning = _MEANINGS[status]
    raise kind(meaning.format(what=what))


def _refusal(code: int) -> str:
    """Say why the system refused, and what to do where the place of all segments is the reason."""
    if code == errno.ENOENT and not os.path.isdir(SHM_DIRECTORY):
        return (
            f"this machine has no {SHM_DIRECTORY}; mount one: mount -t tmpfs tmpfs {SHM_DIRECTORY}"
        )
    refused = f"the operating system refused: {os.strerror(code)}"
    if code == errno.EROFS:
        return f"{refused}: {SHM_DIRECTORY} is mounted read-only; {REMEDY_OF_READ_ONLY}"
    return refused


def _distrust(what: str) -> str:
    """Say why the file that `what` names is not to be used: whose it is, and the remedy."""
    found = re.search(r"lanekit-[\w.-]+", what)
    path = os.path.join(SHM_DIRECTORY, found.group() if found else "")
    remedy = "use another run id"
    try:
        info = os.lstat(path)
    except OSError:
        return f"not this user's to use; {remedy}, or run as the user that it belongs to"
    owner = user_name(info.st_uid)
    ours = info.st_uid == os.geteuid()
    removal = f"`lanekit clean --force {os.path.basename(path)}` removes it"
    if not stat.S_ISREG(info.st_mode):
        kind = _FILE_KINDS.get(stat.S_IFMT(info.st_mode), "a special file")
        if ours and stat.S_ISDIR(info.st_mode):
            return f"{path} is {kind}, not a segment; remove it: rm -r {path}"
        if ours:
            return f"{path} is {kind}, not a segment; {removal}"
        return f"{path} is {kind} of {owner}, not a segment; {remedy}, or as root: rm {path}"
    if not ours:
        return (
            f"belongs to {owner}, and this process runs as {user_name(os.geteuid())}; {remedy}, "
            f"run as that user, or pass allow_uid={info.st_uid} if the two share it on purpose"
        )
    mode = stat.S_IMODE(info.st_mode)
    return (
        f"others may write to it (mode {mode:04o}), so nobody can trust its content; {removal}, or "
        f"chmod 600 {path} if it was opened up by mistake"
    )


_FILE_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def user_name(uid: int) -> str:
    """Return a user as people know it."""
    try:
        return f"user {pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def uid_pointer(allow_uid: int | None) -> CData:
    """Return what the core's attach calls take for `allow_uid`; None trusts nobody else."""
    if allow_uid is None:
        return ffi.NULL
    if not isinstance(allow_uid, int) or not 0 <= allow_uid < 2**32 - 1:
        raise ValueError(f"allow_uid is a user's number or None, not {allow_uid!r}")
    return ffi.new("uint32_t *", allow_uid)


def check(status: int, what: str) -> int:
    """Pass a result on, or raise what its status means."""
    if status < 0:
        fail(status, what)
    return status


def address_of(pointer: CData) -> int:
    """Return a pointer as a number, for the part of the extension that is not cffi's."""
    address: int = ffi.cast("uintptr_t", pointer).__int__()
    return address


def shared_array(
    lend: Callable[[CData, CData], int], what: str, shape: tuple[int, ...], *, writable: bool
) -> npt.NDArray[np.uint8]:
    """Return an array over shared memory; the mapping stays as long as the array does.

    `lend(segment, address)` fills in a reference to the mapping and where the pixels are.
    """
    segment, address = ffi.new("lk_segment **"), ffi.new("void **")
    check(lend(segment, address), what)
    # The array's base is the buffer, the buffer keeps the pointer, the pointer's destructor gives
    # the reference back: no view can outlive its memory, whatever is closed meanwhile.
    release = functools.partial(_release, segment[0])
    anchor = ffi.gc(ffi.cast("uint8_t *", address[0]), release)
    view = memoryview(ffi.buffer(anchor, math.prod(shape)))
    if not writable:
        view = view.toreadonly()
    return np.frombuffer(view, dtype=np.uint8).reshape(shape)


def _release(segment: CData, _: CData) -> None:
    lib.lk_segment_release(segment)


def finalize_at_exit(
    owner: object, end: Callable[[CData], object], handle: CData
) -> weakref.finalize[[CData], Any]:
    """Call ``end(handle)`` when `owner` is collected or the process ends, whichever is first."""
    finalizer = weakref.finalize(owner, end, handle)
    # Children of `multiprocessing` leave through os._exit, which skips atexit; they run this list.
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is not None and process is not None and process.parent_process() is not None:
        util.Finalize(None, finalizer, exitpriority=0)
    return finalizer


def protect_process() -> None:
    """Install the core's signal handlers; see ``lk_process_protect`` in lanekit_api.h."""
    lib.lk_process_protect()


def seconds_to_ns(timeout: float | None) -> int | None:
    """Return a timeout in nanoseconds, None for one without end; below zero means at once."""
    if timeout is None:
        return None
    if not isinstance(timeout, int | float | np.number):
        raise TypeError(f"a timeout is a number of seconds or None, not {type(timeout).__name__}")
    if math.isnan(timeout):
        raise ValueError("a timeout must not be NaN")
    return None if timeout > 1e9 else max(0, int(timeout * 1e9))


def attach_patiently(
    attempt: Callable[[], int], timeout: float | None, passing: tuple[int, ...]
) -> int:
    """Return what `attempt` answers; one of `passing` only after `timeout` seconds of trying."""
    patience = seconds_to_ns(timeout)
    deadline = None if patience is None else time.monotonic_ns() + patience
    while (status := attempt()) in passing:
        if deadline is not None and time.monotonic_ns() >= deadline:
            break
        time.sleep(0.01)
    return status


@dataclass(frozen=True)
class PlatformInfo:
    """What the core can do on this machine."""

    atomics_lock_free: bool
    futex_works: bool
    layout_major: int
    layout_minor: int
    copy_method: str
    compiler: str


def platform_info() -> PlatformInfo:
    """Ask the core what it found."""
    out = ffi.new("struct lk_platform_info *")
    check(lib.lk_platform_describe(out), "platform")
    return PlatformInfo(
        atomics_lock_free=bool(out.atomics_lock_free),
        futex_works=bool(out.futex_works),
        layout_major=out.layout_major,
        layout_minor=out.layout_minor,
        copy_method=ffi.string(out.copy_method).decode(),
        compiler=ffi.string(out.compiler).decode(),
    )
