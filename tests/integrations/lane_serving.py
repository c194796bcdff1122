"""Servers of environments for the tests: a thread of this process, or the real command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lanekit.integrations import VectorEnvServer
from lanekit.segments import inspect_segment, segment_names
from patience import patience, until

HERE = Path(__file__).parent


@contextmanager
def served(env: Any, num_envs: int, name: str, **options: Any) -> Iterator[VectorEnvServer]:
    """Serve in a thread; what ends it early is raised at the end of the block."""
    failures: list[BaseException] = []
    done = threading.Event()
    with VectorEnvServer(env, num_envs, name, **options) as server:

        def serve() -> None:
            try:
                server.serve(lambda: not done.is_set())
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server
        finally:
            done.set()
            thread.join(patience())
            assert not thread.is_alive()
    if failures:
        raise failures[0]


class Command:
    """``lanekit serve`` with these arguments, in a process of its own."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lanekit", "serve", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", **environment},
        )
        self.said = ""

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal; return its status."""
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        """Wait until it has ended; return its status."""
        self.said += self.process.communicate(timeout=patience())[0]
        return self.process.returncode

    def wait_for(self, words: str) -> None:
        """Read what it says until these words come."""
        assert self.process.stdout is not None
        while words not in self.said:
            line = self.process.stdout.readline()
            assert line, f"never said {words!r}: {self.said}"
            self.said += line

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def step_lanes_of(name: str) -> list[str]:
    """The step lanes of a server, and of its worker processes."""
    found = []
    for segment in segment_names():
        if segment.startswith("lanekit-step-"):
            try:
                run = inspect_segment(segment).run_id
            except Exception:
                continue
            if run == name or run.startswith(f"{name}/"):
                found.append(run)
    return sorted(found)


def check_nothing_left(name: str) -> None:
    until(lambda: not step_lanes_of(name), f"{name}'s lanes removed")
