"""The slow lane's real processes under measurement: daemon, proxy, and what gets in their way."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from bench.slow_limits import Durability
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub

_PATIENCE = 120.0
_LANEKIT = (sys.executable, "-m", "lanekit")
BUILD = Path(__file__).resolve().parent.parent / "build"


@contextmanager
def scratch() -> Iterator[Path]:
    """Lend a directory on the checkout's own disk: a memory file system would know no fsync."""
    BUILD.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="bench-slow-", dir=BUILD))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def wait_until(condition: Callable[[], bool], what: str, *, every: float = 0.002) -> float:
    """Return the moment at which `condition` was seen to hold."""
    end = time.perf_counter() + _PATIENCE
    while not condition():
        if time.perf_counter() > end:
            raise TimeoutError(f"waited {_PATIENCE:.0f} s in vain until {what}")
        time.sleep(every)
    return time.perf_counter()


class _Process:
    """A child process whose output goes to a file, ended by SIGTERM and shown when it failed."""

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str]) -> None:
        self._what = " ".join(command[:4])
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | environment,
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    def cpu_seconds(self) -> float:
        """Return the processor time it has used so far, all its threads together."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def output(self) -> str:
        """Return what it has printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def check_alive(self) -> None:
        """Raise, with its last words, when it has ended."""
        status = self.process.poll()
        if status is not None:
            raise RuntimeError(f"{self._what} ended with {status}:\n{self.output()[-2000:]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Daemon(_Process):
    """A `lanekit daemon` on a Unix socket, its store below `directory`, or at `url`."""

    def __init__(self, directory: Path, durability: Durability, url: str | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        # A socket's path is short, a checkout's may not be.
        self._sockets = tempfile.TemporaryDirectory(prefix="lanekit-")
        socket = Path(self._sockets.name) / "daemon.sock"
        self.store = directory / "lanekit.db"
        self.target = f"unix:{socket}"
        arguments = ("--store", url or str(self.store), "--socket", str(socket))
        super().__init__(
            (*_LANEKIT, "daemon", *arguments, "--durability", durability),
            directory / "daemon.log",
            {"LANEKIT_STATE": str(directory / "state")},
        )

    def wait_until_ready(self) -> None:
        """Wait until it listens."""

        def listens() -> bool:
            self.check_alive()
            return "listening on" in self.output()

        wait_until(listens, "the daemon listens", every=0.02)

    def __enter__(self) -> Self:
        self.wait_until_ready()
        return self

    def __exit__(self, *ending: Any) -> None:
        super().__exit__(*ending)
        self._sockets.cleanup()


class Committed:
    """A look at the store from outside: how many steps of a run are committed."""

    def __init__(self, store: Path, run_id: str) -> None:
        self._connection = sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True, timeout=10)
        self._run_id = run_id

    def steps(self) -> int:
        """Return the committed steps; -1 while the run is not known."""
        find = "SELECT steps FROM runs WHERE run_id = ?"
        row = self._connection.execute(find, (self._run_id,)).fetchone()
        return -1 if row is None else row[0]

    def stored(self) -> int:
        """Count the rows themselves: a store of one run."""
        count: int = self._connection.execute("SELECT count(*) FROM steps").fetchone()[0]
        return count

    def close(self) -> None:
        """Let go of the store."""
        self._connection.close()


class Proxy(_Process):
    """A `lanekit proxy` whose worker waits for a go, then prints telemetry."""

    def __init__(
        self,
        daemon: Daemon,
        run_id: str,
        directory: Path,
        worker: Sequence[str] | None,
        lines: Path,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.spool = directory / "spool"
        self._go = directory / "go"
        os.mkfifo(self._go)
        if not worker:  # the shell waits where it opens the pipe; `cat` is as fast as a pipe goes
            worker = ("sh", "-c", 'read -r _ < "$1"; exec cat "$0"', str(lines))
        command = (*worker, str(self._go))
        options = ("--run", run_id, "--daemon", daemon.target, "--spool", str(self.spool))
        super().__init__(
            (*_LANEKIT, "proxy", *options, "--", *command),
            directory / "proxy.log",
            {"LANEKIT_STATE": str(directory / "state")},
        )

    def acknowledged(self) -> int:
        """Return how many steps the spool's checkpoint says are acknowledged."""
        try:
            checkpoint = json.loads((self.spool / "checkpoint.json").read_bytes())
        except (OSError, ValueError):  # not there yet
            return 0
        following: int = checkpoint["next_seq"]["steps"]
        return following - 1

    def journalled(self) -> int:
        """Return how many bytes of the worker's the spool ever took."""
        newest = max(self.spool.glob("journal-*.jsonl"), default=None)
        if newest is None:
            return 0
        return int(newest.stem.split("-")[1]) + newest.stat().st_size

    def go(self) -> float:
        """Let the worker begin; return the moment."""
        with self._go.open("w") as pipe:
            started = time.perf_counter()
            pipe.write("go\n")
        return started


class Memory:
    """Samples the resident memory of processes, a block of `with`."""

    def __init__(self, pids: dict[str, int], every: float = 0.02) -> None:
        self._pids = pids
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.baseline = {name: _resident(pid) for name, pid in pids.items()}
        self.samples: dict[str, list[int]] = {name: [] for name in pids}

    def _sample(self) -> None:
        while not self._stop.wait(self._every):
            for name, pid in self._pids.items():
                with contextlib.suppress(OSError, ValueError):  # it has ended
                    self.samples[name].append(_resident(pid))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def summary(self) -> dict[str, dict[str, int]]:
        """Return bytes for each process: before, at most, and at most in each half of the time."""
        found = {}
        for name, samples in self.samples.items():
            half = len(samples) // 2
            found[name] = {
                "baseline": self.baseline[name],
                "peak": max(samples),
                "peak_first_half": max(samples[: half or 1]),
                "peak_second_half": max(samples[half:]),
            }
        return found


def _resident(pid: int) -> int:
    """Bytes of RAM a process has for itself: file-backed pages (libraries, the store) left out."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} has no memory any more")


_HOLD_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
"""


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold the store's write lock in another process: for its writer, the disk stands still."""
    holder = subprocess.Popen(
        (sys.executable, "-c", _HOLD_LOCK, str(store)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        if holder.stdout.readline().strip() != b"locked":
            raise RuntimeError("the store could not be locked")
        yield
        holder.communicate()


@contextmanager
def stalled_reader(target: str, run_id: str) -> Iterator[None]:
    """Ask the daemon for a run's steps, and never read one: a viewer that hangs."""
    with grpc.insecure_channel(target) as channel:
        request = pb.StreamRunStepsRequest(run_id=run_id)
        call = TrainerServiceStub(channel).StreamRunSteps(request)
        try:
            yield
            if not call.is_active():
                raise RuntimeError(f"the daemon gave up on a viewer that does not read: {call}")
        finally:
            call.cancel()
