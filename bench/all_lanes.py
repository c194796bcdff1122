"""Every lane beside its limits and its peers, in one run: ``python -m bench all``.

Writes one JSON file, a page in Markdown and pictures. A lane that fails is listed with its reason,
and the others are measured all the same.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from bench import machine, page, plots, running
from bench.lane_rows import rows_of
from bench.record import Record
from bench.rows import Row
from bench.running import Parts
from bench.step_lane import PEERS
from bench.step_process import PYTHON_VARIABLE

RECORD, PAGE = "bench.json", "bench.md"
_STEP_PEERS = Path(__file__).resolve().parents[1] / "build/step-peers-venv"
_PACKAGES = (
    *("lanekit", "numpy", "cffi", "gymnasium", "mujoco", "PyQt6", "grpcio", "pyzmq", "iceoryx2"),
    *("eclipse-zenoh", "faster-fifo", "rerun-sdk", "fastapi", "uvicorn", "aiohttp", "apsw"),
)
_IN_FULL_ONLY = ("engine", "viewer", "remote")


class Plan(NamedTuple):
    """What of a lane is measured, and for how long."""

    parts: Parts
    effort: Any


# Of each lane what the page has rows of; the rest is in `python -m bench LANE`.
_FULL_PARTS = {
    "fast": ("publish", "read", "throughput", "latency", "torn_frames"),
    "slow": ("throughput", "acknowledgement"),
    "engine": ("steps", "processes"),
    "viewer": ("watching", "screen"),
}
# Enough rounds for a spread that means something, and together about 35 minutes on two cores.
_FULL_EFFORT: dict[str, dict[str, Any]] = {
    "fast": {"rounds": 11, "block_seconds": 0.02, "throughput_seconds": 0.1, "hunt_seconds": 5.0},
    "peers": {"rounds": 7, "seconds": 0.2, "latency_frames": 600},
    "step": {
        "rounds": 11,
        "steps": 1000,
        "slow_steps": 100,
        "paced_steps": 250,
        "growth_steps": 300,
    },
    "trajectory": {"warm_up": 0.2, "seconds": 0.8},
    "slow": {"events": 200_000, "tracker_share": 0.5, "latency_seconds": 10.0},
    "engine": {"seconds": 1.0, "rounds": 5},
    "viewer": {"seconds": 5.0},
    "remote": {"rounds": 3, "seconds": 2.0},
}


def _full(name: str, lane: ModuleType) -> Plan:
    """Everything that the page shows, with every peer."""
    parts = {part: lane.MEASUREMENTS[part] for part in _FULL_PARTS.get(name, lane.MEASUREMENTS)}
    return Plan(parts, replace(lane.FULL, **_FULL_EFFORT[name]))


def _tiny(name: str, lane: ModuleType) -> Plan:
    """Whether it works, not how fast: the part of each lane that its rows come from."""
    part = {"fast": "latency", "peers": "newest_frame", "step": "growth", "slow": "throughput"}
    chosen = part.get(name, next(iter(lane.MEASUREMENTS)))
    return Plan({chosen: lane.MEASUREMENTS[chosen]}, lane.TINY)


def _quick(name: str, lane: ModuleType) -> Plan:
    """Enough for every row and picture: together less than three minutes."""
    parts = dict(lane.MEASUREMENTS)
    if name == "fast":
        from bench.fast_lane import publish_cost, read_cost
        from bench.peers_lane import QUICK

        parts = {
            "publish": [partial(publish_cost, size, None) for size in QUICK.sizes],
            "read": [partial(read_cost, size, 0.0) for size in QUICK.sizes],
            "latency": parts["latency"],
        }
        return Plan(parts, replace(lane.QUICK, rounds=3, block_seconds=0.005))
    if name == "step":
        effort = replace(
            lane.QUICK,
            rounds=3,
            steps=200,
            slow_steps=20,
            growth_rounds=2,
            growth_steps=50,
            sizes=(1, 64, 4096, 65536),
        )
        return Plan({name: parts[name] for name in ("round_trip", "growth")}, effort)
    if name == "trajectory":
        effort = replace(lane.QUICK, warm_up=0.05, seconds=0.25, producers=(1,))
        return Plan(parts, effort)
    if name == "slow":
        effort = replace(lane.QUICK, rounds=2, events=50_000, tracker_share=0.15)
        return Plan({"throughput": parts["throughput"]}, effort)
    return Plan(parts, lane.QUICK)


_PLANS = {"full": _full, "quick": _quick, "tiny": _tiny}


def _measured(name: str, mode: str, noise_limit: float) -> tuple[dict[str, Any], list[Row]]:
    """Measure a lane; what goes wrong is a result, too."""
    started = time.monotonic()
    try:
        lane, _ = running.modules(name)
        plan = _PLANS[mode](name, lane)
        names = running.possible(lane, list(plan.parts))
        parts = {part: plan.parts[part] for part in names}
        results, noise = running.measure(parts, plan.effort, noise_limit, lane.UNTIMED)
        rows = rows_of(name, results)
    except Exception as error:  # a peer's library, a missing extra: the other lanes go on
        traceback.print_exc()
        machine.unpin()
        return {"failed": f"{type(error).__name__}: {error}"[:500]}, []
    found = {
        "method": running.METHODS[name],
        "effort": asdict(plan.effort),
        "noise": noise,
        "seconds": round(time.monotonic() - started, 1),
        "results": results,
    }
    return found, rows


def _versions() -> Iterator[tuple[str, str]]:
    yield "python", platform.python_version()
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"


def _written_with(lanes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the versions of the peers that have an environment of their own."""
    step = lanes.get("step", {}).get("results", {}).get("round_trip", {}).get("about", {})
    trackers = lanes.get("slow", {}).get("results", {}).get("throughput", {}).get("trackers", {})
    for name, about in (*step.items(), *trackers.items()):
        if about.get("version"):
            yield PEERS.get(name, name), about["version"]


def measure_all(names: list[str], mode: str, noise_limit: float, path: Path) -> Record:
    """Measure lanes one after the other; the file has each as soon as it is done."""
    if any(_STEP_PEERS.glob("installed-*")):  # else it is not there, or not complete
        os.environ.setdefault(PYTHON_VARIABLE, str(_STEP_PEERS / "bin/python"))
    when = datetime.now(UTC).isoformat(timespec="minutes")
    record = Record(mode, when, machine.describe(), dict(_versions()))
    for name in names:
        print(f"--- {name}", file=sys.stderr, flush=True)
        record.lanes[name], rows = _measured(name, mode, noise_limit)
        record.rows += rows
        record.versions |= dict(_written_with(record.lanes))
        record.save(path)
    return record


def main(arguments: argparse.Namespace) -> int:
    """Measure, write everything down, and say where."""
    mode = "full" if arguments.full else "tiny" if arguments.tiny else "quick"
    names = arguments.only or [
        name for name in running.METHODS if mode == "full" or name not in _IN_FULL_ONLY
    ]
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    record = measure_all(names, mode, arguments.noise, out / RECORD)
    pictures = plots.draw_all(record, out, out / plots.OVERHEAD)
    (out / PAGE).write_text(page.markdown(record, pictures), encoding="utf-8")
    print(page.summary(record))
    print(f"{record.seconds:.0f} s; written to {out / PAGE} and {out / RECORD}", file=sys.stderr)
    return 1 if any("failed" in lane for lane in record.lanes.values()) else 0
