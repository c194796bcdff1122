"""What the fast lane costs, each measurement beside the machine's limit in the same run.

The measuring process is one side of the lane; a companion process on the other core is the other.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from bench import limits, machine, torn_frames
from bench.companion import Companion
from bench.limits import Pixels, PlainRing, SharedBytes, Sources
from bench.peers.python_ring import PythonRingWriter
from bench.samples import Block, Samples, alternate, percentiles, summary, undisturbed
from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneReader, FastLaneWriter

_now = time.perf_counter_ns


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int
    block_seconds: float
    throughput_seconds: float
    latency_frames: int
    publishes: int
    hunt_seconds: float


FULL = Effort(15, 0.03, 0.3, 3000, 10_000_000, 10.0)
QUICK = Effort(5, 0.01, 0.1, 300, 200_000, 1.0)


@dataclass(frozen=True)
class Size:
    """A frame size, and about how long its memcpy takes, to choose the length of a block."""

    width: int
    height: int
    capacity: int
    about_us: float

    @property
    def label(self) -> str:
        """Width × height."""
        return f"{self.width}×{self.height}"

    @property
    def config(self) -> FastLaneConfig:
        """The geometry of the ring."""
        return FastLaneConfig(self.width, self.height, capacity=self.capacity)

    def block(self, effort: Effort) -> int:
        """Operations per block: at least one lap of the ring."""
        return max(self.capacity, int(effort.block_seconds * 1e6 / self.about_us))


SIZES = (
    Size(84, 84, 128, 2),
    Size(160, 210, 128, 6),
    Size(320, 240, 128, 15),
    Size(640, 480, 128, 80),
    Size(1920, 1080, 16, 800),
)
SMALL = SIZES[0]


def _run_id(purpose: str) -> str:
    return f"bench-{purpose}-{os.getpid()}-{time.monotonic_ns()}"


def _frames(config: FastLaneConfig, count: int) -> list[Pixels]:
    random = np.random.default_rng(1)
    return [random.integers(0, 256, config.shape, np.uint8) for _ in range(count)]


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


# --- companions -----------------------------------------------------------------------------------


def _paced(conn: Connection, rate: float, act: Callable[[], Any], *, spin: bool) -> None:
    """Act at a rate in Hz, 0 meaning flat out, until there is a message."""
    if rate == 0:
        while not conn.poll():
            for _ in range(32):
                act()
        return
    due = time.monotonic()
    while not conn.poll():
        act()
        due = max(due + 1 / rate, time.monotonic())
        while (left := due - time.monotonic()) > 0:
            if not spin:
                time.sleep(left)


def _watch(conn: Connection, run_id: str, config: FastLaneConfig, plain: str | None) -> None:
    """Read at the rate told, and also the plain ring if there is one; None: not even attached."""
    out = np.zeros(config.shape, np.uint8)
    while (rate := conn.recv()) != "end":
        if rate is None:
            conn.send("resting")
            continue
        ring = PlainRing(plain, config, create=False) if plain else nullcontext()
        with FastLaneReader.attach(run_id) as reader, ring as also:

            def look(reader: FastLaneReader = reader, also: PlainRing | None = also) -> None:
                reader.read_into(out)
                if also is not None:
                    limits.copy_out(also, out, 1, fresh=False)

            look()
            conn.send("reading")
            _paced(conn, rate, look, spin=False)


def _train(conn: Connection, run_id: str, config: FastLaneConfig) -> None:
    """Be a writer that publishes at the rate told."""
    frame = _frames(config, 1)[0]
    with FastLaneWriter.create(run_id, config) as writer:
        for _ in range(config.capacity):
            writer.publish(frame)
        conn.send(writer.name)
        while (rate := conn.recv()) != "end":
            conn.send("publishing")
            if rate is not None:
                _paced(conn, rate, lambda: writer.publish(frame), spin=True)


# --- publishing -----------------------------------------------------------------------------------

PUBLISH_LIMITS = {
    "publish, same array": "memcpy",
    "publish, new array": "memcpy, new array",
    "publish, fresh array": "memcpy, fresh array",
    "memcpy called from Python": "memcpy",
    "publish called from C": "memcpy",
}
_POOL = 16


@contextmanager
def _lane_and_plain_ring(size: Size) -> Iterator[tuple[FastLaneWriter, PlainRing]]:
    run_id = _run_id("publish")
    with (
        FastLaneWriter.create(run_id, size.config) as writer,
        PlainRing(f"{run_id}-plain", size.config, create=True) as ring,
    ):
        yield writer, ring


def _publish_blocks(
    writer: FastLaneWriter, ring: PlainRing, count: int, lap: int
) -> dict[str, Block]:
    """One block per way of publishing; each begins with an untimed lap of its ring."""
    frame, *pool = _frames(ring.config, 1 + _POOL)
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
        _lane_and_plain_ring(size) as (writer, ring),
        Companion(machine.READER_CORE, _watch, writer.run_id, size.config, ring.name) as watcher,
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
    with _lane_and_plain_ring(size) as (writer, ring):
        frame = _frames(size.config, 1)[0]
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
    return {("us" if k == "p50_us" else k): v for k, v in row.items() if k != "p99_us"}


# --- reading --------------------------------------------------------------------------------------

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
    run_id = _run_id("read")
    count = int(effort.block_seconds * 3 * writer_hz) if writer_hz else size.block(effort)
    with Companion(machine.WRITER_CORE, _train, run_id, size.config) as trainer:
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


# --- throughput -----------------------------------------------------------------------------------

READERS: dict[str, tuple[float | None, ...]] = {
    "no reader": (None, None, None),
    "1 Hz reader": (1.0, None, None),
    "60 Hz reader": (60.0, None, None),
    "3 flat-out readers": (0.0, 0.0, 0.0),
}


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
                _paced(conn, rate, look, spin=False)


def _throughputs(
    publish_64: Callable[[], Any], watchers: Sequence[Companion], effort: Effort
) -> dict[str, float]:
    """One round: frames per second beside each kind of readers; they rest afterwards."""
    rates = {}
    for label, paces in READERS.items():
        for watcher, pace in zip(watchers, paces, strict=True):
            watcher.ask(pace)
        rates[label] = _frames_per_second(publish_64, effort.throughput_seconds)
    for watcher in watchers:
        watcher.ask(None)
    return rates


def throughput(size: Size, effort: Effort) -> dict[str, Any]:
    """Publish flat out beside several kinds of readers, all of them on the reader's core.

    The limit is memcpy into a plain ring, beside as many readers that copy out of it.
    """
    machine.pin(machine.WRITER_CORE)
    frame = _frames(size.config, 1)[0]
    source = Sources([frame])
    with ExitStack() as stack:
        writer, ring = stack.enter_context(_lane_and_plain_ring(size))

        def publish_64() -> None:
            for _ in range(64):
                writer.publish(frame)

        def readers(role: Any, *arguments: Any) -> list[Companion]:
            core = machine.READER_CORE
            return [stack.enter_context(Companion(core, role, *arguments)) for _ in range(3)]

        ours = readers(_watch, writer.run_id, size.config, None)
        plain = readers(_watch_plain, ring.name, size.config)
        sides: dict[str, tuple[Callable[[], Any], list[Companion]]] = {
            "publish": (publish_64, ours),
            "memcpy": (lambda: limits.copy_in_untimed(ring, source, 64), plain),
        }
        stack.enter_context(undisturbed())
        for act, _ in sides.values():
            _frames_per_second(act, effort.throughput_seconds)
        rounds = [
            {side: _throughputs(*it, effort) for side, it in sides.items()}
            for _ in range(effort.rounds)
        ]
    return {
        "frame": size.label,
        "readers": {
            label: {side: _beside(label, [each[side] for each in rounds]) for side in sides}
            for label in READERS
        },
    }


def _beside(label: str, rounds: list[dict[str, float]]) -> dict[str, float]:
    alone = np.array([rates["no reader"] for rates in rounds])
    found = np.array([rates[label] for rates in rounds])
    return {
        "frames_per_second": float(np.median(found)),
        "ratio": float(np.median(found / alone)),
    }


# --- latency --------------------------------------------------------------------------------------

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


def _latencies(begun: dict[int, int], received: list[tuple[int, int, int]]) -> dict[str, Any]:
    known = [row for row in received if row[0] in begun]
    row: dict[str, Any] = {
        "frames": len(known),
        "from_before_publish": percentiles(np.array([now - begun[seq] for seq, now, _ in known])),
    }
    if known[0][2]:
        row["from_timestamp"] = percentiles(np.array([now - stamp for _, now, stamp in known]))
    return row


def latency(effort: Effort, rounds: int = 3) -> dict[str, Any]:
    """Time a frame's way from one process to the other, for each way of waiting."""
    machine.pin(machine.WRITER_CORE)
    run_id, config = _run_id("latency"), SMALL.config
    frame = _frames(config, 1)[0]
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
    rows = {mode: _latencies(begun[mode], received[mode]) for mode in LATENCY_MODES}
    return {
        "frame": SMALL.label,
        "modes": {"memcpy ring in C, spinning": _plain_latency(frame, config, effort), **rows},
        "cache_line_one_way": ping_pong(effort),
    }


def _plain_latency(frame: Pixels, config: FastLaneConfig, effort: Effort) -> dict[str, Any]:
    ffi, lib = limits.load().ffi, limits.load().lib
    source, started, seq = ffi.from_buffer(frame), ffi.new("uint64_t *"), itertools.count(1)
    begun: dict[int, int] = {}
    with (
        PlainRing(_run_id("plain"), config, create=True) as ring,
        Companion(machine.READER_CORE, _receive_plain, ring.name, config) as receiver,
    ):
        receiver.ask(("spin", effort.latency_frames))
        for gap in _gaps(effort.latency_frames):
            _pause(gap)
            lib.limit_send(ring.c, source, started)
            begun[next(seq)] = started[0]
        return _latencies(begun, receiver.answer())


def _answer_pings(conn: Connection, name: str, count: int) -> None:
    with SharedBytes(name, 4096, create=False) as line:
        conn.send("ready")
        limits.pong(line, count)


def ping_pong(effort: Effort) -> dict[str, float]:
    """Half the round trip of one cache line between the two cores."""
    machine.pin(machine.WRITER_CORE)
    count = effort.latency_frames * 100
    with (
        SharedBytes(_run_id("line"), 4096, create=True) as line,
        Companion(machine.READER_CORE, _answer_pings, line.name, count) as other,
    ):
        other.answer()
        return percentiles(limits.ping(line, count) / 2)


# --- memory ---------------------------------------------------------------------------------------


def _resident() -> dict[str, int]:
    """Bytes of private and of shared memory in this process."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem")}


def memory(effort: Effort) -> dict[str, Any]:
    """Compare the segment with its formula, and memory before and after many publishes."""
    machine.pin(machine.WRITER_CORE)
    sizes = {}
    for size in SIZES:
        with FastLaneWriter.create(_run_id("size"), size.config) as writer:
            found = Path("/dev/shm", writer.name).stat().st_size
        sizes[size.label] = {"bytes": found, "exact": found == limits.ring_size(size.config)}
    return {"segments": sizes, "growth": _growth(effort.publishes)}


def _growth(publishes: int) -> dict[str, Any]:
    """Publish one array, several, and fresh copies, in equal parts."""
    frame, *pool = _frames(SMALL.config, 1 + _POOL)
    with FastLaneWriter.create(_run_id("growth"), SMALL.config) as writer:
        path = Path("/dev/shm", writer.name)

        def publish_some(count: int) -> None:
            for i in range(count // 4):
                writer.publish(frame)
                writer.publish(frame)
                writer.publish(pool[i % _POOL])
                writer.publish(frame.copy())

        publish_some(20_000)
        before, blocks = _resident(), path.stat().st_blocks
        publish_some(publishes)
        after = _resident()
        return {
            "publishes": publishes,
            "shared_file_growth_bytes": (path.stat().st_blocks - blocks) * 512,
            **{f"{name}_growth_bytes": after[name] - before[name] for name in after},
        }


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
    frame = _frames(SMALL.config, 1)[0]
    data, source = frame.tobytes(), Sources([frame])
    with (
        _lane_and_plain_ring(SMALL) as (writer, ring),
        PythonRingWriter.create(_run_id("peer"), SMALL.config) as peer,
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


# --- all of it ------------------------------------------------------------------------------------


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
TWO_CORES = {"read", "latency"}

# A measurement of several parts yields a list, one row for each.
MEASUREMENTS: dict[str, list[Part]] = {
    "clocks": [clocks],
    "publish": [partial(publish_cost, size, hz) for hz in (None, 60.0) for size in SIZES],
    "publish_loop": [partial(publish_loop, size) for size in SIZES],
    "read": [partial(read_cost, size, hz) for hz in (0.0, 1000.0) for size in SIZES],
    "throughput": [partial(throughput, SMALL)],
    "latency": [latency],
    "memory": [memory],
    "peer": [peer_cost],
    "torn_frames": [partial(torn_hunt, lane) for lane in torn_frames.LANES],
}
