"""What a spool directory says about its sender: who holds it, whose it is, what is left to do."""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class SpoolState:
    """A spool as found."""

    directory: Path
    run_id: str
    proxy_pid: int | None
    """The process that holds the spool's lock."""
    worker_alive: bool
    finished: bool
    """The worker is gone, its end is on record, and all it said is acknowledged."""
    began: bool
    """There is, or was, a worker; or lines were read without one."""
    start_error: str | None
    """Why the worker could not be started."""


def look(directory: Path) -> SpoolState | None:
    """Look at a spool without touching it; None when no sender ever got so far as to begin one."""
    run_id = run_of_spool(directory)
    if run_id is None:
        return None
    return SpoolState(
        directory=directory,
        run_id=run_id,
        proxy_pid=lock_holder(directory / "lock"),
        worker_alive=running_worker(directory) is not None,
        finished=read_json(directory / "checkpoint.json").get("finished") is True,
        began=(directory / "worker.json").exists() or any(directory.glob("journal-*")),
        start_error=read_json(directory / "exit.json").get("error"),
    )


def is_own(directory: Path) -> bool:
    """Tell whether a directory is this user's, and what is in it nobody else's word."""
    try:
        found = directory.stat()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & stat.S_IWOTH


def run_of_spool(directory: Path) -> str | None:
    """Return the run whose events a spool holds; None when it says of none."""
    run_id = read_json(directory / "stream.json").get("run_id")
    return run_id if isinstance(run_id, str) else None


def lock_holder(path: Path) -> int | None:
    """Return the process that holds a spool's lock."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        text = os.read(descriptor, 32).strip()
        if not text.isdigit() or start_time(pid := int(text)) is None:
            return None
        # The number may have gone to another process since. Trying the lock is sure, but would
        # disturb a proxy that takes it at this moment; so only when there is reason to doubt.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return pid
        return None
    finally:
        os.close(descriptor)


def running_worker(spool: Path) -> int | None:
    """Return the process group of the spool's worker, if it is alive."""
    try:
        if (spool / "worker.json").stat().st_uid != os.geteuid():
            return None  # somebody else's word on what to signal
    except OSError:
        return None
    worker = read_json(spool / "worker.json")
    pid, started = worker.get("pid"), worker.get("start_time")
    if not isinstance(pid, int) or pid <= 1 or start_time(pid) != started:
        return None
    return pid


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def spool_is_named(pattern: bytes) -> bool:
    """Tell whether a process was started with a spool like this: a proxy that has yet to begin."""
    argument = re.compile(rb"(^|\0)" + pattern + rb"(\0|$)")
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if argument.search(path.read_bytes()):
                return True
        except OSError:
            continue  # it is gone, or another user's
    return False


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a file holds, or an empty one."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
