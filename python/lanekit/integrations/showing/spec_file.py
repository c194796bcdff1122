"""How an environment is made again, for a process that is not a child of the one that has it.

The process that draws gets the specs of its parent's environments over its standard input. In a
grid there are also environments in processes beside its parent. Each of these keeps its spec in a
sealed anonymous file, and the message that carries a state says which: process id, file descriptor
and digest. A spec makes its reader import and call things, so what a message says is only a hint
where to look. What is read must be a file that a process of the same user has made for exactly this
purpose, which the kernel answers for: no other user can make one, change it or open it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import weakref

from lanekit import errors

DIGEST_SIZE = 16

_NAME = "lanekit-env-spec"
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
_LARGEST = 16 << 20


def digest_of(spec: bytes) -> bytes:
    """Return what identifies a spec in messages."""
    return hashlib.blake2b(spec, digest_size=DIGEST_SIZE).digest()


class SpecFile:
    """A spec that other processes of this user can read for as long as this one lives."""

    def __init__(self, spec: bytes) -> None:
        if len(spec) > _LARGEST:
            raise ValueError(
                f"the environment's spec has {len(spec)} bytes, at most {_LARGEST} fit"
            )
        self.pid = os.getpid()
        self.descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._finalizer = weakref.finalize(self, os.close, self.descriptor)
        with open(self.descriptor, "wb", closefd=False) as file:
            file.write(spec)
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEALS)

    def close(self) -> None:
        """Forget it. May be called twice."""
        self._finalizer()


def read_spec(pid: int, descriptor: int, digest: bytes) -> bytes | None:
    """Return the spec that a process of this user keeps; None if that process has ended.

    Raises :class:`~lanekit.SegmentPermissionDenied` for another user's, and
    :class:`~lanekit.SegmentCorrupt` for anything that is not such a file.
    """
    what = f"environment spec {descriptor} of process {pid}"
    path = f"/proc/{pid}/fd/{descriptor}"
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except FileNotFoundError:
        return None
    _expect_own(owner, what)
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        raise errors.SegmentPermissionDenied(
            f"{what} cannot be opened: {error.strerror}. Environments of a grid must run as the "
            "same user, in processes that may look at each other (/proc)"
        ) from error
    try:
        spec = _content_of(opened, what)
    finally:
        os.close(opened)
    if digest_of(spec) != digest:
        raise errors.SegmentCorrupt(f"{what} is not the spec that its state belongs to")
    return spec


def _content_of(descriptor: int, what: str) -> bytes:
    """Return what an open file holds, if it is one that :class:`SpecFile` has made."""
    found = os.fstat(descriptor)
    _expect_own(found.st_uid, what)
    # Only a file from memfd_create() can be sealed, and its name says what it was made for.
    name = os.readlink(f"/proc/self/fd/{descriptor}")
    made_for_this = stat.S_ISREG(found.st_mode) and name.startswith(f"/memfd:{_NAME} ")
    if not made_for_this or fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS != _SEALS:
        raise errors.SegmentCorrupt(f"{what} is not the spec of an environment, but {name}")
    if found.st_size > _LARGEST:
        raise errors.SegmentCorrupt(
            f"{what} has {found.st_size} bytes, at most {_LARGEST} expected"
        )
    return os.pread(descriptor, found.st_size, 0)


def _expect_own(owner: int, what: str) -> None:
    if owner != os.geteuid():
        raise errors.SegmentPermissionDenied(
            f"{what} belongs to user {owner}, and this process runs as user {os.geteuid()}: an "
            "environment of another user is not made here"
        )
