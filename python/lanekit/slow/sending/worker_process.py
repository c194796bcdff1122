"""A proxy's worker: started through its keeper, or taken over from a proxy that died."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lanekit.errors import TelemetryError
from lanekit.slow.sending import worker_keeper
from lanekit.slow.sending.spool import Spool, read_object
from lanekit.slow.sending.worker_keeper import start_time

_STATUS_SECONDS = 10.0
"""How long to wait for the keeper's word after the worker's end."""


class WorkerProcess:
    """The process whose output is read."""

    def __init__(self, directory: Path, identity: dict[str, Any]) -> None:
        self._directory = directory
        self.pid = int(identity["pid"])
        self._start_time = identity["start_time"]
        self._pipe = identity.get("pipe")
        self._keeper = (identity.get("keeper_pid", 0), identity.get("keeper_start_time", 0))
        self._keeper_process: subprocess.Popen[bytes] | None = None
        self._keeper_words = -1
        self.pidfd = -1
        """Readable once the worker has ended; -1 when it had ended before."""
        with contextlib.suppress(ProcessLookupError):
            self.pidfd = os.pidfd_open(self.pid)
        if self.pidfd >= 0 and start_time(self.pid) != self._start_time:
            os.close(self.pidfd)  # somebody else has its number now
            self.pidfd = -1

    @classmethod
    def start(
        cls, spool: Spool, command: Sequence[str], environment: Mapping[str, str]
    ) -> WorkerProcess:
        """Run a command with its output into the spool's pipes."""
        directory = spool.directory
        if (directory / "worker.json").exists():
            raise TelemetryError(
                f"the spool {directory} had a worker already; `lanekit proxy --adopt {directory}` "
                "takes over what it left, a new worker needs another directory"
            )
        for name in ("stdout.fifo", "stderr.fifo", "control.fifo"):
            if not (directory / name).exists():
                os.mkfifo(directory / name, 0o600)
        ready, held = os.pipe()
        try:
            keeper = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", worker_keeper.__file__),
                    *(str(directory), str(held), *command),
                ],
                # A worker in a session of its own can not share a terminal's input.
                stdin=subprocess.DEVNULL if os.isatty(0) else None,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(held,),
                env=dict(environment),
            )
            os.close(held)
            os.read(ready, 1)  # until the keeper has written the worker down, or is gone
        except BaseException:
            os.close(ready)
            raise
        if not (directory / "worker.json").exists():
            os.close(ready)
            keeper.wait()
            problem = "the process that should start it died"
            with contextlib.suppress(TelemetryError):
                problem = str(read_object(directory / "exit.json")["error"])
            raise TelemetryError(f"the worker {command[0]!r} could not be started: {problem}")
        worker = cls(directory, read_object(directory / "worker.json"))
        worker._keeper_process = keeper
        worker._keeper_words = ready
        os.set_blocking(ready, False)
        return worker

    @classmethod
    def adopt(cls, spool: Spool) -> WorkerProcess | None:
        """Return the worker that a spool belongs to, if it had one; it may have ended."""
        file, keeper = spool.directory / "worker.json", spool.directory / "keeper.json"
        if keeper.exists():  # perhaps it is about to start the worker
            identity = read_object(keeper, "Remove it")
            deadline = time.monotonic() + _STATUS_SECONDS
            while not file.exists() and time.monotonic() < deadline:
                if start_time(identity.get("keeper_pid", 0)) != identity.get("keeper_start_time"):
                    break
                time.sleep(0.01)
        if not file.exists():
            return None
        remedy = "Remove it if the worker has ended: what it said is sent all the same"
        try:
            return cls(spool.directory, read_object(file, remedy))
        except (KeyError, TypeError, ValueError):
            raise TelemetryError(f"the spool's file {file} is damaged. {remedy}") from None

    @property
    def writes_elsewhere(self) -> bool:
        """Whether the worker lives, and writes into other pipes: this spool is a copy."""
        here = worker_keeper.pipe_identity(str(self._directory / "stdout.fifo"))
        return self.pidfd >= 0 and self._pipe is not None and here != self._pipe

    def signal(self, number: int) -> None:
        """Send the worker a signal; harmless when it has ended."""
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def status(self) -> int | None:
        """Return how the ended worker ended: exit status, or minus the signal; None if unseen."""
        deadline = time.monotonic() + _STATUS_SECONDS
        while True:
            # Asked first: it may write between the two looks.
            pid, began = self._keeper
            gone = start_time(pid) != began or time.monotonic() > deadline
            if (status := self._status()) is not None or gone:
                return status
            if self._keeper_process is not None:
                self._keeper_process.poll()
            time.sleep(0.01)

    def _status(self) -> int | None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            return int(json.loads((self._directory / "exit.json").read_bytes())["status"])
        if self._keeper_words >= 0:
            with contextlib.suppress(OSError, ValueError, KeyError):
                return int(json.loads(os.read(self._keeper_words, 100))["status"])
        return None

    def close(self) -> None:
        """Let go of the worker."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        if self._keeper_words >= 0:
            os.close(self._keeper_words)
            self._keeper_words = -1
        if self._keeper_process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._keeper_process.wait(timeout=1)
            self._keeper_process.returncode = self._keeper_process.returncode or 0
