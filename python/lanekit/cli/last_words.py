"""What a run's workers wrote to stderr before they ended."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from lanekit.slow.log_tail import last_lines

if TYPE_CHECKING:
    from lanekit.slow.store.records import RunRecord, WorkerRecord


def is_here(worker: WorkerRecord) -> bool:
    """Tell whether a worker's files are on this machine."""
    return bool(worker.spool_directory) and worker.host == socket.gethostname()


def stderr_file(worker: WorkerRecord) -> Path | None:
    """Return where a worker's stderr is kept, if that is on this machine."""
    file = Path(worker.spool_directory) / "worker.err"
    return file if is_here(worker) and file.exists() else None


def last_words(record: RunRecord) -> list[str]:
    """Return the end of what its workers on this machine wrote to stderr, and where it is."""
    words = []
    for log in map(stderr_file, record.senders):
        if log is not None and (lines := last_lines(log)):
            words += [f"the end of its stderr, {log}:", *(f"  {line}" for line in lines)]
    return words
