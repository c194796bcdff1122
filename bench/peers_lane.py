"""The fast lane beside other ways to have the newest frame of another process.

Each way is a pair of processes (peers_process.py), all of them driven by the same code; this
process tells them when, and measures the limits itself.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench import fast_latency, limits, machine
from bench.fast_sizes import SIZES, SMALL, Size, frames
from bench.limits import PlainRing, Sources
from bench.peers import frames as ways
from bench.peers.frames import ARRAYS, SLOTS, Task
from bench.peers_process import Failed, Pair
from bench.samples import quartiles, undisturbed

MEMCPY = "memcpy in C"
RATES: dict[str, float | None] = {
    "no reader": None,
    "1 Hz reader": 1.0,
    "60 Hz reader": 60.0,
    "flat-out reader": 0.0,
}
_ERRORS = (Failed, TimeoutError, EOFError, OSError)
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.5)


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int
    calls: int
    """Of publishing, at 84×84; fewer of larger frames."""
    seconds: float
    latency_frames: int
    reader_rounds: int
    sizes: tuple[Size, ...] = SIZES
    ways: tuple[str, ...] = tuple(ways.KINDS)


FULL = Effort(9, 2000, 0.3, 1000, 5)
QUICK = Effort(3, 300, 0.05, 100, 2, (SIZES[0], SIZES[3], SIZES[4]))
TINY = Effort(1, 5, 0.02, 5, 1, (SMALL,), ("lanekit", "multiprocessing.Pipe", "no such way"))


class _Pairs:
    """All ways that work, and why the others do not."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.about: dict[str, dict[str, Any]] = {}
        self.working: dict[str, Pair] = {}
        self._started: list[Pair] = []
        for name in names:
            try:
                peer = ways.make(name)
            except Exception as error:  # whatever a library raises on import
                self.about[name] = {"failed": f"{type(error).__name__}: {error}"[:300]}
                continue
            self.about[name] = ways.described(peer)
            self.working[name] = Pair(peer)
            self._started.append(self.working[name])

    def fails(self, name: str, error: BaseException) -> None:
        """Leave a way out from here on."""
        self.about[name]["failed"] = str(error) or type(error).__name__
        self.working.pop(name, None)

    def each(self, backwards: bool, do: Callable[[str, Pair], None]) -> None:
        """Do something with each in turn; one that fails is left out from then on."""
        for name in sorted(self.working, key=list(self.about).index, reverse=backwards):
            try:
                do(name, self.working[name])
            except _ERRORS as error:
                self.fails(name, error)

    def end(self) -> None:
        """End all processes."""
        for pair in self._started:
            pair.end()

    @contextmanager
    def opened(self, size: Size) -> Iterator[None]:
        """Open all of them for frames of a size."""
        with tempfile.TemporaryDirectory(prefix="lanekit-bench-") as place:

            def open_one(name: str, pair: Pair) -> None:
                own = os.path.join(place, str(list(self.about).index(name)))
                os.mkdir(own)
                name = f"bench-peer-{os.getpid()}-{time.monotonic_ns()}"
                pair.open(Task(name, own, size.width, size.height))

            self.each(False, open_one)
            yield
            self.each(False, lambda _, pair: pair.close())


# --- what publishing costs, and how much comes through --------------------------------------------


def _memcpy_us(ring: PlainRing, source: Sources, count: int) -> float:
    samples = limits.copy_in(ring, source, count + SLOTS)[SLOTS:]
    return float(np.median(samples)) / 1000


def _one_size(pairs: _Pairs, size: Size, effort: Effort) -> dict[str, Any]:
    count = max(20, min(effort.calls, int(effort.calls * 100 / size.about_us)))
    costs: dict[str, list[dict[str, float]]] = {name: [] for name in pairs.about}
    memcpy: list[float] = []

    def cost(name: str, pair: Pair) -> None:
        found: dict[str, float] = {}
        # One that waits for its reader would publish at the reader's rate.
        pair.begin_reading("read", 0.0 if pair.peer.waits_for_reader else 60.0)
        pair.write("time", min(count, 50))
        samples = np.array(pair.write("time", count)) / 1000
        pair.end_reading()
        found["p50_us"], found["p99_us"] = np.percentile(samples, (50, 99))
        pair.begin_reading("read", 0.0)
        taken, seconds = pair.write("flat_out", effort.seconds)
        came = pair.end_reading()
        found["published_per_second"] = taken / seconds
        found["received_per_second"] = came["received"] / seconds
        found["torn"] = came["torn"]
        costs[name].append(found)

    config = replace(size.config, capacity=SLOTS)  # as many slots as the lane has here
    source = Sources(frames(config, ARRAYS))
    name = f"bench-peers-{os.getpid()}"
    with PlainRing(name, config, create=True) as ring, pairs.opened(size):
        for number in range(effort.rounds):
            memcpy.append(_memcpy_us(ring, source, count))
            pairs.each(number % 2 == 1, cost)
    return {
        "frame": size.label,
        "bytes": config.frame_size,
        "memcpy_us": quartiles(memcpy),
        "ways": {name: _cost(rounds, memcpy) for name, rounds in costs.items() if rounds},
    }


def _cost(rounds: list[dict[str, float]], memcpy: list[float]) -> dict[str, Any]:
    """Summarize the rounds of a way; it may have failed before the last."""
    row: dict[str, Any] = {
        key: quartiles([each[key] for each in rounds])
        for key in ("p50_us", "p99_us", "published_per_second", "received_per_second")
    }
    least = zip(rounds, memcpy, strict=False)
    row["of_memcpy"] = quartiles([each["p50_us"] / limit for each, limit in least])
    row["torn"] = int(sum(each["torn"] for each in rounds))
    return row


# --- what readers cost a writer -------------------------------------------------------------------


def _readers(pairs: _Pairs, effort: Effort) -> dict[str, Any]:
    rates: dict[str, dict[str, list[float]]] = {
        name: {label: [] for label in RATES} for name in pairs.about
    }

    def beside(name: str, pair: Pair) -> None:
        for label, hz in RATES.items():
            if not pair.peer.delivers and hz != 0:
                continue  # the process that takes its frames is none of ours, and takes all
            waits = pair.peer.waits_for_reader
            if waits and hz is None:
                rates[name][label].append(0.0)
                continue
            if waits and hz == 1.0 and rates[name][label]:
                continue  # a second for each frame: once is enough
            if hz is not None:
                pair.begin_reading("read", hz)
            pair.write("fill")
            taken, seconds = pair.write("flat_out", effort.seconds)
            if hz is not None:
                pair.end_reading()
            rates[name][label].append(taken / seconds)

    for number in range(effort.reader_rounds):
        pairs.each(number % 2 == 1, beside)
    return {
        "frame": SMALL.label,
        "ways": {
            name: {label: quartiles(found) for label, found in by_label.items() if found}
            for name, by_label in rates.items()
            if any(by_label.values())
        },
    }


# --- one way --------------------------------------------------------------------------------------


def _latency(pairs: _Pairs, effort: Effort) -> dict[str, Any]:
    found: dict[str, dict[str, list[Any]]] = {"spinning": {}, "sleeping": {}}

    def one_way(name: str, pair: Pair) -> None:
        for mode in found:
            if not pair.peer.delivers or (mode == "sleeping" and not pair.peer.sleeps):
                continue
            pair.begin_reading("latency", mode == "sleeping")
            pair.write("at_random", effort.latency_frames)
            time.sleep(0.05)
            if samples := pair.end_reading():
                found[mode].setdefault(name, []).append(np.array(samples) / 1000)

    for number in range(effort.reader_rounds):
        pairs.each(number % 2 == 1, one_way)
    return {
        "frame": SMALL.label,
        "percentiles": list(PERCENTILES),
        **{
            mode: {name: _distribution(rounds) for name, rounds in ways_.items()}
            for mode, ways_ in found.items()
        },
        "cache_line_one_way": fast_latency.ping_pong(effort.latency_frames * 10),
    }


def _distribution(rounds: list[Any]) -> dict[str, Any]:
    return {
        "frames": int(sum(len(each) for each in rounds)),
        "p50_us": quartiles([float(np.median(each)) for each in rounds]),
        "p99_us": quartiles([float(np.percentile(each, 99)) for each in rounds]),
        "us": [float(us) for us in np.percentile(np.concatenate(rounds), PERCENTILES)],
    }


# --- all of it ------------------------------------------------------------------------------------


def newest_frame(effort: Effort) -> dict[str, Any]:
    """Measure every way, with the same processes throughout."""
    limits.load()  # before the processes start, which would each compile it
    pairs = _Pairs(effort.ways)
    machine.pin(machine.WRITER_CORE)
    try:
        with undisturbed():
            sizes = [_one_size(pairs, size, effort) for size in effort.sizes]
            with pairs.opened(SMALL):
                readers, latency = _readers(pairs, effort), _latency(pairs, effort)
    finally:
        pairs.end()
        machine.unpin()
    return {"about": pairs.about, "sizes": sizes, "readers": readers, "latency": latency}


MEASUREMENTS: Mapping[str, list[Callable[[Effort], Any]]] = {"newest_frame": [newest_frame]}
UNTIMED: set[str] = set()
TWO_CORES = {"newest_frame"}
