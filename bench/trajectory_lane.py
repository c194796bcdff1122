"""The trajectory lane beside memcpy and the other ways from several producers to one consumer."""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from bench import limits, machine
from bench.samples import quartiles
from bench.trajectory_records import AT_HAND, Account, size_of
from bench.trajectory_transports import RING_BYTES, SPAWN, TRANSPORTS, Lane, Transport
from lanekit import FastLaneConfig

TOKENS = (512, 2048, 8192)
PRODUCERS = (1, 4)
_BEGINNING = 60.0


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int
    warm_up: float
    seconds: float
    tokens: tuple[int, ...] = TOKENS
    producers: tuple[int, ...] = PRODUCERS


FULL = Effort(rounds=5, warm_up=0.5, seconds=2.0)
QUICK = Effort(rounds=2, warm_up=0.3, seconds=0.7)
TINY = Effort(rounds=1, warm_up=0.0, seconds=0.2, tokens=(512,), producers=(2,))


def memcpy_rate(tokens: int, rings: int, seconds: float) -> float:
    """Return records/s of a C loop that copies such records into so many of the lane's rings.

    Out of as many different records as that many producers have at hand: what the caches can not
    hold of theirs, they can not hold of the loop's.
    """
    capacity = max(2, rings * RING_BYTES // size_of(tokens))
    config = FastLaneConfig(12 * tokens // 3 + 2, 3, 1, "GRAY", capacity=capacity)
    frames = [np.ones(config.frame_size, np.uint8) for _ in range(rings * AT_HAND)]
    with limits.PlainRing(f"lanekit-bench-{os.getpid()}", config, create=True) as ring:
        sources = limits.Sources(frames)
        limits.copy_in_untimed(ring, sources, 2 * config.capacity)  # a lap to warm up
        count = max(100, int(seconds * 1e9 / limits.copy_in_untimed(ring, sources, 500)))
        return 1e9 / limits.copy_in_untimed(ring, sources, count)


def _produce(transport: Transport, who: int, core: int) -> None:
    os.sched_setaffinity(0, {core})
    with contextlib.suppress(KeyboardInterrupt):
        transport.produce(who)


def _core(who: int) -> int:
    """Return a producer's core: the consumer has the first, they share the others."""
    first, *others = machine.cores()
    return others[(who - 1) % len(others)] if others else first


@contextlib.contextmanager
def _producers(transport: Transport) -> Iterator[list[BaseProcess]]:
    processes: list[BaseProcess] = [
        SPAWN.Process(target=_produce, args=(transport, who, _core(who)), daemon=True)
        for who in range(1, transport.producers + 1)
    ]
    for process in processes:
        process.start()
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()


def receive_rate(kind: type[Transport], tokens: int, producers: int, effort: Effort) -> Any:
    """Return what one transport delivers per second, and what was wrong with it."""
    transport = kind(tokens, producers)
    transport.open()
    try:
        with _producers(transport) as processes:
            arriving = Account()
            seen: dict[int, int] = arriving._last
            patient = _after(_BEGINNING)

            def all_have_begun() -> bool:
                if not all(process.is_alive() for process in processes):
                    raise RuntimeError("a producer died")
                if patient():
                    raise TimeoutError(f"nothing came for {_BEGINNING:.0f} s")
                return len(seen) == producers

            transport.consume(arriving, all_have_begun)
            transport.consume(arriving, _after(effort.warm_up))
            account = Account(_last=dict(seen))
            begun = time.perf_counter()
            transport.consume(account, _after(effort.seconds))
            seconds = time.perf_counter() - begun
    finally:
        transport.close()
    return {
        "records_per_second": account.received / seconds,
        "lost": account.lost,
        "repeated": account.repeated,
        "mixed": account.mixed,
    }


def _after(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


def compare(tokens: int, producers: int, effort: Effort) -> dict[str, Any]:
    """Measure all transports in turn, every other round backwards, beside memcpy."""
    failed = {
        kind.name: f"not installed: {', '.join(kind.missing())}"
        for kind in TRANSPORTS
        if kind.missing()
    }
    rounds: list[dict[str, Any]] = []
    machine.pin(machine.WRITER_CORE)
    try:
        for number in range(effort.rounds):
            found: dict[str, Any] = {
                name: memcpy_rate(tokens, rings, min(0.3, effort.seconds))
                for name, rings in (("memcpy", 1), ("memcpy into all rings", producers))
            }
            for kind in TRANSPORTS if number % 2 == 0 else reversed(TRANSPORTS):
                if kind.name in failed:
                    continue
                try:
                    found[kind.name] = receive_rate(kind, tokens, producers, effort)
                except Exception as error:  # whatever a peer's library raises
                    if issubclass(kind, Lane):
                        raise
                    failed[kind.name] = f"{type(error).__name__}: {error}"[:300]
            rounds.append(found)
    finally:
        machine.unpin()
    kinds = [kind for kind in TRANSPORTS if kind.name not in failed]
    size = size_of(tokens)
    memcpy = statistics.median(each["memcpy"] for each in rounds)
    rows = {}
    for kind in kinds:
        mine = [each[kind.name] for each in rounds]
        rates = [each["records_per_second"] for each in mine]
        shares = [rate / each["memcpy"] for rate, each in zip(rates, rounds, strict=True)]
        rows[kind.name] = {
            "records_per_second": statistics.median(rates),
            "megabytes_per_second": statistics.median(rates) * size / 1e6,
            "of_memcpy": statistics.median(shares),
            "rate_spread": quartiles(rates),
            "of_memcpy_spread": quartiles(shares),
            **{key: sum(each[key] for each in mine) for key in ("lost", "repeated", "mixed")},
        }
    return {
        "tokens": tokens,
        "producers": producers,
        "bytes": size,
        "memcpy_records_per_second": memcpy,
        "memcpy_spread": quartiles([each["memcpy"] for each in rounds]),
        "memcpy_megabytes_per_second": memcpy * size / 1e6,
        "memcpy_into_all_rings_spread": quartiles(
            [each["memcpy into all rings"] for each in rounds]
        ),
        "transports": rows,
        "about": {kind.name: kind.about() for kind in kinds},
        "failed": failed,
    }


def _part(tokens: int, producers: int, effort: Effort) -> dict[str, Any] | None:
    if tokens not in effort.tokens:
        return None
    if producers not in effort.producers and effort is not TINY:
        return None
    return compare(tokens, min(producers, max(effort.producers)), effort)


MEASUREMENTS: dict[str, list[Callable[[Effort], Any]]] = {
    f"{tokens} tokens": [functools.partial(_part, tokens, producers) for producers in PRODUCERS]
    for tokens in TOKENS
}
UNTIMED: set[str] = set()
TWO_CORES: set[str] = set()
