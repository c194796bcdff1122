"""The journal's last line: decided once, and written by whoever finds it missing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lanekit.errors import TelemetryError
from lanekit.slow.sending.spool import Spool, read_object, write_whole

_REMEDY = "Remove it, and the worker's end is put down anew, as one that nobody saw"


class JournalEnd:
    """``end.json``: where the worker's output ended, and the line that goes there."""

    def __init__(self, spool: Spool, on_full: Callable[[OSError], None]) -> None:
        self._spool = spool
        self._on_full = on_full
        self._file = spool.directory / "end.json"
        self._content: dict[str, Any] = {}
        self.missing_bytes = 0
        """Of the worker's output: they were in the journal once, and are not there any more."""

    @property
    def is_put_down(self) -> bool:
        """Whether the journal's end is decided, and not that of a stream before the last."""
        if not self._content and self._file.exists():
            end, journal = self._read(), self._spool.journal
            if journal.last_stream in (end["stream_id"], "") or journal.end < end["offset"]:
                self._content = end
        return bool(self._content)

    def put_down(self, status: int | None, reason: str, events: Sequence[str] = ()) -> None:
        """Decide what the journal's last line is: how the worker ended, or why that is unknown.

        Before it, `events` are put down by their names.
        """
        payload: dict[str, Any] = {"status": status}
        if status is None:
            payload["reason"] = reason
        now = time.time_ns()
        lines = [{"event": name, "payload": {}, "time_ns": now} for name in events]
        lines.append({"event": "worker_exited", "payload": payload, "time_ns": now})
        text = "".join(json.dumps(line) + "\n" for line in lines)
        self._write({"line": text, "status": status})

    def append(self) -> int | None:
        """Make that line the journal's last, unless it is; return how the worker ended."""
        journal = self._spool.journal
        end = self._content or self._read()
        if not self._is_written(end) and (
            journal.end < end["offset"] or end["stream_id"] != journal.last_stream
        ):
            # Others may have written on where the rest is missing: the line needs a new stream.
            missing = end.get("missing", 0) + max(0, end["offset"] - journal.end)
            line = end["line"].lstrip("\x18\n")
            self._write({"line": line, "status": end["status"], "missing": missing})
            end = self._content
        self.missing_bytes = end.get("missing", 0)
        if not self._is_written(end):
            journal.overwrite_tail(end["offset"], end["line"].encode())
        status: int | None = end["status"]
        return status

    def _write(self, content: dict[str, Any]) -> None:
        """Put down where this process's own stream ends, with these lines behind it."""
        journal = self._spool.journal
        line_end = journal.line_end().decode()
        journal.begin(patiently=True)
        self._content = {
            **content,
            "offset": journal.end,
            "line": line_end + content["line"],
            "stream_id": journal.own_stream,
        }
        write_patiently(self._file, self._content, self._on_full)

    def _is_written(self, end: dict[str, Any]) -> bool:
        return bool(self._spool.journal.end >= end["offset"] + len(end["line"].encode()))

    def _read(self) -> dict[str, Any]:
        end = read_object(self._file, _REMEDY)
        names = ("offset", "line", "status", "stream_id")
        offset, text, status, stream_id = (end.get(name) for name in names)
        if (
            type(offset) is not int
            or offset < 0
            or not isinstance(text, str)
            or not isinstance(stream_id, str)
            or not (status is None or type(status) is int)
            or type(end.get("missing", 0)) is not int
        ):
            raise TelemetryError(f"the spool's file {self._file} is damaged. {_REMEDY}")
        return end


def write_patiently(
    file: Path, content: dict[str, Any], on_full: Callable[[OSError], None]
) -> None:
    """Write a file of the spool, for as long as that takes on a full disk.

    If the spool was deleted there is nobody left to read it, and nothing is written.
    """
    said = False
    while True:
        try:
            write_whole(file, content)
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if not said:
                on_full(error)
            said = True
            time.sleep(0.5)
