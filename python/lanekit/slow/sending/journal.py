"""The journal: a worker's output byte for byte, in files of bounded size.

Bytes move from the worker's pipe with ``splice``: they leave the pipe in the same system call that
puts them into the file, so a process killed at any instruction loses none of them.

**Streams.** Events are numbered by their place in the journal, so two journals that differ must
never share numbers. A journal can differ from what the store has seen of it: it was restored from a
backup, it was copied and both copies went on, or a power cut took its newest bytes. Therefore:

1. Whoever opens a journal to add to it begins a new segment under a new random stream id, which is
   part of the file's name. Nobody ever appends to a segment of somebody else. (One exception, which
   adds the same bytes whoever does it: the last line that ``end.json`` has put down.)
2. So all bytes under one stream id were written by one process, once. Every copy of the journal,
   however old, holds a prefix of them, and number n of a stream is the same event in each copy.
3. What is sent again is therefore always safe to leave out when its number is committed. What was
   added after a restore or a copy has a stream id that nobody else ever used, so its numbers are
   free: nothing is taken for something that it is not.

The name of a file and its bytes are copied, restored and lost together, so none of this depends on
the order in which a disk writes. A line belongs to the stream in which it ends. If the process that
began it is gone and nobody brings the rest, the line is ended as one that was cut short, never as
an event: another copy may hold the whole of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
import uuid
from pathlib import Path
from typing import NamedTuple

from lanekit.errors import TelemetryError

SEGMENT_BYTES = 64 * 2**20
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a full disk answers, or one on which this user may have no more."""

RESERVE_BYTES = 2**20
"""Left free on the disk, or an eighth of a small one: for the log and the rejects of what is there
already. Without their lines the journal can not be worked off, and then nothing frees space."""

SPLICE_REFUSED = (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP)
"""What a kernel, or a file system, answers that can not splice: bytes are then read and written."""

_SEGMENT_NAME = re.compile(r"journal-([0-9]{16,19})-([0-9a-f]{32})\.jsonl")

_CUT = b"\x18\n"
"""Ends a line whose rest is missing and that would otherwise look whole: CANCEL is in no JSON."""


class Segment(NamedTuple):
    """A file of the journal."""

    first: int
    """The offset of its first byte."""
    stream_id: str


class Journal:
    """The worker's bytes: one thread appends, one thread reads and trims."""

    def __init__(self, directory: Path, acknowledged: int) -> None:
        self._directory = directory
        self._guard = threading.Lock()
        found = [
            (_segment(path), path.stat().st_size) for path in directory.glob("journal-*.jsonl")
        ]
        # Where two begin at the same byte, the first of them never got any.
        found.sort(key=lambda each: (each[0].first, each[1]))
        self._segments = [segment for segment, _ in found]
        self._write_file = self._read_file = -1
        self._read_segment: Segment | None = None
        expected: int | None = None
        for segment, size in found:
            first = segment.first
            if expected not in (None, first) or (expected is None and first > acknowledged):
                raise TelemetryError(
                    f"the spool {directory} is damaged: the journal's bytes from "
                    f"{acknowledged if expected is None else expected} to {first} are missing. "
                    "Put the missing journal-*.jsonl files back"
                )
            expected = first + size
        self.end = acknowledged if expected is None else expected
        """How many bytes were ever written."""
        self.set_aside: list[Path] = []
        """Segments that ended before what is acknowledged; under their new names."""
        if self.end < acknowledged:  # the disk forgot what was not synchronised
            for segment in self._segments:
                path = self._path(segment)
                self.set_aside.append(path.rename(path.with_name(f"{path.name}.damaged")))
            self._segments, self.end = [], acknowledged
        self._acknowledged = acknowledged
        self.own_stream = uuid.uuid4().hex
        """The stream of what is added from here on."""
        self._begun = False
        self._own_from = 0
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

    # --- streams ---------------------------------------------------------------------------------

    def begin(self, *, patiently: bool = False) -> None:
        """Begin the stream of what will be added.

        On a full disk that is left to the first byte, or, `patiently`, waited for.
        """
        while True:
            try:
                self._begin_own()
                return
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
            if not patiently:
                return
            time.sleep(0.1)

    @property
    def first_stream(self) -> str:
        """The stream of the oldest bytes; empty when there are none."""
        with self._guard:
            return self._segments[0].stream_id if self._segments else ""

    @property
    def last_stream(self) -> str:
        """The stream of the newest bytes; empty when there are none."""
        with self._guard:
            return self._segments[-1].stream_id if self._segments else ""

    def stream_end(self, stream_id: str, offset: int) -> int | None:
        """Return where the bytes of a stream end that is read at `offset`; None: it is the last."""
        following = self._following(stream_id, offset)
        return None if following is None else max(following.first, offset)

    def stream_after(self, stream_id: str, offset: int) -> str | None:
        """Return the stream that follows the one that is read at `offset`; None: it is the last."""
        following = self._following(stream_id, offset)
        return None if following is None else following.stream_id

    def _following(self, stream_id: str, offset: int) -> Segment | None:
        with self._guard:
            own = [i for i, each in enumerate(self._segments) if each.stream_id == stream_id]
            if own:
                rest = self._segments[own[-1] + 1 :]
            else:  # its files are deleted: all it had is acknowledged
                rest = [each for each in self._segments if each.first >= offset]
        return rest[0] if rest else None

    def line_end(self) -> bytes:
        """Return what ends the newest line, if it needs an end: see the module's docstring."""
        last = self.last_byte()
        if last == b"\n":
            return b""
        own = self._begun and self.end > self._own_from
        return _CUT if last in b"} \t\r" and not own else b"\n"

    # --- writing ---------------------------------------------------------------------------------

    def splice(self, source: int, limit: int = 2**20) -> int:
        """Move bytes from a pipe to the journal in one system call; 0 at the pipe's end.

        Raises ``BlockingIOError`` when the pipe is empty (and does not block). Where the file
        system can not splice, bytes are read and then written.
        """
        room = self._make_room()
        place = self.end - self._segments[-1].first
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
        written = os.pwrite(self._write_file, data[:room], self.end - self._segments[-1].first)
        self.end += written
        return written

    def overwrite_tail(self, offset: int, data: bytes) -> None:
        """Make `data` the last bytes of the last stream, from `offset` on.

        Repeating it is harmless, for whoever does it.
        """
        if self._segments and not self._begun:
            self.own_stream, self._begun = self._segments[-1].stream_id, True
            self._own_from = self.end
        if offset < self.end:
            while len(self._segments) > 1 and self._segments[-1].first > offset:
                self._path(self._segments.pop()).unlink()
            self._close_writer()
            self._make_room(roll=False)
            os.ftruncate(self._write_file, offset - self._segments[-1].first)
            self.end = offset
        self.append_patiently(data, reserve=False)

    # --- reading ---------------------------------------------------------------------------------

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer at the end of a segment."""
        end = self.readable
        with self._guard:
            segment = next(each for each in reversed(self._segments) if each.first <= offset)
        if segment != self._read_segment:
            self._close_reader()
            self._read_file = self._open_to_read(segment)
            self._read_segment = segment
        return os.pread(self._read_file, min(size, end - offset), offset - segment.first)

    def last_byte(self) -> bytes:
        """Return the newest byte, or a line end if it is gone: only whole lines are trimmed."""
        filled = [segment for segment in self._segments if segment.first < self.end]
        if not filled:
            return b"\n"
        file = self._open_to_read(filled[-1])
        try:
            return os.pread(file, 1, self.end - filled[-1].first - 1)
        finally:
            os.close(file)

    def roll(self) -> None:
        """Begin a new segment, so that the one before can be deleted once acknowledged."""
        if self._begun and self.end > self._segments[-1].first and not self._is_deleted():
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
            while len(self._segments) > 1 and self._segments[1].first <= offset:
                self._path(self._segments.pop(0)).unlink(missing_ok=True)
            if everything and self._segments and self.end <= offset:
                self._close_writer()
                self._begun = False
                self._path(self._segments.pop()).unlink(missing_ok=True)
            if self._read_segment not in self._segments:
                self._close_reader()  # an open file keeps its space on the disk

    def close(self) -> None:
        """Close the files."""
        self._close_writer()
        self._close_reader()

    def _path(self, segment: Segment) -> Path:
        return self._directory / f"journal-{segment.first:016d}-{segment.stream_id}.jsonl"

    def _begin_own(self) -> None:
        if not self._begun:
            self._start_segment()
            self._begun, self._own_from = True, self.end

    def _make_room(self, roll: bool = True) -> int:
        """Open the segment to write to and return how many bytes it still takes."""
        self._begin_own()
        if self._write_file < 0:
            flags = os.O_WRONLY | os.O_CLOEXEC
            self._write_file = os.open(self._path(self._segments[-1]), flags)
        room = SEGMENT_BYTES - (self.end - self._segments[-1].first)
        if room <= 0 and roll:
            if self._is_deleted():  # there is no place for another file: this one goes on
                return SEGMENT_BYTES
            self._start_segment()
            room = SEGMENT_BYTES
        return room

    def _start_segment(self) -> None:
        if self.durable:
            self.sync()
        segment = Segment(self.end, self.own_stream)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        try:
            file = os.open(self._path(segment), flags, 0o600)
        except FileNotFoundError:  # the directory was deleted; nothing is lost that was not before
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._path(segment), flags, 0o600)
        self._close_writer()
        self._write_file = file
        if self.durable:
            sync_directory(self._directory)
        with self._guard:
            self._segments.append(segment)

    def _is_deleted(self) -> bool:
        """Tell whether somebody deleted the file that is written to."""
        return self._write_file >= 0 and os.fstat(self._write_file).st_nlink == 0

    def _open_to_read(self, segment: Segment) -> int:
        try:
            return os.open(self._path(segment), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            # Deleted under us. What is written to is still there for whoever has it open.
            if segment != self._segments[-1] or self._write_file < 0:
                raise
            return os.open(f"/proc/self/fd/{self._write_file}", os.O_RDONLY | os.O_CLOEXEC)

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
            self._read_file, self._read_segment = -1, None


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory would survive a power cut."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _segment(path: Path) -> Segment:
    match = _SEGMENT_NAME.fullmatch(path.name)
    if match is None or not path.is_file():
        raise TelemetryError(
            f"the spool {path.parent} is damaged: {path.name} is no file of the journal "
            "(journal-<16 digits>-<32 hexadecimal digits>.jsonl); move it away"
        )
    return Segment(int(match[1]), match[2])
