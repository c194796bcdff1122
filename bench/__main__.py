"""Run benchmarks: ``python -m bench fast|slow|step|trajectory|viewer|engine|remote [--quick]``."""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from bench import machine

_METHODS = {
    "fast": (
        "Writer and reader are separate processes pinned to different cores. Every operation is "
        "one sample; blocks of each kind of operation alternate, p50 and p99 are medians over the "
        "rounds, ratios are medians of the ratios of p50 within a round. Samples of lanekit are "
        "taken in Python (perf_counter_ns), those of the limits in C (clock_gettime), clock reads "
        "included."
    ),
    "slow": (
        "Real daemon and proxy processes, each round with new files on the checkout's disk. The "
        "limits, the lane and the trackers alternate, rates are medians over the rounds, ratios "
        "are medians of the ratios within a round. A lane's time ends with its last "
        "acknowledgement."
    ),
    "step": (
        "A trainer and an engine are separate Python processes, pinned to different cores where "
        "there are as many. Every round trip is one sample, taken in Python around one call. "
        "Blocks of each kind alternate, those of other kinds standing still (SIGSTOP) meanwhile; "
        "p50 and p99 are medians over the rounds, ratios are medians of the ratios within a round."
    ),
    "viewer": (
        "Real writer processes publish at 60 Hz; each viewer is a process of its own, off screen, "
        "drawn by Qt's software renderer. CPU is the viewer's processor time over wall time; a "
        "frame's age counts from its publication until the event loop's next turn after it was "
        "painted. On a virtual screen (Xvfb) viewers are seen from outside: frames carry their "
        "time, which is read off the X server's picture every 2 ms; Rerun's draws through whatever "
        "Vulkan driver there is. Viewers alternate, figures are medians over the rounds."
    ),
    "engine": (
        "The same MuJoCo simulation with the same actions: called in process, behind the lanes, "
        "behind gRPC (raw bytes, a Unix socket), in Gymnasium's AsyncVectorEnv. Each is a process "
        "of its own that waits while another is measured; blocks alternate, rates are medians over "
        "the rounds, ratios are medians of the ratios within a round."
    ),
    "trajectory": (
        "Each producer is a process that sends as fast as it is let; the consumer counts what it "
        "received in a fixed time after a warm-up, and looks at both ends of every array. The ways "
        "alternate, every other round backwards; rates are medians over the rounds, ratios medians "
        "of the ratios within a round. memcpy is one C loop into a ring of the same size."
    ),
    "remote": (
        "Worker, daemon and watcher are processes of one machine; the network is loopback. A "
        "frame's time counts from its publication in shared memory to when the watcher has its "
        "bytes, that of plain TCP from before the first byte is sent to when the last one is "
        "read, for as many bytes as the frame took. CPU is the daemon's processor time over wall "
        "time. Ways alternate, figures are medians over the rounds."
    ),
}


_TRIES = 8


class _Found(NamedTuple):
    result: Any
    noise: float


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("lane", choices=list(_METHODS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a first impression")
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="some measurements instead of all"
    )
    parser.add_argument(
        "--noise",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="wait for quiet moments, and measure again (up to "
        f"{_TRIES} times) until others used at most this share of the machine",
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).with_name("results"), help="directory for JSON"
    )
    return parser.parse_args()


def _quietest(part: Callable[[Any], Any], effort: Any, noise_limit: float) -> _Found:
    """Measure, again if others kept the machine busy meanwhile; keep the least disturbed result."""
    found: list[_Found] = []
    while len(found) < _TRIES and not (found and found[-1].noise <= noise_limit):
        if noise_limit < 1:
            machine.wait_until_quiet(noise_limit)
        neighbours = machine.Neighbours()
        result = part(effort)
        found.append(_Found(result, neighbours.share()))
    return min(found, key=lambda each: each.noise)


def _measure(
    lane: ModuleType, names: list[str], effort: Any, noise_limit: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    results, noise = {}, {}
    for name in names:
        started = time.monotonic()
        limit = 1.0 if name in lane.UNTIMED else noise_limit
        found = [_quietest(part, effort, limit) for part in lane.MEASUREMENTS[name]]
        rows = [each.result for each in found]
        results[name] = rows if len(rows) > 1 else rows[0]
        noise[name] = [round(each.noise, 3) for each in found]
        print(
            f"{name}: {time.monotonic() - started:.0f} s, others used up to "
            f"{max(noise[name]):.0%} of the machine meanwhile",
            file=sys.stderr,
        )
    return results, noise


def _possible(lane: ModuleType, names: list[str]) -> list[str]:
    """Leave out what needs two cores where there is one."""
    if len(machine.cores()) > 1:
        return names
    left_out = lane.TWO_CORES.intersection(names)
    print(
        "Only one core: writer and reader share it. Left out, because they need two: "
        + (", ".join(sorted(left_out)) or "nothing"),
        file=sys.stderr,
    )
    return [name for name in names if name not in left_out]


def _modules(lane: str) -> tuple[ModuleType, ModuleType]:
    """Return what measures a lane and what reports it. Each lane has needs of its own."""
    report = "bench.report" if lane == "fast" else f"bench.{lane}_report"
    measures = "bench.viewer" if lane == "viewer" else f"bench.{lane}_lane"
    return importlib.import_module(measures), importlib.import_module(report)


def main() -> None:
    # Ending by SIGTERM must unwind, too: the rings in shared memory are removed on the way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments = _arguments()
    lane, report = _modules(arguments.lane)
    if unknown := set(arguments.only or ()).difference(lane.MEASUREMENTS):
        known = ", ".join(lane.MEASUREMENTS)
        sys.exit(f"--only: {', '.join(sorted(unknown))} is not one of {known}")
    described = machine.describe()
    effort = lane.QUICK if arguments.quick else lane.FULL
    if arguments.tiny:  # for the tests: whether it works, not how fast
        effort = lane.TINY
    names = _possible(lane, arguments.only or list(lane.MEASUREMENTS))
    results, noise = _measure(lane, names, effort, arguments.noise)
    record = {
        "machine": described,
        "method": _METHODS[arguments.lane],
        "effort": asdict(effort),
        "noise": noise,
        "results": results,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{arguments.lane}.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(report.markdown(results))
    print(f"\nwritten to {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
