"""How many frames a writer publishes beside several kinds of readers, or beside neighbours."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from bench import limits, machine
from bench.companion import Companion
from bench.fast_latency import ping_pong
from bench.fast_publish import lane_and_plain_ring
from bench.fast_readers import paced, watch
from bench.fast_sizes import Effort, Size, frames
from bench.limits import PlainRing, Sources
from bench.samples import quartiles, undisturbed
from lanekit import FastLaneConfig

_now = time.perf_counter_ns


READERS: dict[str, tuple[float | None, ...]] = {
    "no reader": (None, None, None),
    "1 Hz reader": (1.0, None, None),
    "60 Hz reader": (60.0, None, None),
    "3 flat-out readers": (0.0, 0.0, 0.0),
}
NEIGHBOURS = "3 neighbours, no reader"
_PINGS = 20_000


def _frames_per_second(publish_64: Callable[[], Any], seconds: float) -> float:
    start, done = _now(), 0
    end = start + int(seconds * 1e9)
    while (now := _now()) < end:
        publish_64()
        done += 64
    return done * 1e9 / (now - start)


def _watch_plain(conn: Connection, name: str, config: FastLaneConfig) -> None:
    """Read a plain ring at the rate told: what any reader costs a writer, with no protocol."""
    out = np.zeros(config.shape, np.uint8)
    with PlainRing(name, config, create=False) as ring:
        while (rate := conn.recv()) != "end":
            conn.send("reading")
            if rate is not None:
                look = partial(limits.copy_out, ring, out, 1, fresh=False, find=True)
                paced(conn, rate, look, spin=False)


def _be_busy(conn: Connection, config: FastLaneConfig) -> None:
    """Copy frames out of a ring of one's own: what any busy process costs a writer."""
    # Not zeros: those would all be one page of the kernel's, and never leave the nearest cache.
    ring = np.ones((config.capacity, *config.shape), np.uint8)
    out = np.zeros(config.shape, np.uint8)
    slots = itertools.cycle(ring)
    while (rate := conn.recv()) != "end":
        conn.send("busy")
        if rate is not None:
            paced(conn, rate, lambda: np.copyto(out, next(slots)), spin=False)


def _throughputs(
    publish_64: Callable[[], Any],
    watchers: Sequence[Companion],
    neighbours: Sequence[Companion],
    effort: Effort,
) -> dict[str, float]:
    """One round: frames per second beside each kind of company; all rest afterwards."""
    rates = {}
    sections = [(label, watchers, paces) for label, paces in READERS.items()]
    sections.append((NEIGHBOURS, neighbours, (0.0, 0.0, 0.0)))
    for label, company, paces in sections:
        # What the company before has left behind in the caches.
        _frames_per_second(publish_64, effort.throughput_seconds / 2)
        for companion, pace in zip(company, paces, strict=True):
            companion.ask(pace)
        rates[label] = _frames_per_second(publish_64, effort.throughput_seconds)
        for companion in company:
            companion.ask(None)
    return rates


def throughput(size: Size, effort: Effort) -> dict[str, Any]:
    """Publish flat out beside several kinds of readers, all of them on the reader's core.

    The limit is memcpy into a plain ring, beside as many readers that copy out of it. How far the
    two cores are from each other may change while a virtual machine runs, and decides what
    readers cost: a cache line's way is timed before and after.
    """
    machine.pin(machine.WRITER_CORE)
    lines = [ping_pong(_PINGS)["p50_us"]]
    frame = frames(size.config, 1)[0]
    source = Sources([frame])
    with ExitStack() as stack:
        writer, ring = stack.enter_context(lane_and_plain_ring(size))

        def publish_64() -> None:
            for _ in range(64):
                writer.publish(frame)

        def three(role: Any, *arguments: Any) -> list[Companion]:
            core = machine.READER_CORE
            return [stack.enter_context(Companion(core, role, *arguments)) for _ in range(3)]

        ours = three(watch, writer.run_id, size.config, None)
        plain = three(_watch_plain, ring.name, size.config)
        neighbours = three(_be_busy, size.config)
        sides: dict[str, tuple[Callable[[], Any], list[Companion]]] = {
            "publish": (publish_64, ours),
            "memcpy": (lambda: limits.copy_in_untimed(ring, source, 64), plain),
        }
        for companion in (*ours, *plain, *neighbours):
            companion.ask(None)  # and so wait until it has begun
        stack.enter_context(undisturbed())
        rounds = [
            {side: _throughputs(*it, neighbours, effort) for side, it in sides.items()}
            for _ in range(effort.rounds)
        ]
    lines.append(ping_pong(_PINGS)["p50_us"])
    return {
        "frame": size.label,
        "cache_line_one_way_us": lines,
        "readers": {
            label: {side: _beside(label, side, rounds) for side in sides}
            for label in (*READERS, NEIGHBOURS)
        },
    }


def _beside(label: str, side: str, rounds: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    alone = np.array([rates[side]["no reader"] for rates in rounds])
    memcpy = np.array([rates["memcpy"][label] for rates in rounds])
    found = np.array([rates[side][label] for rates in rounds])
    return {
        "frames_per_second": float(np.median(found)),
        "spread": quartiles(found),
        "ratio": float(np.median(found / alone)),
        "of_memcpy": quartiles(found / memcpy),
    }
