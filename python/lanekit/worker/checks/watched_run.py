"""A worker's real command, started and read as a telemetry proxy does it.

It has a pipe for its output and one for commands, both named in its environment, a state directory
of its own, and a session of its own, so that what it leaves behind can be found and ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lanekit.segments import SegmentInfo, reclaim_segment, scan_segments
from lanekit.slow.sending.lines import LineParser, Rejected

_GOODBYE_SECONDS = 5.0
"""How long children and lanes may outlast the worker: a drawing process notices its end first."""


@dataclass(frozen=True)
class Told:
    """One line of telemetry."""

    name: str
    """An event's name; "step" and "episode" for these."""
    payload: dict[str, Any]


class WatchedRun:
    """A worker while it runs, and what it told. What it leaves behind ends with the block."""

    def __init__(self, command: Sequence[str], run_id: str) -> None:
        self.run_id = run_id
        self.told: list[Told] = []
        self.rejected: list[Rejected] = []
        self.lanes_seen: set[str] = set()
        self._parser = LineParser(run_id)
        self._rest = b""
        self._directory = tempfile.TemporaryDirectory(prefix="lanekit-check-")
        self._commands = 0
        self._open_pipes()
        # A real file: a worker that says a lot must not wait for a reader of its stderr.
        self._errors = (self._path / "stderr").open("w+b")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._output_end,
            stderr=self._errors,
            start_new_session=True,
            env={**os.environ, **self._variables()},
        )
        os.close(self._output_end)

    @property
    def _path(self) -> Path:
        return Path(self._directory.name)

    def _open_pipes(self) -> None:
        for name in ("stdout.fifo", "control.fifo"):
            os.mkfifo(self._path / name, 0o600)
        self._output = os.open(self._path / "stdout.fifo", os.O_RDONLY | os.O_NONBLOCK)
        self._output_end = os.open(self._path / "stdout.fifo", os.O_WRONLY)
        self._control = os.open(self._path / "control.fifo", os.O_RDWR | os.O_NONBLOCK)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)

    def _variables(self) -> dict[str, str]:
        return {
            "LANEKIT_RUN_ID": self.run_id,
            "LANEKIT_WORKER_ID": "check",
            "LANEKIT_CONTROL_FIFO": str(self._path / "control.fifo"),
            "LANEKIT_TELEMETRY_FIFO": str(self._path / "stdout.fifo"),
            "LANEKIT_STATE": str(self._path / "state"),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what is left of it."""
        for pid, _ in _session(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        for lane in self._lanes():
            with contextlib.suppress(Exception):  # its owner may be elsewhere, and live
                reclaim_segment(lane.name)
        self._selector.close()
        os.close(self._output)
        os.close(self._control)
        self._errors.close()
        self._directory.cleanup()

    # --- while it runs ----------------------------------------------------------------------------

    def read_until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Read what it tells until a condition holds or it has ended; tell whether it holds."""
        deadline = time.monotonic() + timeout
        while not condition():
            over = self._process.poll() is not None
            self._read()
            if over or time.monotonic() > deadline:
                return condition()
            self._selector.select(0.05)
            self.lanes_seen.update(lane.run_id for lane in self._lanes())
        return True

    def wait(self, timeout: float) -> int | None:
        """Read until it has ended; return its exit status, None if it does not end."""
        self.read_until(lambda: self._process.returncode is not None, timeout)
        self._read()
        return self._process.returncode

    def ask(self, action: str) -> None:
        """Send a command, as `lanekit control` does."""
        self._commands += 1
        line = json.dumps({"command_id": self._commands, "action": action}) + "\n"
        os.write(self._control, line.encode())

    def terminate(self) -> None:
        """Send SIGTERM to the worker alone, as a daemon does."""
        self._process.terminate()

    def has_told(self, name: str, **payload: Any) -> bool:
        """Tell whether such a line has come."""
        return any(
            told.name == name and payload.items() <= told.payload.items() for told in self.told
        )

    # --- afterwards -------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """What it told, steps and episodes left out."""
        return [told.name for told in self.told if told.name not in ("step", "episode")]

    def stderr(self) -> str:
        """Return what it wrote on stderr so far."""
        return (self._path / "stderr").read_text(errors="replace")

    def left_behind(self) -> list[str]:
        """Return what outlives it, after a moment: lanes of its run, processes of its session."""
        deadline = time.monotonic() + _GOODBYE_SECONDS
        while (left := self._what_is_there()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def _what_is_there(self) -> list[str]:
        left = [f"/dev/shm/{lane.name}" for lane in self._lanes()]
        return left + [f"process {pid} ({name})" for pid, name in _session(self._process.pid)]

    def _lanes(self) -> Iterator[SegmentInfo]:
        for found in scan_segments():
            if isinstance(found, SegmentInfo) and (
                found.run_id == self.run_id or found.run_id.startswith(f"{self.run_id}/")
            ):
                yield found

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._output, 2**16)
            except BlockingIOError:
                break
            if not part:
                break
            *lines, self._rest = (self._rest + part).split(b"\n")
            for line in lines:
                self._take(line + b"\n")
        if self._process.poll() is not None and self._rest:
            self._take(self._rest)
            self._rest = b""

    def _take(self, line: bytes) -> None:
        parsed = self._parser.parse(line)
        self.rejected += parsed.rejected
        self.told += [Told("step", {}) for _ in parsed.steps]
        self.told += [Told("episode", {}) for _ in parsed.episodes]
        for event, _ in parsed.events:
            payload = json.loads(bytes(event.payload) or b"{}")
            self.told.append(Told(event.event, payload if isinstance(payload, dict) else {}))


def _session(number: int) -> Iterator[tuple[int, str]]:
    """Find the live processes of a session: pid and name."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            head, _, tail = (entry / "stat").read_text(errors="replace").rpartition(")")
            state, _, _, session = tail.split()[:4]
            if int(session) == number and state not in "ZX":
                yield int(entry.name), head.partition("(")[2]
