"""Reads a journal once, in order: events become requests, prints and rejects go to their files.

Owned by one thread. Everything counted here (events of each kind, sizes of the files) is a function
of the journal's bytes alone, so that a sender restarted at a checkpoint counts on as if nothing
had happened. That is also why the two files are cut back to the checkpoint's sizes first.

A journal holds one stream after the other, each numbered from 1. The reader stops at the end of
each, so that the sender can have all of it acknowledged before the next one begins.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from lanekit.slow.limits import MAX_LINE_BYTES, SEND_BATCH_BYTES, SEND_BATCH_ROWS
from lanekit.slow.sending.lines import TOO_LONG, LineParser, Parsed, StepLine
from lanekit.slow.sending.publish_requests import RequestBuilder
from lanekit.slow.sending.spool import Checkpoint, Spool

READ_BYTES = 2**19
"""Most bytes taken from the journal at once; about two batches of steps."""


@dataclass(frozen=True, slots=True)
class Request:
    """A batch, serialised."""

    kind: str
    first_seq: int
    last_seq: int
    data: bytes


class JournalReader:
    """Turns a spool's journal into numbered requests."""

    def __init__(
        self, spool: Spool, on_frames: Callable[[list[StepLine]], None] | None = None
    ) -> None:
        self._spool = spool
        self._journal = spool.journal
        self._parser = LineParser(spool.run_id)
        self._on_frames = on_frames
        self._log = AsideFile(spool.directory / "worker.log", spool.checkpoint.log_size)
        self._rejects = AsideFile(spool.directory / "rejects.jsonl", spool.checkpoint.reject_size)
        self.position = replace(spool.checkpoint, finished=False)
        """Where the reader is, at a line's end; a checkpoint once all before is acknowledged."""
        self._builder = self._make_builder()
        self._next_seq = dict(self.position.next_seq)
        self._rejected = self.position.rejected
        self._read_at = spool.checkpoint.offset
        self._carry: list[bytes] = []
        self._carry_size = 0
        self._too_long: _LongLine | None = None

    @property
    def unread(self) -> int:
        """Bytes of this stream that wait to be read."""
        return self._readable() - self._read_at

    @property
    def rejected(self) -> int:
        """Lines of this stream that were rejected so far."""
        return self._rejected

    @property
    def all_rejected(self) -> int:
        """Lines of all the journal that were rejected so far."""
        return self.position.rejected_before + self._rejected

    @property
    def at_stream_end(self) -> bool:
        """Whether all of this stream is read, and another one follows."""
        return self._stream_end() == self._read_at

    def next_stream(self) -> None:
        """Go on with the stream that follows; all of this one must be acknowledged."""
        before = self.position
        following = self._journal.stream_after(before.stream_id, self._read_at)
        assert following is not None
        numbers = {kind: seq - 1 for kind, seq in self._next_seq.items()}
        continues = before.continues
        if not continues or any(numbers.values()):
            continues = {"stream_id": before.published_id, **numbers}
        self.position = replace(
            before,
            next_seq=dict.fromkeys(self._next_seq, 1),
            rejected=0,
            stream_id=following,
            sent_as="",
            rejected_before=self.all_rejected,
            continues=continues,
        )
        self._next_seq = dict(self.position.next_seq)
        self._rejected = 0
        self._builder = self._make_builder()

    def _make_builder(self) -> RequestBuilder:
        spool = self._spool
        return RequestBuilder(spool.run_id, self.position.published_id, spool.worker_id)

    def _stream_end(self) -> int | None:
        return self._journal.stream_end(self.position.stream_id, self._read_at)

    def _readable(self) -> int:
        end = self._stream_end()
        return self._journal.readable if end is None else min(end, self._journal.readable)

    def read(self) -> Iterator[Request]:
        """Read on; yields the requests of the lines that became complete.

        To be exhausted before anything else is done: `position` moves at its end. A full disk
        raises ``OSError`` before the first request, and the same bytes are read again next time.
        """
        piece = self._journal.read(self._read_at, min(READ_BYTES, self.unread))
        cut = piece.rfind(b"\n") + 1
        if self._too_long is not None:
            cut = piece.find(b"\n") + 1
            self._skip(piece[:cut] if cut else piece, bool(cut))
            return
        if not cut:
            self._carry.append(piece)
            self._carry_size += len(piece)
            self._read_at += len(piece)
            if self._carry_size > MAX_LINE_BYTES:
                self._begin_long_line()
            return
        chunk = b"".join((*self._carry, piece[:cut])) if self._carry else piece[:cut]
        parsed = self._parser.parse(chunk, self.position.offset)
        self._put_aside(parsed)
        rest = piece[cut:]
        self._carry, self._carry_size = ([rest] if rest else []), len(rest)
        self._read_at += len(piece)
        yield from self._requests(parsed, len(chunk))
        self._move_to(self.position.offset + len(chunk))
        if self._on_frames is not None and parsed.steps:
            self._on_frames(parsed.steps)

    def close(self) -> None:
        """Close the files."""
        self._log.close()
        self._rejects.close()

    def _requests(self, parsed: Parsed, nbytes: int) -> Iterator[Request]:
        arrival = time.time_ns()
        large = nbytes > SEND_BATCH_BYTES
        steps, extras = parsed.steps, parsed.step_extras
        sizes: list[int] = []
        if large:
            sizes = [_step_bytes(step) + len(extras.get(i, b"")) for i, step in enumerate(steps)]
        for start, end in _batches(len(steps), sizes):
            own = extras and {i - start: e for i, e in extras.items() if start <= i < end}
            seq = self._next_seq["steps"]
            data = self._builder.steps(steps[start:end], own, seq, arrival)
            yield self._number("steps", end - start, data)
        if large:
            sizes = [len(bytes(row.info)) + len(extra) for row, extra in parsed.episodes]
        for start, end in _batches(len(parsed.episodes), sizes):
            seq = self._next_seq["episodes"]
            data = self._builder.episodes(parsed.episodes[start:end], seq, arrival)
            yield self._number("episodes", end - start, data)
        if large:
            sizes = [len(bytes(row.payload)) + len(extra) for row, extra in parsed.events]
        for start, end in _batches(len(parsed.events), sizes):
            seq = self._next_seq["events"]
            data = self._builder.events(parsed.events[start:end], seq, arrival)
            yield self._number("events", end - start, data)

    def _number(self, kind: str, rows: int, data: bytes) -> Request:
        first = self._next_seq[kind]
        self._next_seq[kind] = first + rows
        return Request(kind, first, first + rows - 1, data)

    def _put_aside(self, parsed: Parsed) -> None:
        if parsed.prints:
            self._log.write(b"".join(parsed.prints))
        if parsed.rejected:
            lines = []
            for reject in parsed.rejected:
                head = _reject_head(reject.offset, reject.reason)
                lines.append(head + base64.b64encode(reject.line) + b'"}\n')
            try:
                self._rejects.write(b"".join(lines))
            except OSError:
                self._log.forget()  # all of this is read, and written, again
                raise
            self._rejected += len(lines)

    def _move_to(self, offset: int) -> None:
        self._log.keep()
        self._rejects.keep()
        self.position = replace(
            self.position,
            offset=offset,
            next_seq=dict(self._next_seq),
            log_size=self._log.size,
            reject_size=self._rejects.size,
            rejected=self._rejected,
        )

    # A line beyond the limit is never whole in memory: it streams into the file where it ends up.

    def _begin_long_line(self) -> None:
        head = b"".join(self._carry)
        if head.startswith(b'{"'):
            self._too_long = _LongReject(self._rejects, self.position.offset)
        else:
            self._too_long = _LongLine(self._log)
        self._read_at -= self._carry_size
        self._carry, self._carry_size = [], 0

    def _skip(self, part: bytes, ends: bool) -> None:
        assert self._too_long is not None
        self._too_long.write(part, ends)
        self._read_at += len(part)
        if ends:
            self._rejected += isinstance(self._too_long, _LongReject)
            self._too_long = None
            self._move_to(self._read_at)


class AsideFile:
    """A file beside the journal that grows with it, and is cut back where the reader begins."""

    def __init__(self, path: Path, size: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._file, size)
        self.size = self._kept = size

    def write(self, data: bytes) -> None:
        """Add `data`, or raise and be as before."""
        written = 0
        while written < len(data):
            written += os.pwrite(self._file, data[written:], self.size + written)
        self.size += written

    def keep(self) -> None:
        """Make what was added final."""
        self._kept = self.size

    def forget(self) -> None:
        """Take back what was added since `keep`; the next write overwrites it."""
        self.size = self._kept

    def close(self) -> None:
        """Close the file, without what is not complete."""
        os.ftruncate(self._file, self._kept)
        os.close(self._file)


class _LongLine:
    """A print that is longer than a line may be: it goes to the log as it comes."""

    def __init__(self, file: AsideFile) -> None:
        self._file = file

    def write(self, part: bytes, ends: bool) -> None:
        """Add a part; with the last one comes the line end."""
        self._file.write(part)


class _LongReject(_LongLine):
    """A line that claims to be telemetry and is too long, in base64."""

    def __init__(self, file: AsideFile, offset: int) -> None:
        super().__init__(file)
        self._head = _reject_head(offset, TOO_LONG)
        self._rest = b""

    def write(self, part: bytes, ends: bool) -> None:
        """Add a part; base64 takes three bytes at a time."""
        data = self._rest + (part[:-1] if ends else part)
        whole = len(data) if ends else len(data) - len(data) % 3
        tail = b'"}\n' if ends else b""
        self._file.write(self._head + base64.b64encode(data[:whole]) + tail)
        self._head, self._rest = b"", data[whole:]


def _reject_head(offset: int, reason: str) -> bytes:
    return f'{{"offset": {offset}, "reason": {json.dumps(reason)}, "line": "'.encode()


def _batches(rows: int, sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Cut rows into batches of SEND_BATCH_ROWS, and of SEND_BATCH_BYTES if sizes are given.

    A row that is larger goes alone.
    """
    if not rows:
        return
    most = -(-rows // -(-rows // SEND_BATCH_ROWS))  # batches of about the same size
    if not sizes:
        yield from ((start, min(start + most, rows)) for start in range(0, rows, most))
        return
    start = nbytes = 0
    for i, size in enumerate(sizes):
        if i > start and (i - start >= most or nbytes + size > SEND_BATCH_BYTES):
            yield start, i
            start, nbytes = i, 0
        nbytes += size
    yield start, rows


def _step_bytes(step: StepLine) -> int:
    values = (step.action, step.observation, step.info, step.render_hint)
    frame = 0 if step.frame is None else len(step.frame.pixels)
    return sum(len(bytes(value)) for value in values) + frame


def position_reached(position: Checkpoint, acknowledged: dict[str, int]) -> bool:
    """Tell whether everything before a position is acknowledged."""
    return all(acknowledged[kind] >= seq - 1 for kind, seq in position.next_seq.items())
