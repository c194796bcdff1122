"""How long a frame is under way from one process to another."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from bench import limits, machine
from bench.companion import Companion
from bench.fast_sizes import SMALL, Effort, frames, new_run_id
from bench.limits import Pixels, PlainRing, SharedBytes
from bench.samples import percentiles, quartiles, undisturbed
from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter

_now = time.perf_counter_ns


LATENCY_MODES = ("wait block", "wait hybrid", "wait spin", "read_into poll")
_GAPS_SECONDS = (0.0002, 0.002)


def _receive_one(reader: FastLaneReader, out: Pixels, mode: str) -> int:
    if mode == "read_into poll":
        while (seq := reader.read_into(out, fresh=True)) == 0:
            pass
        return seq
    strategy: Any = mode.removeprefix("wait ")
    reader.wait(strategy=strategy)
    return reader.read_into(out, fresh=True)


def _receive(conn: Connection, run_id: str, config: FastLaneConfig) -> None:
    """Take frames up to a given number as they come; answer with when each had been read."""
    out = np.zeros(config.shape, np.uint8)
    with FastLaneReader.attach(run_id) as reader:
        while (task := conn.recv()) != "end":
            mode, last = task
            conn.send("ready")
            received: list[tuple[int, int, int]] = []
            with undisturbed():
                while not received or received[-1][0] < last:
                    seq = _receive_one(reader, out, mode)
                    now = time.monotonic_ns()
                    info = reader.last_frame_info
                    if seq > 0 and info is not None:
                        received.append((seq, now, info.timestamp_ns))
            conn.send(received)


def _receive_plain(conn: Connection, name: str, config: FastLaneConfig) -> None:
    """The same from a plain ring, in C: what memcpy and a spinning core can do."""
    ffi, lib = limits.load().ffi, limits.load().lib
    out = ffi.from_buffer(np.zeros(config.shape, np.uint8))
    when = ffi.new("uint64_t *")
    with PlainRing(name, config, create=False) as ring:
        while (task := conn.recv()) != "end":
            _, last = task
            seq = lib.limit_wait_head(ring.c, 2**64 - 1, 0)
            conn.send("ready")
            received: list[tuple[int, int, int]] = []
            while seq < last:
                seq = lib.limit_receive(ring.c, out, seq, limits.TIMEOUT_NS, when)
                received.append((seq, when[0], 0))
            conn.send(received)


def _gaps(count: int) -> list[int]:
    gaps = np.random.default_rng(2).uniform(*_GAPS_SECONDS, count) * 1e9
    return [int(gap) for gap in gaps]


def _pause(nanoseconds: int) -> None:
    end = _now() + nanoseconds
    while _now() < end:  # a trainer computes between frames, it does not sleep
        pass


def _send(publish: Callable[[], int], count: int) -> dict[int, int]:
    """Publish at random moments; return when each frame's publishing began."""
    begun: dict[int, int] = {}
    with undisturbed():
        for gap in _gaps(count):
            _pause(gap)
            start = time.monotonic_ns()
            begun[publish()] = start
    return begun


def _latencies(
    begun: dict[int, int], received: list[tuple[int, int, int]], rounds: int
) -> dict[str, Any]:
    known = [row for row in received if row[0] in begun]
    waits = np.array([now - begun[seq] for seq, now, _ in known])
    row: dict[str, Any] = {
        "frames": len(known),
        "from_before_publish": percentiles(waits),
        "p50_spread": quartiles(
            [float(np.median(each)) / 1000 for each in np.array_split(waits, rounds)]
        ),
    }
    if known[0][2]:
        row["from_timestamp"] = percentiles(np.array([now - stamp for _, now, stamp in known]))
    return row


def latency(effort: Effort, rounds: int = 3) -> dict[str, Any]:
    """Time a frame's way from one process to the other, for each way of waiting."""
    machine.pin(machine.WRITER_CORE)
    run_id, config = new_run_id("latency"), SMALL.config
    frame = frames(config, 1)[0]
    count = effort.latency_frames // rounds
    begun: dict[str, dict[int, int]] = {mode: {} for mode in LATENCY_MODES}
    received: dict[str, list[tuple[int, int, int]]] = {mode: [] for mode in LATENCY_MODES}
    with FastLaneWriter.create(run_id, config) as writer:
        seq = writer.publish(frame)
        with Companion(machine.READER_CORE, _receive, run_id, config) as receiver:
            for mode in LATENCY_MODES * rounds:
                receiver.ask((mode, seq + count))
                begun[mode] |= _send(lambda: writer.publish(frame), count)
                received[mode] += receiver.answer()
                seq += count
    rows = {mode: _latencies(begun[mode], received[mode], rounds) for mode in LATENCY_MODES}
    plain = _plain_latency(frame, config, effort, rounds)
    return {
        "frame": SMALL.label,
        "modes": {"memcpy ring in C, spinning": plain, **rows},
        "cache_line_one_way": ping_pong(effort.latency_frames * 100),
    }


def _plain_latency(
    frame: Pixels, config: FastLaneConfig, effort: Effort, rounds: int
) -> dict[str, Any]:
    ffi, lib = limits.load().ffi, limits.load().lib
    source, started, seq = ffi.from_buffer(frame), ffi.new("uint64_t *"), itertools.count(1)
    begun: dict[int, int] = {}
    with (
        PlainRing(new_run_id("plain"), config, create=True) as ring,
        Companion(machine.READER_CORE, _receive_plain, ring.name, config) as receiver,
    ):
        receiver.ask(("spin", effort.latency_frames))
        for gap in _gaps(effort.latency_frames):
            _pause(gap)
            lib.limit_send(ring.c, source, started)
            begun[next(seq)] = started[0]
        return _latencies(begun, receiver.answer(), rounds)


def _answer_pings(conn: Connection, name: str, count: int) -> None:
    with SharedBytes(name, 4096, create=False) as line:
        conn.send("ready")
        limits.pong(line, count)


def ping_pong(count: int) -> dict[str, float]:
    """Half the round trip of one cache line between the two cores."""
    machine.pin(machine.WRITER_CORE)
    with (
        SharedBytes(new_run_id("line"), 4096, create=True) as line,
        Companion(machine.READER_CORE, _answer_pings, line.name, count) as other,
    ):
        other.answer()
        return percentiles(limits.ping(line, count) / 2)
