"""What publishing costs, beside memcpy and beside a plain-Python ring."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from bench import limits, machine
from bench.companion import Companion
from bench.fast_readers import watch
from bench.fast_sizes import SMALL, Effort, Size, frames, new_run_id
from bench.limits import Pixels, PlainRing, Sources
from bench.peers.python_ring import PythonRingWriter
from bench.samples import Block, Samples, alternate, summary
from lanekit import FastLaneMetrics, FastLaneWriter

_now = time.perf_counter_ns


# --- loops that time single calls, spelled out as a user would write them -------------------------


def _time_publish(writer: FastLaneWriter, frames: Sequence[Pixels], count: int) -> Samples:
    samples = np.zeros(count, np.int64)
    for i, frame in enumerate(itertools.islice(itertools.cycle(frames), count)):
        start = _now()
        writer.publish(frame)
        samples[i] = _now() - start
    return samples


def _time_publish_fresh(writer: FastLaneWriter, frame: Pixels, count: int) -> Samples:
    samples = np.zeros(count, np.int64)
    for i in range(count):
        fresh = frame.copy()
        start = _now()
        writer.publish(fresh)
        samples[i] = _now() - start
    return samples


def _time_copy_in_fresh(ring: PlainRing, frame: Pixels, count: int) -> Samples:
    """Give C a freshly allocated frame each time, from Python; timed in C all the same."""
    samples = np.zeros(count, np.int64)
    for i in range(count):
        fresh = frame.copy()
        samples[i] = limits.copy_in(ring, Sources([fresh]), 1)[0]
    return samples


def _time_publish_metrics(
    writer: FastLaneWriter, frame: Pixels, metrics: FastLaneMetrics, count: int
) -> Samples:
    samples = np.zeros(count, np.int64)
    for i in range(count):
        start = _now()
        writer.publish(frame, metrics=metrics)
        samples[i] = _now() - start
    return samples


def _time_reserve(writer: FastLaneWriter, count: int) -> Samples:
    samples = np.zeros(count, np.int64)
    for i in range(count):
        start = _now()
        writer.reserve().commit()
        samples[i] = _now() - start
    return samples


def _time_memcpy_called(ring: PlainRing, source: Any, count: int) -> Samples:
    """Call memcpy from Python through cffi, with every pointer made beforehand."""
    memcpy, size = limits.load().lib.limit_memcpy, ring.config.frame_size
    samples = np.zeros(count, np.int64)
    for i, slot in enumerate(itertools.islice(itertools.cycle(ring.slot_pointers()), count)):
        start = _now()
        memcpy(slot, source, size)
        samples[i] = _now() - start
    return samples


# --- beside memcpy --------------------------------------------------------------------------------


PUBLISH_LIMITS = {
    "publish, same array": "memcpy",
    "publish, new array": "memcpy, new array",
    "publish, fresh array": "memcpy, fresh array",
    "memcpy called from Python": "memcpy",
    "publish called from C": "memcpy",
}
POOL = 16


@contextmanager
def lane_and_plain_ring(size: Size) -> Iterator[tuple[FastLaneWriter, PlainRing]]:
    run_id = new_run_id("publish")
    with (
        FastLaneWriter.create(run_id, size.config) as writer,
        PlainRing(f"{run_id}-plain", size.config, create=True) as ring,
    ):
        yield writer, ring


def _publish_blocks(
    writer: FastLaneWriter, ring: PlainRing, count: int, lap: int
) -> dict[str, Block]:
    """One block per way of publishing; each begins with an untimed lap of its ring."""
    frame, *pool = frames(ring.config, 1 + POOL)
    one, many = Sources([frame]), Sources(pool)
    n = count + lap
    return {
        "memcpy": lambda: limits.copy_in(ring, one, n)[lap:],
        "publish, same array": lambda: _time_publish(writer, [frame], n)[lap:],
        "memcpy, new array": lambda: limits.copy_in(ring, many, n)[lap:],
        "publish, new array": lambda: _time_publish(writer, pool, n)[lap:],
        "memcpy, fresh array": lambda: _time_copy_in_fresh(ring, frame, n)[lap:],
        "publish, fresh array": lambda: _time_publish_fresh(writer, frame, n)[lap:],
        "memcpy called from Python": lambda: _time_memcpy_called(ring, one.buffers[0], n)[lap:],
        "publish called from C": lambda: limits.call_publish(writer, frame, n)[lap:],
        "reserve + commit": lambda: _time_reserve(writer, n)[lap:],
    }


def publish_cost(size: Size, reader_hz: float | None, effort: Effort) -> dict[str, Any]:
    """Time publishing with no reader, or with one that looks at both rings at a rate in Hz."""
    machine.pin(machine.WRITER_CORE)
    with (
        lane_and_plain_ring(size) as (writer, ring),
        Companion(machine.READER_CORE, watch, writer.run_id, size.config, ring.name) as watcher,
    ):
        blocks = _publish_blocks(writer, ring, size.block(effort), size.capacity)
        for block in blocks.values():
            block()
        watcher.ask(reader_hz)
        results = alternate(blocks, effort.rounds)
    return {
        "frame": size.label,
        "capacity": size.capacity,
        "reader_hz": reader_hz,
        "calls": summary(results, PUBLISH_LIMITS),
    }


def publish_loop(size: Size, effort: Effort) -> dict[str, Any]:
    """Time whole loops, without a clock in them: the loop's own cost is in, the timer's is not."""
    machine.pin(machine.WRITER_CORE)
    count = size.block(effort)
    with lane_and_plain_ring(size) as (writer, ring):
        frame = frames(size.config, 1)[0]
        source = Sources([frame])

        def ours() -> Samples:
            _time_publish(writer, [frame], size.capacity)
            start = _now()
            for _ in range(count):
                writer.publish(frame)
            return np.array([(_now() - start) / count])

        def memcpy() -> Samples:
            limits.copy_in(ring, source, size.capacity)
            return np.array([limits.copy_in_untimed(ring, source, count)])

        results = alternate({"memcpy": memcpy, "publish, same array": ours}, effort.rounds)
    calls = summary(results, {"publish, same array": "memcpy"})
    return {"frame": size.label, "mean": {k: _mean_only(v) for k, v in calls.items()}}


def _mean_only(row: dict[str, float]) -> dict[str, float]:
    names = {"p50_us": "us", "p50_low": "us_low", "p50_high": "us_high"}
    return {names.get(k, k): v for k, v in row.items() if k != "p99_us"}


# --- the plain-Python peer ------------------------------------------------------------------------


def _time_peer(ring: PythonRingWriter, frame: Any, metrics: Any, count: int) -> Samples:
    samples = np.zeros(count, np.int64)
    for i in range(count):
        start = _now()
        ring.publish(frame, metrics=metrics)
        samples[i] = _now() - start
    return samples


def _time_peer_tobytes(
    ring: PythonRingWriter, frame: Pixels, metrics: FastLaneMetrics, count: int
) -> Samples:
    samples = np.zeros(count, np.int64)
    for i in range(count):
        start = _now()
        ring.publish(frame.tobytes(), metrics=metrics)
        samples[i] = _now() - start
    return samples


def peer_cost(effort: Effort) -> dict[str, Any]:
    """Publish over a plain-Python ring and over lanekit in turn."""
    machine.pin(machine.WRITER_CORE)
    count, metrics = SMALL.block(effort), FastLaneMetrics(1.0, 2.0, 3.0)
    frame = frames(SMALL.config, 1)[0]
    data, source = frame.tobytes(), Sources([frame])
    with (
        lane_and_plain_ring(SMALL) as (writer, ring),
        PythonRingWriter.create(new_run_id("peer"), SMALL.config) as peer,
    ):
        blocks: dict[str, Block] = {
            "memcpy": lambda: limits.copy_in(ring, source, count),
            "lanekit publish(array)": lambda: _time_publish(writer, [frame], count),
            "lanekit publish(array, metrics=…)": lambda: _time_publish_metrics(
                writer, frame, metrics, count
            ),
            "plain Python publish(bytes)": lambda: _time_peer(peer, data, None, count),
            "plain Python publish(bytes, metrics=…)": lambda: _time_peer(
                peer, data, metrics, count
            ),
            "plain Python publish(array.tobytes(), metrics=…)": lambda: _time_peer_tobytes(
                peer, frame, metrics, count
            ),
        }
        for block in blocks.values():
            block()
        results = alternate(blocks, effort.rounds)
    return {
        "frame": SMALL.label,
        "calls": summary(results, {name: "memcpy" for name in blocks if name != "memcpy"}),
    }
