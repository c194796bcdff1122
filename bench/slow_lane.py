"""What the slow lane costs: real daemon, proxy and files, beside a bare loop and trackers."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench import (
    slow_events,
    slow_latency,
    slow_limits,
    slow_stages,
    slow_stores,
    slow_trackers,
)
from bench.slow_limits import Durability
from bench.slow_processes import (
    Committed,
    Daemon,
    Memory,
    Proxy,
    locked,
    scratch,
    stalled_reader,
    wait_until,
)
from bench.slow_trackers import EVENTS, NOT_A_TRACKER

_RUN = "bench"


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    rounds: int
    events: int
    trackers: tuple[str, ...]
    tracker_rounds: int
    tracker_share: float
    latency_seconds: float
    memory_events: int
    stored_steps: int


FULL = Effort(5, 400_000, tuple(EVENTS), 3, 1.0, 20.0, 1_000_000, 10_000_000)
QUICK = Effort(3, 100_000, tuple(EVENTS), 1, 0.3, 3.0, 200_000, 500_000)
TINY = Effort(1, 3_000, ("jsonl",), 1, 0.01, 0.3, 5_000, 20_000)

MODES: tuple[Durability, ...] = ("normal", "full")

Round = Callable[[Path], dict[str, Any]]


# --- durable events per second --------------------------------------------------------------------


def _limit(seconds: Callable[[Path], float], events: int, directory: Path) -> dict[str, Any]:
    taken = seconds(directory / "bare.db")
    return {"seconds": taken, "rate": events / taken}


def _limits(events: int) -> dict[str, Round]:
    whole = slow_events.whole_rows(events)
    given = slow_events.rows(events)
    found: dict[str, Round] = {}
    for mode in MODES:
        bare = {
            "sqlite3": partial(slow_limits.sqlite3_executemany, whole, durability=mode),
            "sqlite3, without the NULLs": partial(
                slow_limits.sqlite3_executemany, given, durability=mode
            ),
            "APSW": partial(slow_limits.apsw_executemany, whole, durability=mode),
            "APSW, batches of 4,096": partial(
                slow_limits.apsw_executemany, whole, durability=mode, batch=4096
            ),
        }
        for name, seconds in bare.items():
            found[f"{name}, {mode}"] = partial(_limit, seconds, events)
    return found


def _pipeline(
    durability: Durability,
    lines: Path,
    events: int,
    worker: tuple[str, ...] | None,
    directory: Path,
) -> dict[str, Any]:
    """One worker's events through a proxy and a daemon, from its go to the last acknowledgement."""
    with Daemon(directory / "daemon", durability) as daemon:
        proxy = Proxy(daemon, _RUN, directory / "proxy", worker, lines)
        committed = Committed(daemon.store, _RUN)
        with proxy:
            wait_until(lambda: committed.steps() == 0, "the worker is registered", every=0.02)
            used = {"daemon": daemon.cpu_seconds(), "proxy": proxy.cpu_seconds()}
            started = proxy.go()
            at_commit = wait_until(lambda: committed.steps() >= events, "all is committed")
            at_acknowledgement = wait_until(
                lambda: proxy.acknowledged() >= events, "all is acknowledged"
            )
            used["daemon"] = daemon.cpu_seconds() - used["daemon"]
            used["proxy"] = proxy.cpu_seconds() - used["proxy"]
            proxy.process.wait(60)
        stored = committed.stored()
        committed.close()
    if stored != events or proxy.process.returncode != 0:
        raise RuntimeError(
            f"{stored} of {events} events stored, proxy's status {proxy.process.returncode}: "
            f"{proxy.output()[-1000:]}"
        )
    end = max(at_commit, at_acknowledgement)
    return {
        "seconds": end - started,
        "rate": events / (end - started),
        "rate_committed": events / (at_commit - started),
        "cpu_us_daemon": used["daemon"] / events * 1e6,
        "cpu_us_proxy": used["proxy"] / events * 1e6,
    }


def _emitting_worker(events: int) -> tuple[str, ...]:
    return (sys.executable, "-m", "bench.slow_worker", str(events))


def _trackers(effort: Effort) -> dict[str, Round]:
    if not effort.trackers:
        return {}
    own = set(effort.trackers) != {"jsonl"}
    python = slow_trackers.python() if own else sys.executable
    return {
        name: partial(slow_trackers.record, python, name, int(EVENTS[name] * effort.tracker_share))
        for name in effort.trackers
    }


def _spread(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return medians over the rounds, and the slowest and fastest of them."""
    good = [each for each in rounds if "rate" in each]
    if not good:
        return rounds[-1]
    rates = [each["rate"] for each in good]
    described = {
        key: value for key, value in good[0].items() if key not in ("seconds", "rate", "bytes")
    }
    for key in ("rate_committed", "cpu_us_daemon", "cpu_us_proxy"):
        if key in described:
            described[key] = median(each[key] for each in good)
    if "bytes" in good[0]:
        described["bytes_per_event"] = good[0]["bytes"] / good[0]["events"]
    return described | {
        "rate": median(rates),
        "rate_min": min(rates),
        "rate_max": max(rates),
        "rounds": rates,
    }


def _ratios(rounds: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, float]]:
    """Compare with each limit of the same mode, round by round."""
    found: dict[str, dict[str, float]] = {}
    for mode in MODES:
        for kind in ("cat", "Python worker"):
            ours = rounds.get(f"lanekit, {kind}, {mode}")
            if ours is None:
                continue
            found[f"{kind}, {mode}"] = {
                limit: median(
                    mine["rate"] / bare["rate"]
                    for mine, bare in zip(ours, rounds[f"{limit}, {mode}"], strict=False)
                )
                for limit in ("sqlite3", "sqlite3, without the NULLs", "APSW")
            }
    return found


def throughput(effort: Effort) -> dict[str, Any]:
    """Measure events per second, durable: the limits, the whole lane, and the trackers."""
    events = effort.events
    with scratch() as directory:
        lines = directory / "events.jsonl"
        size = slow_events.write_lines(lines, events)
        blocks = _limits(events)
        for mode in MODES:
            blocks[f"lanekit, cat, {mode}"] = partial(_pipeline, mode, lines, events, None)
        fewer = events // 4  # it takes longer than all the others
        blocks["lanekit, Python worker, normal"] = partial(
            _pipeline, "normal", lines, fewer, _emitting_worker(fewer)
        )
        trackers = _trackers(effort)
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in (*blocks, *trackers)}
        for i in range(effort.rounds):
            todo = list(blocks.items())
            if i < effort.tracker_rounds:
                todo += trackers.items()
            for name, block in todo if i % 2 == 0 else reversed(todo):
                where = directory / "round"
                where.mkdir()
                rounds[name].append(block(where))
                shutil.rmtree(where)
    results = {name: _spread(found) for name, found in rounds.items() if name not in trackers}
    peers = {name: _spread(rounds[name]) for name in trackers}
    measured = {name: peer["rate"] for name, peer in peers.items() if "rate" in peer}
    real = {name: rate for name, rate in measured.items() if name not in NOT_A_TRACKER}
    best = max(real, key=lambda name: real[name]) if real else None
    return {
        "events": events,
        "bytes_per_line": size / events,
        "results": results,
        "ratios": _ratios(rounds),
        "trackers": peers,
        "best_tracker": best,
        "times_best_tracker": {
            mode: results[f"lanekit, cat, {mode}"]["rate"] / real[best]
            for mode in MODES
            if best is not None
        },
    }


# --- memory ---------------------------------------------------------------------------------------

_STALL_SECONDS = 3.0


@contextmanager
def _stalled(what: str, daemon: Daemon) -> Iterator[None]:
    """Keep a viewer or the disk from moving inside the block."""
    if what == "viewer":
        with stalled_reader(daemon.target, _RUN):
            yield
    elif what == "disk":
        with locked(daemon.store):
            yield
    else:
        yield


def _with_stalled(what: str, effort: Effort, lines: Path, directory: Path) -> dict[str, Any]:
    events = effort.memory_events
    with (
        Daemon(directory / "daemon", "normal") as daemon,
        Proxy(daemon, _RUN, directory / "proxy", None, lines) as proxy,
    ):
        committed = Committed(daemon.store, _RUN)
        wait_until(lambda: committed.steps() == 0, "the worker is registered", every=0.02)
        with Memory({"daemon": daemon.pid, "proxy": proxy.pid}) as sampled:
            with _stalled(what, daemon):
                proxy.go()
                if what == "disk":
                    size = lines.stat().st_size
                    wait_until(lambda: proxy.journalled() >= size, "the worker has ended")
                    time.sleep(_STALL_SECONDS if events > 100_000 else 0)
                    if committed.steps() > 0:
                        raise RuntimeError("the disk was not stalled")
                else:
                    wait_until(lambda: committed.steps() >= events, "all is committed", every=0.02)
            wait_until(lambda: proxy.acknowledged() >= events, "all is acknowledged", every=0.02)
        proxy.process.wait(60)
        stored = committed.stored()
        committed.close()
    return {"stalled": what, "events": events, "stored": stored, "processes": sampled.summary()}


def memory(effort: Effort) -> list[dict[str, Any]]:
    """Measure what a stalled viewer or a stalled disk costs in memory."""
    with scratch() as directory:
        lines = directory / "events.jsonl"
        slow_events.write_lines(lines, effort.memory_events)
        return [
            _with_stalled(what, effort, lines, directory / what)
            for what in ("nothing", "viewer", "disk")
        ]


# --- parts that have modules of their own ---------------------------------------------------------


def acknowledgement(effort: Effort) -> list[dict[str, Any]]:
    """Measure, at 1,000 events a second, how long after its emission an event is acknowledged."""
    with scratch() as directory:
        seconds = effort.latency_seconds / len(MODES)
        return [slow_latency.acknowledgement(mode, seconds, directory / mode) for mode in MODES]


def stages(effort: Effort) -> dict[str, dict[str, list[float]]]:
    """Measure each stage of an event's way alone."""
    with scratch() as directory:
        return slow_stages.stages(effort.events // 4, effort.rounds, directory)


def queries(effort: Effort) -> dict[str, Any]:
    """Ask a large store what people ask, and how it found the answer."""
    return slow_stores.ask(effort.stored_steps)


Part = Callable[[Effort], Any]
MEASUREMENTS: dict[str, list[Part]] = {
    "throughput": [throughput],
    "stages": [stages],
    "acknowledgement": [acknowledgement],
    "memory": [memory],
    "queries": [queries],
}

# These need no quiet machine.
UNTIMED = {"memory"}
# None needs two cores.
TWO_CORES: set[str] = set()
