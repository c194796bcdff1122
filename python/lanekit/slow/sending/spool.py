"""The spool: what a worker said, on disk until the daemon has acknowledged it.

A directory::

    lock                       held (flock) by the one process that sends from here
    stream.json                run, worker and journal: whose this spool is
    journal-<offset>-<stream>.jsonl
                               the worker's output byte for byte, in segments named after the
                               offset of their first byte and the stream that they are part of
    checkpoint.json            up to which byte everything is acknowledged, and the numbers there
    worker.log  rejects.jsonl  prints, and lines that claimed to be telemetry and were not
    (and the proxy's own: proxy.json, keeper.json, worker.json, worker.err, exit.json,
    end.json, *.fifo)

The journal moves from the worker's pipe with ``splice``: bytes leave the pipe in the same system
call that puts them into the file, so a process killed at any instruction loses none of them. The
`journal` module says what a stream is, and why no copy of a journal can be taken for another.

The checkpoint is overwritten in place, within one disk sector. A new file renamed over it would
need free space, and on a full disk the checkpoint is what frees space: segments behind it are
deleted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
import uuid
import weakref
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lanekit.errors import InvalidEvent, SpoolInUse, TelemetryError
from lanekit.slow.batches import check_run_id, check_stream_id, check_worker_id
from lanekit.slow.sending.journal import Journal, sync_directory

KINDS = ("steps", "episodes", "events")
_SECTOR = 512


@dataclass
class Checkpoint:
    """Everything before `offset` is acknowledged; this is what was counted up to there."""

    offset: int = 0
    next_seq: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 1))
    log_size: int = 0
    reject_size: int = 0
    rejected: int = 0
    finished: bool = False
    """Nothing will be added any more, and all is acknowledged."""
    stream_id: str = ""
    """The stream that is counted here. Empty: the journal's first."""
    sent_as: str = ""
    """What the daemon calls that stream, where it is not its own id (``--new-stream``)."""
    rejected_before: int = 0
    """Lines rejected in streams before this one."""
    continues: dict[str, Any] = field(default_factory=dict)
    """The stream before this one that had any events, and how many of each kind; or nothing."""

    @property
    def published_id(self) -> str:
        """What the daemon calls this stream."""
        return self.sent_as or self.stream_id

    @classmethod
    def from_file(cls, file: Path) -> Checkpoint:
        """Read what :meth:`Spool.save` wrote."""
        remedy = (
            "Remove it, and the journal is sent again from its beginning; what is committed is not "
            "stored twice"
        )
        content = read_object(file, remedy)
        names = ("offset", "log_size", "reject_size", "rejected", "rejected_before")
        sizes = [content.get(name) for name in names]
        numbers, before = content.get("next_seq"), content.get("continues")
        if (
            content.keys() != asdict(cls()).keys()
            or not isinstance(numbers, dict)
            or set(numbers) != set(KINDS)
            or not all(type(size) is int and size >= 0 for size in sizes)
            or not all(type(number) is int and number >= 1 for number in numbers.values())
            or not all(isinstance(content[name], str) for name in ("stream_id", "sent_as"))
            or not isinstance(before, dict)
            or not (before == {} or set(before) == {"stream_id", *KINDS})
            or not all(type(before.get(kind, 0)) is int for kind in KINDS)
            or not isinstance(before.get("stream_id", ""), str)
        ):
            raise TelemetryError(f"the spool's file {file} is damaged. {remedy}")
        return cls(**content)


class Spool:
    """One sender's directory, locked while this object is open."""

    def __init__(self, directory: Path, stream: dict[str, str], lock: int) -> None:
        self.directory = directory
        try:
            self.run_id = check_run_id(stream["run_id"])
            self.journal_id = check_stream_id(stream["journal_id"])
            self.worker_id = check_worker_id(stream["worker_id"])
        except (KeyError, InvalidEvent) as error:
            raise TelemetryError(
                f"the spool {directory} is damaged: stream.json must name run_id, journal_id and "
                f"worker_id ({error}). Put it back as it was: a journal is of one run"
            ) from None
        self._lock = lock
        self._checkpoint_file = -1
        _OPEN.add(self)
        self.checkpoint = self._load_checkpoint()
        self.journal = Journal(directory, self.checkpoint.offset)
        if not self.checkpoint.stream_id:
            first = self.journal.first_stream or self.journal.own_stream
            self.checkpoint = replace(self.checkpoint, stream_id=first)

    @classmethod
    def create(cls, directory: str | os.PathLike[str], run_id: str, worker_id: str = "") -> Spool:
        """Open a directory for a run's telemetry, making it if need be.

        A directory that was used before must be the same run's; its journal goes on.
        """
        check_run_id(run_id)
        check_worker_id(worker_id)
        path = Path(directory).absolute()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise TelemetryError(
                f"the spool {path} can not be made: {error}; choose another directory (--spool DIR)"
            ) from None
        lock = _lock(path)
        try:
            file = path / "stream.json"
            if not file.exists():
                stream = {"run_id": run_id, "journal_id": uuid.uuid4().hex, "worker_id": worker_id}
                write_whole(file, stream)
            stream = read_object(file)
            if stream.get("run_id") != run_id:
                raise TelemetryError(
                    f"the spool {path} belongs to run {stream.get('run_id')!r}, not {run_id!r}; "
                    "choose another directory (--spool DIR)"
                )
            if worker_id and stream.get("worker_id") != worker_id:
                raise TelemetryError(
                    f"the spool {path} belongs to worker {stream.get('worker_id')!r}, not "
                    f"{worker_id!r}; choose another directory (--spool DIR)"
                )
            return cls(path, stream, lock)
        except BaseException:
            os.close(lock)
            raise

    @classmethod
    def open(cls, directory: str | os.PathLike[str], *, new_stream: bool = False) -> Spool:
        """Open a spool that somebody left.

        As a `new_stream`, what is not acknowledged is numbered from 1 under a new stream id: for a
        daemon whose store does not have the old stream any more, or less of it than it said.
        """
        path = Path(directory).absolute()
        if not (path / "stream.json").exists():
            raise TelemetryError(f"{path} is no spool: it has no stream.json")
        lock = _lock(path)
        try:
            spool = cls(path, read_object(path / "stream.json"), lock)
            if new_stream:
                spool._begin_new_stream()
            return spool
        except BaseException:
            os.close(lock)
            raise

    @property
    def unsent_bytes(self) -> int:
        """Bytes of the journal that are not known to be acknowledged."""
        return self.journal.end - self.checkpoint.offset

    def save(self, checkpoint: Checkpoint) -> None:
        """Put down a new checkpoint, then delete the segments behind it."""
        if os.pwrite(self._checkpoint_file, _sector(checkpoint), 0) != _SECTOR:
            raise OSError(errno.ENOSPC, "no space for the checkpoint", str(self.directory))
        self.checkpoint = checkpoint
        self.journal.trim(checkpoint.offset, everything=checkpoint.finished)

    def keep_durable(self) -> None:
        """From here on, nothing counts as written before it would survive a power cut."""
        with open(self.directory / "stream.json", "rb") as file:
            os.fsync(file.fileno())
        sync_directory(self.directory)
        sync_directory(self.directory.parent)
        self.journal.durable = True

    def go_on(self) -> None:
        """Let lines be added to a journal that was ended, or left in the middle of a line."""
        (self.directory / "end.json").unlink(missing_ok=True)
        line_end = self.journal.line_end()
        self.journal.begin()
        if line_end:
            self.journal.append_patiently(line_end)

    def end_here(self) -> None:
        """Put down that the journal is complete as it is."""
        end = {
            "offset": self.journal.end,
            "line": "",
            "status": 0,
            "stream_id": self.journal.own_stream,
        }
        with contextlib.suppress(FileNotFoundError):  # deleted: nobody will read it here
            write_whole(self.directory / "end.json", end)

    @property
    def is_deleted(self) -> bool:
        """Whether somebody deleted the directory, or the lock in it, under this process."""
        return self._lock >= 0 and os.fstat(self._lock).st_nlink == 0

    def close(self) -> None:
        """Let go of the directory; what is in it stays."""
        if self._lock >= 0:
            self.journal.close()
            os.close(self._checkpoint_file)
            os.close(self._lock)
            self._lock = -1
            _OPEN.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _load_checkpoint(self) -> Checkpoint:
        file = self.directory / "checkpoint.json"
        checkpoint = Checkpoint()
        if file.exists() and file.stat().st_size:
            checkpoint = Checkpoint.from_file(file)
        self._checkpoint_file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not file.stat().st_size:
            os.pwrite(self._checkpoint_file, _sector(checkpoint), 0)
        return checkpoint

    def _begin_new_stream(self) -> None:
        self.save(
            replace(
                self.checkpoint,
                next_seq=dict.fromkeys(KINDS, 1),
                rejected=0,
                finished=False,
                sent_as=uuid.uuid4().hex,
                rejected_before=self.checkpoint.rejected_before + self.checkpoint.rejected,
                continues={},
            )
        )

    def _drop_in_child(self) -> None:
        """Let the parent alone hold the lock, so that its death frees the directory."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


_OPEN: weakref.WeakSet[Spool] = weakref.WeakSet()


def _after_fork() -> None:
    for spool in list(_OPEN):
        spool._drop_in_child()


os.register_at_fork(after_in_child=_after_fork)


def _sector(checkpoint: Checkpoint) -> bytes:
    text = json.dumps(asdict(checkpoint), separators=(",", ":")).encode()
    return text.ljust(_SECTOR - 1) + b"\n"


def _lock(directory: Path) -> int:
    try:
        file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise TelemetryError(
            f"the spool's file {directory / 'lock'} can not be opened: {error.strerror}. It must "
            "be a file that this user may write to; choose another directory (--spool DIR) if it "
            "can not be"
        ) from None
    # Not at once no: a daemon that looks around touches the lock, too, for a moment.
    for pause in (0.02, 0.05, 0.1, 0.2, 0.0):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(pause)
        except OSError as error:
            os.close(file)
            raise TelemetryError(
                f"the spool {directory} can not be locked: {error.strerror}; choose a directory on "
                "a local disk (--spool DIR)"
            ) from None
    else:
        owner = os.pread(file, 32, 0).decode(errors="replace").strip()
        os.close(file)
        raise SpoolInUse(
            f"process {owner or '?'} sends from the spool {directory} already; choose another "
            "directory (--spool DIR), or end that process first"
        )
    with contextlib.suppress(OSError):  # on a full disk the lock holds all the same
        os.pwrite(file, f"{os.getpid()}\n".ljust(32).encode(), 0)
    return file


def write_whole(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file so that it is either not there or complete."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(content) + "\n", encoding="utf-8")
    draft.replace(path)


def read_object(path: Path, remedy: str = "Put it back as it was") -> dict[str, Any]:
    """Read a JSON file that must hold an object."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        reason = f"can not be read: {error}"
        raise TelemetryError(f"the spool's file {path} {reason}. {remedy}") from None
    if not isinstance(content, dict):
        raise TelemetryError(f"the spool's file {path} must hold a JSON object. {remedy}")
    return content
