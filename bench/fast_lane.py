"""What the fast lane costs, each measurement beside the machine's limit in the same run.

The measuring process is one side of the lane; a companion process on the other core is the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench import limits, machine, torn_frames
from bench.fast_latency import latency
from bench.fast_memory import memory
from bench.fast_publish import peer_cost, publish_cost, publish_loop
from bench.fast_read import read_cost
from bench.fast_sizes import FULL, LARGE, QUICK, SIZES, SMALL, TINY, Effort
from bench.fast_throughput import throughput
from bench.samples import percentiles

__all__ = ["FULL", "MEASUREMENTS", "QUICK", "TINY", "TWO_CORES", "UNTIMED"]


def torn_hunt(lane: str, effort: Effort) -> dict[str, Any]:
    """Hunt for torn frames; see torn_frames.py."""
    return torn_frames.hunt(lane, effort.hunt_seconds)


def clocks(effort: Effort) -> dict[str, Any]:
    """What the timing itself costs: it is inside every sample and never subtracted."""
    machine.pin(machine.WRITER_CORE)
    count = effort.latency_frames * 10
    return {
        "two clock reads in C": percentiles(limits.clock_cost(count)),
        "two perf_counter_ns() in Python": percentiles(machine.python_clock_cost(count)),
    }


Part = Callable[[Effort], Any]

# Counts and sizes do not suffer from a busy machine.
UNTIMED = {"memory", "torn_frames"}

# Both sides spin here: on one core each would wait for the other's time slice to end.
TWO_CORES = {"read", "throughput", "latency"}

# A measurement of several parts yields a list, one row for each.
MEASUREMENTS: dict[str, list[Part]] = {
    "clocks": [clocks],
    "publish": [partial(publish_cost, size, hz) for hz in (None, 60.0) for size in SIZES],
    "publish_loop": [partial(publish_loop, size) for size in SIZES],
    "read": [partial(read_cost, size, hz) for hz in (0.0, 1000.0) for size in SIZES],
    "throughput": [partial(throughput, size) for size in (SMALL, LARGE)],
    "latency": [latency],
    "memory": [memory],
    "peer": [peer_cost],
    "torn_frames": [partial(torn_hunt, lane) for lane in torn_frames.LANES],
}
