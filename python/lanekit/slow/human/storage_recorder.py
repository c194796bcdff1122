"""The newest of what a human did, as JSON lines in files of bounded size: a ring on disk."""

from __future__ import annotations

import os
import re
from collections import deque
from pathlib import Path
from typing import BinaryIO

from lanekit.errors import InvalidEvent, TelemetryError
from lanekit.slow.human.record_codec import Record, to_line

_NAME = re.compile(r"records-(\d{10,})\.jsonl")


class StorageRecorderService:
    """Appends records to ``records-<number>.jsonl`` in a directory; the oldest files go.

    Each line is written as a whole and at once, so a killed process loses none and leaves at most
    its last one cut short. A later recorder of the same directory begins a new file and goes on
    with the ring.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        max_file_bytes: int = 16 * 2**20,
        max_total_bytes: int = 256 * 2**20,
    ) -> None:
        """Open the ring, and make room at once if it is larger than allowed now."""
        if not 0 < max_file_bytes <= max_total_bytes:
            raise ValueError(
                f"max_file_bytes must be from 1 to max_total_bytes ({max_total_bytes}), "
                f"not {max_file_bytes}"
            )
        self.directory = Path(directory)
        self._max_file_bytes = max_file_bytes
        self._max_total_bytes = max_total_bytes
        self._file: BinaryIO | None = None
        self._file_bytes = 0
        self.deleted_bytes = 0
        """What this recorder took away to stay within the bound."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._older = deque((path, path.stat().st_size) for path in ring_files(self.directory))
        self._older_bytes = sum(size for _, size in self._older)
        self._make_room(0)

    @property
    def total_bytes(self) -> int:
        """What the ring takes on disk now."""
        return self._older_bytes + self._file_bytes

    def record(self, record: Record) -> None:
        """Write one record.

        Raises :class:`~lanekit.errors.InvalidEvent` for one that the ring could never hold, and
        ``OSError`` when the disk refuses; the ring goes on with the next one either way.
        """
        line = to_line(record)
        if len(line) > self._max_total_bytes:
            raise InvalidEvent(
                f"a record of {len(line):,} bytes does not fit into a ring of "
                f"{self._max_total_bytes:,}; raise max_total_bytes"
            )
        if self._file is not None and self._file_bytes + len(line) > self._max_file_bytes:
            self._finish_file()
        self._make_room(len(line))
        file = self._file or self._begin_file()
        self._write(file, line)
        self._file_bytes += len(line)

    def close(self) -> None:
        """Close the newest file. Repeating it is harmless."""
        if self._file is not None:
            self._finish_file()

    def _begin_file(self) -> BinaryIO:
        last = self._older[-1][0] if self._older else None
        match = _NAME.fullmatch(last.name) if last else None
        number = int(match[1]) + 1 if match else 1
        while True:
            try:
                path = self.directory / f"records-{number:010}.jsonl"
                self._file = path.open("xb", buffering=0)
            except FileExistsError:  # another recorder's: each keeps to its own files
                number += 1
            else:
                self._file_bytes = 0
                return self._file

    def _write(self, file: BinaryIO, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            # Half a line must not spoil the next one.
            file.truncate(self._file_bytes)
            file.seek(self._file_bytes)
            raise

    def _finish_file(self) -> None:
        if self._file is None:
            raise TelemetryError(f"{self.directory}: no file is open")
        path = Path(self._file.name)
        self._file.close()
        self._file = None
        self._older.append((path, self._file_bytes))
        self._older_bytes += self._file_bytes
        self._file_bytes = 0

    def _make_room(self, size: int) -> None:
        if self._file is not None and self._file_bytes + size > self._max_total_bytes:
            self._finish_file()
        while self._older and self.total_bytes + size > self._max_total_bytes:
            path, gone = self._older.popleft()
            path.unlink(missing_ok=True)
            self._older_bytes -= gone
            self.deleted_bytes += gone


def ring_files(directory: Path) -> list[Path]:
    """Return a ring's files, the oldest first."""
    found = (path for path in directory.iterdir() if _NAME.fullmatch(path.name))
    return sorted(found, key=lambda path: (len(path.name), path.name))
