"""The journal's last line: decided once, and written by whoever finds it missing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
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
        self.missing_bytes = 0
        """Of the worker's output: they were in the journal once, and are not there any more."""

    @property
    def is_put_down(self) -> bool:
        """Whether the journal's end is decided."""
        return self._file.exists()

    def put_down(self, status: int | None, reason: str) -> None:
        """Decide what the journal's last line is: how the worker ended, or why that is unknown."""
        payload: dict[str, Any] = {"status": status}
        if status is None:
            payload["reason"] = reason
        line = json.dumps({"event": "worker_exited", "payload": payload, "time_ns": time.time_ns()})
        end = self._spool.journal.end
        content = {"offset": end, "line": self._whole(line + "\n"), "status": status}
        write_patiently(self._file, content, self._on_full)

    def append(self) -> int | None:
        """Make that line the journal's last, unless it is; return how the worker ended."""
        journal = self._spool.journal
        end = read_object(self._file, _REMEDY)
        offset, text, status = (end.get(name) for name in ("offset", "line", "status"))
        missing = end.get("missing", 0)
        if (
            type(offset) is not int
            or offset < 0
            or not isinstance(text, str)
            or not (status is None or type(status) is int)
            or type(missing) is not int
        ):
            raise TelemetryError(f"the spool's file {self._file} is damaged. {_REMEDY}")
        if journal.end < offset:
            missing += offset - journal.end
            offset, text = journal.end, self._whole(text.removeprefix("\n"))
            end.update(offset=offset, line=text, missing=missing)
            write_patiently(self._file, end, self._on_full)
        self.missing_bytes = missing
        line = text.encode()
        if journal.end < offset + len(line):
            journal.overwrite_tail(offset, line)
        return status

    def _whole(self, line: str) -> str:
        """Begin a new line where the worker's last one was cut short."""
        return line if self._spool.journal.last_byte() == b"\n" else "\n" + line


def write_patiently(
    file: Path, content: dict[str, Any], on_full: Callable[[OSError], None]
) -> None:
    """Write a file of the spool, for as long as that takes on a full disk."""
    said = False
    while True:
        try:
            write_whole(file, content)
            return
        except OSError as error:
            if not said:
                on_full(error)
            said = True
            time.sleep(0.5)
