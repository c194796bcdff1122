"""The processes that step: each kind in its own, standing still while another is measured."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from bench import machine
from bench.peers.steppers import Task
from bench.samples import Samples

_ROOT = Path(__file__).resolve().parent.parent
_PATIENCE = 120.0
_GRACE = 3.0
PYTHON_VARIABLE = "LANEKIT_BENCH_STEPPERS"
"""The environment variable that names the Python which has the frameworks."""


class Stepper:
    """One kind of stepping: a trainer process and its engine, stopped between their turns.

    It begins to start at once; :attr:`about` waits until it has, so that several start together.
    """

    def __init__(self, kind: str, task: Task) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="lanekit-bench-")  # some write into it
        python = sys.executable if kind == "lane" else _framework_python()
        self._process = subprocess.Popen(
            [python, "-m", "bench.peers.steppers", kind, json.dumps(asdict(task))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self._place.name,
            env=os.environ
            | {
                "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")]),
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "PYTHONWARNINGS": "ignore",
            },
            process_group=0,  # not a session: the kernel would give each a share of its own
        )
        self._about: dict[str, Any] = {}

    @property
    def about(self) -> dict[str, Any]:
        """What it says of itself once it is there; it stands still from then on."""
        if not self._about:
            self._about = self._read()
            self.stop()
        return self._about

    @property
    def works(self) -> bool:
        """Whether it can be measured; else :attr:`about` says why not."""
        return "failed" not in self.about

    def stop(self) -> None:
        """Stand still: nothing of this kind runs, not even what waits busily."""
        self._signal(signal.SIGSTOP)

    def go(self) -> None:
        """Run again."""
        self._signal(signal.SIGCONT)

    def ask(self, steps: int, hz: float = 0.0, seconds: float = 60.0) -> None:
        """Let it step; :meth:`answer` has the times."""
        assert self._process.stdin is not None
        asked = {"steps": steps, "hz": hz, "seconds": seconds}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Samples:
        """Return the nanoseconds of each step asked for."""
        return np.array(self._read(), np.int64)

    def measure(self, steps: int, hz: float = 0.0) -> Samples:
        """Step, alone, and stand still again."""
        assert self.works, self.about
        self.go()
        self.ask(steps, hz)
        samples = self.answer()
        self.stop()
        return samples

    def _read(self) -> Any:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE)
        line = self._process.stdout.readline() if ready else ""
        return json.loads(line) if line else {"failed": "it does not answer"}

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def close(self) -> None:
        """End all its processes; a lane's go their own way first, which removes its segment."""
        self.go()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        end = time.monotonic() + _GRACE
        while self._segments() and time.monotonic() < end:
            time.sleep(0.01)
        machine.account_for_group(self._process.pid)
        self._signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        for left in self._segments():
            left.unlink(missing_ok=True)
        self._place.cleanup()

    def _segments(self) -> list[Path]:
        return list(Path("/dev/shm").glob(f"lanekit-step-bench-{self._process.pid}-*"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _framework_python() -> str:
    return os.environ.get(PYTHON_VARIABLE, sys.executable)
