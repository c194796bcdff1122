"""What reading the newest frame costs, beside memcpy out of the same segment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench import limits, machine
from bench.companion import Companion
from bench.fast_readers import train
from bench.fast_sizes import Effort, Size, new_run_id
from bench.limits import Pixels, PlainRing
from bench.samples import Block, Samples, alternate, summary
from lanekit import FastLaneReader

_now = time.perf_counter_ns


def _each_new_frame(ring: PlainRing, count: int) -> Iterator[int]:
    """Spin, as the C limit does, until the head moves; so both read at the same moment."""
    wait_head, seen = limits.load().lib.limit_wait_head, 0
    for i in range(count):
        found = wait_head(ring.c, seen, limits.TIMEOUT_NS)
        if found == seen:
            raise TimeoutError("the writer fell silent")
        seen = found
        yield i


def _time_read_into(reader: FastLaneReader, ring: PlainRing, out: Pixels, count: int) -> Samples:
    samples = np.zeros(count, np.int64)
    for i in _each_new_frame(ring, count):
        start = _now()
        reader.read_into(out)
        samples[i] = _now() - start
    return samples


def _time_latest_frame(reader: FastLaneReader, ring: PlainRing, count: int) -> Samples:
    samples = np.zeros(count, np.int64)
    for i in _each_new_frame(ring, count):
        start = _now()
        reader.latest_frame()
        samples[i] = _now() - start
    return samples


_READ_LIMITS = {
    "find newest + memcpy": "memcpy",
    "read called from C": "memcpy",
    "read_into": "memcpy",
    "latest_frame": "memcpy",
}


def _read_blocks(reader: FastLaneReader, ring: PlainRing, count: int) -> dict[str, Block]:
    out = np.zeros(ring.config.shape, np.uint8)
    return {
        "memcpy": lambda: limits.copy_out(ring, out, count),
        "find newest + memcpy": lambda: limits.copy_out(ring, out, count, find=True),
        "read called from C": lambda: limits.call_read(reader, ring, out, count),
        "read_into": lambda: _time_read_into(reader, ring, out, count),
        "latest_frame": lambda: _time_latest_frame(reader, ring, count),
    }


def read_cost(size: Size, writer_hz: float, effort: Effort) -> dict[str, Any]:
    """Time reading while a writer publishes at a rate in Hz, or flat out (0).

    The limit copies the newest slot of the very same segment. Before each sample both wait until
    the head has moved: reading a frame again would only measure this core's own cache.
    """
    machine.pin(machine.READER_CORE)
    run_id = new_run_id("read")
    count = int(effort.block_seconds * 3 * writer_hz) if writer_hz else size.block(effort)
    with Companion(machine.WRITER_CORE, train, run_id, size.config) as trainer:
        name = trainer.answer()
        with (
            FastLaneReader.attach(run_id) as reader,
            PlainRing(name, size.config, create=False, writable=False) as ring,
        ):
            while reader.next_frame() is not None:
                pass  # walks once through the whole ring, so that its pages are mapped
            trainer.ask(writer_hz)
            blocks = _read_blocks(reader, ring, count)
            for block in blocks.values():
                block()
            results = alternate(blocks, effort.rounds)
            stats = reader.stats()
    return {
        "frame": size.label,
        "capacity": size.capacity,
        "writer_hz": writer_hz,
        "retries": stats.retries,
        "calls": summary(results, _READ_LIMITS),
    }
