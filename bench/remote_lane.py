"""Frames through a daemon: added latency, processor time, and what the worker pays."""

from __future__ import annotations

import functools
import os
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.remote_process import HEAD, Child, TcpDaemon
from bench.slow_processes import scratch
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.watched_frames import Recipe

RATE = 30.0
SIZES = ((320, 240), (640, 480))
WAYS: tuple[tuple[str, Recipe, bool], ...] = (
    ("raw", Recipe("raw"), False),
    ("raw, TLS", Recipe("raw"), True),
    ("jpeg", Recipe("jpeg"), False),
    ("jpeg, TLS", Recipe("jpeg"), True),
    ("webp", Recipe("webp"), False),
)


WORKER_MODES = ("no daemon", "nobody watches", "watched at 30 Hz", "its watcher left")
LEAVING = 1.5
"""Seconds after which a watcher that left counts as gone, for the worker too."""


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int
    seconds: float
    sizes: tuple[tuple[int, int], ...] = SIZES
    ways: int = len(WAYS)


FULL = Effort(rounds=5, seconds=6.0)
QUICK = Effort(rounds=2, seconds=3.0)
TINY = Effort(rounds=1, seconds=1.0, sizes=SIZES[:1], ways=2)


def _run_id() -> str:
    return f"bench-remote-{os.getpid()}-{time.time_ns()}"


def _plain_tcp(size: int, seconds: float) -> list[float]:
    """Return the milliseconds from each message's first byte sent to its last one received."""
    with Child(do="send", size=size, rate=RATE) as sender:
        waits = []
        with socket.create_connection(("127.0.0.1", int(sender.first_line))) as connection:
            file = connection.makefile("rb")
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                sent_ns, count = HEAD.unpack(file.read(HEAD.size))
                file.read(count)
                waits.append((time.time_ns() - sent_ns) / 1e6)
        return waits[3:]


def _watch(
    client: DaemonClient, run_id: str, recipe: Recipe, seconds: float
) -> tuple[list[float], int]:
    """Return the milliseconds from each frame's publication to its arrival, and its bytes."""
    waits: list[float] = []
    size = 0
    with client.watch_frames(run_id, rate=2 * RATE, recipe=recipe) as stream:
        end = time.monotonic() + seconds
        for update in stream:
            if update.frame is not None:
                waits.append((time.time_ns() - update.frame.published_unix_ns) / 1e6)
                size = len(update.frame.picture.data)
            if time.monotonic() > end:
                break
    return waits[3:], size


def _one_way(
    directory: Path, shape: tuple[int, int], recipe: Recipe, tls: bool, seconds: float
) -> dict[str, float]:
    """Measure one way of fetching frames of one size, and the same bytes over plain TCP."""
    width, height = shape
    run_id = _run_id()
    with (
        TcpDaemon(directory, tls=tls) as daemon,
        daemon.client() as client,
        Child(do="publish", run_id=run_id, width=width, height=height, rate=RATE) as worker,
    ):
        _watch(client, run_id, recipe, 0.5)  # to warm up
        idle = _share(daemon, lambda: time.sleep(seconds / 2))
        found: list[Any] = []
        busy = _share(daemon, lambda: found.append(_watch(client, run_id, recipe, seconds)))
        waits, size = found[0]
        worker.end()
        plain = _plain_tcp(size, seconds / 2)
    ours, theirs = statistics.median(waits), statistics.median(plain)
    return {
        "bytes": float(size),
        "frames_per_second": len(waits) / seconds,
        "p50_ms": ours,
        "p99_ms": sorted(waits)[len(waits) * 99 // 100],
        "tcp_p50_ms": theirs,
        "added_ms": ours - theirs,
        "cpu": busy,
        "cpu_idle": idle,
    }


def _share(daemon: TcpDaemon, do: Callable[[], None]) -> float:
    """Return the share of one core that the daemon uses meanwhile."""
    before, started = daemon.cpu_seconds(), time.monotonic()
    do()
    return (daemon.cpu_seconds() - before) / (time.monotonic() - started)


def ways(effort: Effort, shape: tuple[int, int]) -> dict[str, Any]:
    """Return every way's figures for frames of one size: medians over the rounds."""
    chosen = WAYS[: effort.ways]
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name, _, _ in chosen}
    for number in range(effort.rounds):
        for name, recipe, tls in chosen if number % 2 == 0 else reversed(chosen):
            with scratch() as directory:
                found = _one_way(directory / "d", shape, recipe, tls, effort.seconds)
            rounds[name].append(found)
    return {
        "frame": f"{shape[0]}x{shape[1]}",
        "ways": {
            name: {
                **{key: statistics.median(each[key] for each in found) for key in found[0]},
                "rounds": found,
            }
            for name, found in rounds.items()
        },
    }


def worker_cost(effort: Effort) -> dict[str, Any]:
    """Return what a publish takes with no daemon, with one that nobody asks, and with watchers."""
    width, height = effort.sizes[-1]
    rounds: dict[str, list[dict[str, Any]]] = {}
    for _ in range(effort.rounds):
        for mode in WORKER_MODES:
            rounds.setdefault(mode, []).append(_publishing(mode, width, height, effort.seconds))
    alone = [each["p50_us"] for each in rounds["no daemon"]]
    return {
        "frame": f"{width}x{height}",
        "modes": {
            mode: {
                "p50_us": statistics.median(each["p50_us"] for each in found),
                "p99_us": statistics.median(each["p99_us"] for each in found),
                "ratio": statistics.median(
                    each["p50_us"] / least for each, least in zip(found, alone, strict=True)
                ),
                "frames": sum(each["frames"] for each in found),
                "rounds": [each["p50_us"] for each in found],
            }
            for mode, found in rounds.items()
        },
    }


def _publishing(mode: str, width: int, height: int, seconds: float) -> dict[str, Any]:
    run_id = _run_id()

    def worker() -> Child:
        return Child(do="publish", run_id=run_id, width=width, height=height, rate=200.0)

    if mode == "no daemon":
        with worker() as child:
            time.sleep(seconds)
            return child.end()
    with (
        scratch() as directory,
        TcpDaemon(directory / "d", tls=False) as daemon,
        daemon.client() as client,
        worker() as child,
    ):
        client.list_lanes(run_id)
        if mode == "its watcher left":
            _watch(client, run_id, Recipe(), min(1.0, seconds))
            time.sleep(LEAVING)
            child.forget()
        if mode == "watched at 30 Hz":
            _watch(client, run_id, Recipe(), seconds)
        else:
            time.sleep(seconds)
        return child.end()


def _ways_of_size(effort: Effort, number: int) -> dict[str, Any] | None:
    return ways(effort, effort.sizes[number]) if number < len(effort.sizes) else None


MEASUREMENTS = {
    "ways": [functools.partial(_ways_of_size, number=number) for number in range(len(SIZES))],
    "worker": [worker_cost],
}
UNTIMED: set[str] = set()
TWO_CORES: set[str] = set()
