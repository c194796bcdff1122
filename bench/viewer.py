"""What it costs to watch: the consumer's tick, a viewer's processor time, and how old pictures are.

Beside lanekit's tab stands a naive viewer: a timer, the newest frame as bytes, a pixmap, a label;
and on a virtual screen Rerun's viewer, where it runs.
"""

from __future__ import annotations

import contextlib
import functools
import json
import statistics
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.viewer_live import RATES, live
from bench.viewer_screen import screen

GEOMETRIES = ((640, 480), (1920, 1080))


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    ticks: int
    seconds: float
    rounds: int
    tabs: int = 8
    rerun: bool = True


FULL = Effort(ticks=2000, seconds=10.0, rounds=3)
QUICK = Effort(ticks=300, seconds=4.0, rounds=1)
TINY = Effort(ticks=5, seconds=0.5, rounds=1, tabs=2, rerun=False)


@contextlib.contextmanager
def writers(count: int, width: int, height: int) -> Iterator[list[str]]:
    """Let processes publish runs at 60 Hz."""
    runs = [f"bench-{uuid.uuid4()}" for _ in range(count)]
    processes = [
        subprocess.Popen(
            [*_command("write"), run, str(width), str(height)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for run in runs
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield runs
    finally:
        for process in processes:
            process.communicate()


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bench.viewer_process", *arguments]


def _measured(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(_command(*arguments), capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _medians(results: list[dict[str, float]]) -> dict[str, Any]:
    medians = {key: statistics.median(each[key] for each in results) for key in results[0]}
    return {**medians, "rounds": results}


def tick(effort: Effort, width: int, height: int) -> dict[str, Any]:
    """A consumer's tick, with a new frame and without."""
    found = _measured("tick", str(effort.ticks), str(width), str(height))
    return {"width": width, "height": height, **found}


def watching(effort: Effort, width: int, height: int) -> dict[str, Any]:
    """One run, watched by lanekit's tab and by a naive viewer in turns."""
    found: dict[str, list[dict[str, float]]] = {"tab": [], "label": []}
    with writers(1, width, height) as runs:
        for _ in range(effort.rounds):
            for kind, results in found.items():
                results.append(_measured(kind, str(effort.seconds), *runs))
    medians = {kind: _medians(results) for kind, results in found.items()}
    return {"width": width, "height": height, **medians}


def tabs(effort: Effort) -> dict[str, Any]:
    """Several runs at once in one process: is its event loop still there for people?"""
    width, height = GEOMETRIES[0]
    with writers(effort.tabs, width, height) as runs:
        results = [_measured("tab", str(effort.seconds), *runs) for _ in range(effort.rounds)]
    return {"width": width, "height": height, "tabs": effort.tabs, **_medians(results)}


MEASUREMENTS = {
    "tick": [functools.partial(tick, width=w, height=h) for w, h in GEOMETRIES],
    "watching": [functools.partial(watching, width=w, height=h) for w, h in GEOMETRIES],
    "screen": [functools.partial(screen, width=w, height=h) for w, h in GEOMETRIES],
    "tabs": [tabs],
    "live": [functools.partial(live, rate=rate) for rate in RATES],
}
UNTIMED: set[str] = set()
TWO_CORES: set[str] = set()
