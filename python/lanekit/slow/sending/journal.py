"""The journal: a worker's output byte for byte, in files of bounded size.

Bytes move from the worker's pipe with ``splice``: they leave the pipe in the same system call that
puts them into the file, so a process killed at any instruction loses none of them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
from pathlib import Path

from lanekit.errors import TelemetryError

SEGMENT_BYTES = 64 * 2**20
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a full disk answers, or one on which this user may have no more."""

RESERVE_BYTES = 2**20
"""Left free on the disk, or an eighth of a small one: for the log and the rejects of what is there
already. Without their lines the journal can not be worked off, and then nothing frees space."""

SPLICE_REFUSED = (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP)
"""What a kernel, or a file system, answers that can not splice: bytes are then read and written."""

_SEGMENT_NAME = re.compile(r"journal-([0-9]{16,19})\.jsonl")


class Journal:
    """The worker's bytes: one thread appends, one thread reads and trims."""

    def __init__(self, directory: Path, acknowledged: int) -> None:
        self._directory = directory
        self._guard = threading.Lock()
        self._firsts = sorted(map(_first_byte, directory.glob("journal-*.jsonl")))
        self._write_file = self._read_file = -1
        self._read_first = -1
        expected: int | None = None
        for first in self._firsts:
            if expected not in (None, first) or (expected is None and first > acknowledged):
                raise TelemetryError(
                    f"the spool {directory} is damaged: the journal's bytes from "
                    f"{acknowledged if expected is None else expected} to {first} are missing. "
                    "Put the missing journal-*.jsonl files back"
                )
            expected = first + self._path(first).stat().st_size
        self.end = acknowledged if expected is None else expected
        """How many bytes were ever written."""
        self.set_aside: list[Path] = []
        """Segments that ended before what is acknowledged; under their new names."""
        if self.end < acknowledged:  # the disk forgot what was not synchronised
            for first in self._firsts:
                path = self._path(first)
                self.set_aside.append(path.rename(path.with_name(f"{path.name}.damaged")))
            self._firsts, self.end = [], acknowledged
        self._acknowledged = acknowledged
        self.hold = False
        """Set by the reader while it lacks space: what becomes free is then its own."""
        self.durable = False
        """Whether bytes count as written only once they would survive a power cut."""
        self.synced = self.end
        """How many of them would, by the last call of `sync`."""

    @property
    def readable(self) -> int:
        """How far a reader may go."""
        return self.synced if self.durable else self.end

    def splice(self, source: int, limit: int = 2**20) -> int:
        """Move bytes from a pipe to the journal in one system call; 0 at the pipe's end.

        Raises ``BlockingIOError`` when the pipe is empty (and does not block). Where the file
        system can not splice, bytes are read and then written.
        """
        room = self._make_room()
        place = self.end - self._firsts[-1]
        try:
            most = min(limit, room, self._spare_bytes())
            moved = os.splice(source, self._write_file, most, None, place, os.SPLICE_F_NONBLOCK)
        except OSError as error:
            if error.errno in NO_SPACE:
                with contextlib.suppress(OSError):
                    self.roll()
            if error.errno not in SPLICE_REFUSED:
                raise
            data = os.read(source, min(limit, room, 2**16))
            self.append_patiently(data)
            return len(data)
        self.end += moved
        return moved

    def append_patiently(self, data: bytes, *, reserve: bool = True) -> None:
        """Write all of `data`, waiting for as long as the disk is full, but for the reserve."""
        rest = memoryview(data)
        while rest:
            try:
                part = rest
                if reserve:
                    self._make_room()
                    part = rest[: self._spare_bytes()]
                rest = rest[self.append(part) :]
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                with contextlib.suppress(OSError):
                    self.roll()
                time.sleep(0.1)

    def append(self, data: bytes | memoryview) -> int:
        """Write as much of `data` as fits into one segment; return how much."""
        room = self._make_room()
        written = os.pwrite(self._write_file, data[:room], self.end - self._firsts[-1])
        self.end += written
        return written

    def overwrite_tail(self, offset: int, data: bytes) -> None:
        """Make `data` the journal's last bytes, from `offset` on; repeating it is harmless."""
        if offset < self.end:
            while self._firsts and self._firsts[-1] > offset:
                self._path(self._firsts.pop()).unlink()
            self._close_writer()
            self._make_room(roll=False)
            os.ftruncate(self._write_file, offset - self._firsts[-1])
            self.end = offset
        self.append_patiently(data, reserve=False)

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer at the end of a segment."""
        end = self.readable
        with self._guard:
            first = next(f for f in reversed(self._firsts) if f <= offset)
        if first != self._read_first:
            self._close_reader()
            self._read_file = os.open(self._path(first), os.O_RDONLY | os.O_CLOEXEC)
            self._read_first = first
        return os.pread(self._read_file, min(size, end - offset), offset - first)

    def last_byte(self) -> bytes:
        """Return the newest byte, or a line end if it is gone: only whole lines are trimmed."""
        if not self._firsts or self._firsts[-1] == self.end:
            if len(self._firsts) < 2:
                return b"\n"
            path, size = self._path(self._firsts[-2]), self.end - self._firsts[-2]
        else:
            path, size = self._path(self._firsts[-1]), self.end - self._firsts[-1]
        with open(path, "rb") as file:
            file.seek(size - 1)
            return file.read(1)

    def roll(self) -> None:
        """Begin a new segment, so that the one before can be deleted once acknowledged."""
        if self._firsts and self.end > self._firsts[-1]:
            self._start_segment()

    def sync(self) -> None:
        """Wait until everything written so far would survive a power cut."""
        end = self.end
        if end > self.synced and self._write_file >= 0:
            os.fdatasync(self._write_file)
            self.synced = end

    def trim(self, offset: int, everything: bool = False) -> None:
        """Delete the segments that end at or before `offset`, but never the one written to."""
        self._acknowledged = offset
        with self._guard:
            while len(self._firsts) > 1 and self._firsts[1] <= offset:
                self._path(self._firsts.pop(0)).unlink(missing_ok=True)
            if everything and self._firsts and self.end <= offset:
                self._close_writer()
                self._path(self._firsts.pop()).unlink(missing_ok=True)
            if self._read_first not in self._firsts:
                self._close_reader()  # an open file keeps its space on the disk

    def close(self) -> None:
        """Close the files."""
        self._close_writer()
        self._close_reader()

    def _path(self, first: int) -> Path:
        return self._directory / f"journal-{first:016d}.jsonl"

    def _make_room(self, roll: bool = True) -> int:
        """Open the segment to write to and return how many bytes it still takes."""
        if self._write_file < 0 and self._firsts:
            self._write_file = os.open(self._path(self._firsts[-1]), os.O_WRONLY | os.O_CLOEXEC)
        if not self._firsts or (roll and self.end - self._firsts[-1] >= SEGMENT_BYTES):
            self._start_segment()
        return SEGMENT_BYTES - (self.end - self._firsts[-1])

    def _start_segment(self) -> None:
        if self.durable:
            self.sync()
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        file = os.open(self._path(self.end), flags, 0o600)
        self._close_writer()
        self._write_file = file
        if self.durable:
            sync_directory(self._directory)
        with self._guard:
            self._firsts.append(self.end)

    def _spare_bytes(self) -> int:
        """Return how much may be written without touching the reserve; raises if that is nothing.

        A full pipe is larger than many a reserve, so a look before the write is not enough.
        """
        space = os.fstatvfs(self._write_file)
        reserve = min(RESERVE_BYTES, space.f_blocks * space.f_frsize // 8)
        if self.end - self._acknowledged < reserve // 4:
            # What is left may be the beginning of a line whose rest is in the pipe. Only with that
            # rest can it be sent, and its segment deleted.
            reserve //= 2
        spare = space.f_bavail * space.f_frsize - reserve
        if self.hold or spare <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._directory))
        return int(spare)

    def _close_writer(self) -> None:
        if self._write_file >= 0:
            os.close(self._write_file)
            self._write_file = -1

    def _close_reader(self) -> None:
        if self._read_file >= 0:
            os.close(self._read_file)
            self._read_file = self._read_first = -1


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory would survive a power cut."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _first_byte(path: Path) -> int:
    match = _SEGMENT_NAME.fullmatch(path.name)
    if match is None or not path.is_file():
        raise TelemetryError(
            f"the spool {path.parent} is damaged: {path.name} is no file of the journal "
            "(journal-<16 digits>.jsonl); move it away"
        )
    return int(match[1])
