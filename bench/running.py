"""Measuring a lane: how each is measured, part by part, again where others disturbed it."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from bench import machine

METHODS = {
    "fast": (
        "Writer and reader are separate processes pinned to different cores. Every operation is "
        "one sample; blocks of each kind of operation alternate, p50 and p99 are medians over the "
        "rounds, ratios are medians of the ratios of p50 within a round. Samples of lanekit are "
        "taken in Python (perf_counter_ns), those of the limits in C (clock_gettime), clock reads "
        "included."
    ),
    "peers": (
        "Each way to have another process's newest frame is a writer and a reader process pinned "
        "to different cores, driven by the same code. Publishing is timed in Python around one "
        "call, a reader taking the newest frame at 60 Hz (flat out where the writer waits for it); "
        "throughput counts the frames that reached a reader flat out. One way: from before the "
        "call until all pixels are at hand, frames sent at random moments 0.2 to 2 ms apart. Ways "
        "alternate, every other round backwards; medians over the rounds with the middle half."
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
        "received in a fixed time after a warm-up, and looks at both ends of every array. The "
        "consumer is pinned to the first core, producers share the others, with all threads. Ways "
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

TRIES = 8


class _Found(NamedTuple):
    result: Any
    noise: float


def _quietest(part: Callable[[Any], Any], effort: Any, noise_limit: float) -> _Found:
    """Measure, again if others kept the machine busy meanwhile; keep the least disturbed result."""
    found: list[_Found] = []
    while len(found) < TRIES and not (found and found[-1].noise <= noise_limit):
        if noise_limit < 1:
            machine.wait_until_quiet(noise_limit)
        neighbours = machine.Neighbours()
        result = part(effort)
        found.append(_Found(result, neighbours.share()))
    return min(found, key=lambda each: each.noise)


Parts = Mapping[str, Sequence[Callable[[Any], Any]]]


def measure(
    parts: Parts, effort: Any, noise_limit: float, untimed: set[str]
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Measure all parts; return what was found, and the share of the machine others used."""
    results, noise = {}, {}
    for name, measurements in parts.items():
        started = time.monotonic()
        limit = 1.0 if name in untimed else noise_limit
        found = [_quietest(part, effort, limit) for part in measurements]
        rows = [each.result for each in found]
        results[name] = rows if len(rows) > 1 else rows[0]
        noise[name] = [round(each.noise, 3) for each in found]
        print(
            f"{name}: {time.monotonic() - started:.0f} s, others used up to "
            f"{max(noise[name]):.0%} of the machine meanwhile",
            file=sys.stderr,
        )
    return results, noise


def possible(lane: ModuleType, names: list[str]) -> list[str]:
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


def modules(lane: str) -> tuple[ModuleType, ModuleType]:
    """Return what measures a lane and what reports it. Each lane has needs of its own."""
    report = "bench.report" if lane == "fast" else f"bench.{lane}_report"
    measures = "bench.viewer" if lane == "viewer" else f"bench.{lane}_lane"
    return importlib.import_module(measures), importlib.import_module(report)
