"""Engines for the tests: one in a thread of the test, and one that can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

# MuJoCo looks at it when it is imported.
os.environ.setdefault("MUJOCO_GL", "egl")

import pytest
from served_engine import Serve, Served

from lanekit import segment_name
from lanekit.engine import Engine, EngineClient
from lanekit.segments import segment_path
from patience import patience


@pytest.fixture
def lane() -> Iterator[str]:
    """A name that nobody else uses. The test must leave neither lane nor frames behind."""
    name = f"test-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    yield name
    paths = [segment_path(segment_name(kind, name)) for kind in ("step", "frame")]
    left = [path for path in paths if path.exists()]
    for path in left:
        path.unlink()
    assert not left, f"the test left {left} behind"


@pytest.fixture
def serve(lane: str) -> Iterator[Serve]:
    """Make engines that serve under the test's name."""
    made: list[Served] = []

    def make(model: str = "hopper", num_envs: int = 4, **options: Any) -> Served:
        made.append(Served(Engine(lane, model, num_envs, **options)))
        return made[-1]

    yield make
    for served in made:
        served.end()
        assert served.error is None


@pytest.fixture
def client(lane: str) -> Iterator[Callable[[], EngineClient]]:
    """Make clients of the test's engine."""
    made: list[EngineClient] = []

    def make() -> EngineClient:
        made.append(EngineClient(lane, timeout=patience()))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def engine_process(lane: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `lanekit engine` under the test's name, and wait until it serves."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "lanekit", "engine", "--name", lane, *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"engine {lane!r}")
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait(patience())
        assert process.stdout is not None
        process.stdout.close()
    segment_path(segment_name("step", lane)).unlink(missing_ok=True)
    segment_path(segment_name("frame", lane)).unlink(missing_ok=True)
