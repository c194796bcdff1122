"""What a round trip of the step lane costs, beside the machine's limits and beside its peers.

Each kind of stepping is a process pair of its own (step_process.py), so that all are measured by
the same loop; this process only tells them when, and measures the limits itself.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from bench import limits, machine
from bench.companion import Companion
from bench.limits import SharedBytes
from bench.peers.steppers import Task
from bench.samples import Block, Samples, alternate, median, percentiles, quartiles, ratio, summary
from bench.step_process import Stepper


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int
    steps: int
    slow_steps: int
    """For peers that take milliseconds."""
    crowded_seconds: float
    paced_steps: int
    growth_rounds: int
    growth_steps: int
    sizes: tuple[int, ...]
    peers: tuple[str, ...]
    growth_peers: tuple[str, ...] = ()
    """Those that are started for each number of environments, which takes some of them seconds."""


PEERS = {
    "puffer_native": "PufferLib, native, touch",
    "puffer_write": "PufferLib, native, full write",
    "tianshou_shmem": "Tianshou ShmemVectorEnv",
    "gymnasium_async": "Gymnasium AsyncVectorEnv",
    "torchrl_parallel": "TorchRL ParallelEnv",
    "sb3_subproc": "SB3 SubprocVecEnv",
    "grpc_bytes": "gRPC unary, bytes",
    "grpc_stream": "gRPC stream, bytes",
    "envpool_cartpole": "EnvPool, its own CartPole",
}
_SLOW = frozenset({"sb3_subproc", "grpc_bytes", "grpc_stream", "envpool_cartpole"})
SIZES = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)

_LIGHT = ("puffer_native", "gymnasium_async", "grpc_bytes")
FULL = Effort(15, 1500, 150, 0.5, 500, 5, 400, SIZES, tuple(PEERS), tuple(PEERS))
QUICK = Effort(5, 500, 50, 0.2, 100, 3, 100, SIZES[::2], tuple(PEERS), _LIGHT)
_TINY = ("gymnasium_async", "grpc_bytes", "no_such_peer")
TINY = Effort(1, 5, 3, 0.02, 3, 1, 3, (1, 64), _TINY, _TINY)

LANES: dict[str, dict[str, Any]] = {
    "lanekit, touch": {},
    "lanekit, full write": {"work": "write"},
    "lanekit, full write, copied out": {"work": "write", "take": "copy"},
    "lanekit, touch, spin": {"wait": "spin"},
    "lanekit, full write, spin": {"work": "write", "wait": "spin"},
    "lanekit, touch, block": {"wait": "block"},
    "lanekit, full write, block": {"work": "write", "wait": "block"},
    "lanekit, touch, pipelined": {"pipelined": True},
    "lanekit, full write, pipelined": {"work": "write", "pipelined": True},
}
_MANY = 10_000_000
MEMCPY, LINE = "memcpy of the batch", "a cache line, there and back"


def _pinned() -> Task:
    cores = machine.cores()
    return Task(cores=(cores[0], cores[1]) if len(cores) > 1 else None)


def batch_bytes(task: Task) -> int:
    """Bytes that one step carries: observations, actions, rewards, two flags."""
    return task.envs * (4 * task.obs + 4 * task.act + 4 + 2)


def _kind(peer: str, task: Task) -> tuple[str, Task]:
    return (
        ("puffer_native", replace(task, work="write")) if peer == "puffer_write" else (peer, task)
    )


# --- limits ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def _copying(task: Task) -> Iterator[Callable[[int], Samples]]:
    """Lend a function that copies a batch into shared memory so many times."""
    source = np.random.default_rng(1).integers(0, 256, batch_bytes(task), np.uint8)
    with SharedBytes(f"bench-batch-{os.getpid()}", source.nbytes, create=True) as memory:
        yield lambda count: limits.copies(memory, source, count)


def _answer_lines(conn: Connection) -> None:
    while (asked := conn.recv()) != "end":
        name, count = asked
        with SharedBytes(name, 64, create=False) as line:
            conn.send("ready")
            limits.pong(line, count)


def _ping(companion: Companion, count: int) -> Samples:
    name = f"bench-line-{os.getpid()}-{time.monotonic_ns()}"
    with SharedBytes(name, 64, create=True) as line:
        companion.ask((name, count))
        return limits.ping(line, count)


# --- measurements ---------------------------------------------------------------------------------


def _open(stack: ExitStack, kind: str, task: Task) -> Stepper:
    return stack.enter_context(Stepper(*_kind(kind, task)))


def _open_all(stack: ExitStack, wanted: Mapping[str, tuple[str, Task]]) -> dict[str, Stepper]:
    """Start all together, on all cores: some import for seconds. Each pins itself afterwards."""
    machine.unpin()
    opened = {name: _open(stack, kind, task) for name, (kind, task) in wanted.items()}
    for stepper in opened.values():
        assert stepper.about
    machine.pin(machine.WRITER_CORE)
    return opened


def round_trip(effort: Effort) -> dict[str, Any]:
    """Step 4096 environments in every way there is, in turn."""
    task = _pinned()
    limits.load()
    with ExitStack() as stack:
        wanted = {name: ("lane", replace(task, **options)) for name, options in LANES.items()}
        opened = _open_all(stack, {**wanted, **{name: (name, task) for name in effort.peers}})
        lanes = {name: opened[name] for name in LANES}
        peers = {name: opened[name] for name in effort.peers}
        copy = stack.enter_context(_copying(task))
        blocks: dict[str, Block] = {MEMCPY: lambda: copy(effort.steps)}
        if task.cores is not None:
            other = stack.enter_context(Companion(machine.READER_CORE, _answer_lines))
            blocks[LINE] = lambda: _ping(other, effort.steps)
        for name, lane in lanes.items():
            blocks[name] = lambda lane=lane: lane.measure(effort.steps)  # type: ignore[misc]
        for name, peer in peers.items():
            steps = effort.slow_steps if name in _SLOW else effort.steps
            if peer.works:
                blocks[name] = lambda p=peer, n=steps: p.measure(n)  # type: ignore[misc]
        results = alternate(blocks, effort.rounds)
    about = {name: peer.about for name, peer in peers.items()}
    machine.unpin()
    return {
        "task": {"envs": task.envs, "obs": task.obs, "act": task.act},
        "bytes": batch_bytes(task),
        "calls": summary(results, {name: MEMCPY for name in blocks if name != MEMCPY}),
        "times": {
            base: {name: ratio(results[name], results[base]) for name in about if name in results}
            for base in ("lanekit, touch", "lanekit, full write")
        },
        "about": about,
    }


CROWDED = {
    "lanekit, hybrid": ("lane", {}),
    "lanekit, block": ("lane", {"wait": "block"}),
    "lanekit, spin": ("lane", {"wait": "spin"}),
    "PufferLib, native": ("puffer_native", {}),
    "Gymnasium AsyncVectorEnv": ("gymnasium_async", {}),
}


def _burn(conn: Connection) -> None:
    """Keep a core busy until told otherwise; not pinned, as a neighbour is not."""
    machine.unpin()
    conn.send("burning")
    while not conn.poll():
        sum(range(1000))


def _together(steppers: list[Stepper], seconds: float) -> Samples:
    """Let all step for as long: one that is done early would leave its core to the others."""
    for stepper in steppers:
        stepper.go()
    for stepper in steppers:
        stepper.ask(_MANY, seconds=seconds)
    samples = np.concatenate([stepper.answer() for stepper in steppers])
    for stepper in steppers:
        stepper.stop()
    return samples


def crowded(effort: Effort) -> dict[str, Any]:
    """Step with twice as many busy processes as cores, none of them pinned."""
    cores = len(machine.cores())
    found: dict[str, Any] = {"processes": 2 * cores, "cores": cores}
    machine.unpin()
    wanted = {n: k for n, k in CROWDED.items() if k[0] == "lane" or k[0] in effort.peers}
    with ExitStack() as stack:
        pairs = {
            name: [_open(stack, kind, Task(**options)) for _ in range(cores)]
            for name, (kind, options) in wanted.items()
        }
        works = {name: each for name, each in pairs.items() if all(one.works for one in each)}
        seconds, rounds = effort.crowded_seconds, max(1, effort.rounds // 2)
        blocks: dict[str, Block] = {}
        for name, each in works.items():
            blocks[name] = lambda e=each: _together(e, seconds)  # type: ignore[misc]
        found["pairs"] = _summary(alternate(blocks, rounds, _with_mean))
        burners = [stack.enter_context(Companion(machine.WRITER_CORE, _burn)) for _ in range(cores)]
        for burner in burners:
            burner.answer()
        for name, each in works.items():
            blocks[name] = lambda e=each[:1]: _together(e, seconds)  # type: ignore[misc]
        found["beside"] = _summary(alternate(blocks, rounds, _with_mean))
    return found


def _with_mean(samples: Samples) -> dict[str, float]:
    """The mean, too: who spins while the other has no core is hidden from the percentiles."""
    return {**percentiles(samples), "mean_us": float(samples.mean()) / 1000}


def _summary(results: Mapping[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    rows = summary(results, {})
    for name, row in rows.items():
        row["spread"] = float(np.median([r["p99_us"] / r["p50_us"] for r in results[name]]))
        row["mean_us"] = median(results[name], "mean_us")
    return rows


def paced(effort: Effort) -> dict[str, Any]:
    """Step 4096 environments at 50 Hz: both sides sleep in between."""
    rows: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        for name, options in (("hybrid", {}), ("block", {"wait": "block"})):
            lane = _open(stack, "lane", Task(work="write", **options))  # type: ignore[arg-type]
            samples = lane.measure(effort.paced_steps, hz=50.0)
            rows[name] = {**percentiles(samples), "max_us": float(samples.max()) / 1000}
    return {"hz": 50.0, "calls": rows}


GROWTH: dict[str, tuple[str, dict[str, Any]]] = {
    "lanekit, touch": ("lane", {}),
    "lanekit, full write": ("lane", {"work": "write"}),
    "lanekit, full write, spin": ("lane", {"work": "write", "wait": "spin"}),
    "PufferLib, native, full write": ("puffer_native", {"work": "write"}),
    **{
        label: (kind, {})
        for kind, label in PEERS.items()
        if not kind.startswith("puffer") and kind != "grpc_stream"
    },
}


def growth(effort: Effort) -> dict[str, Any]:
    """Step from 1 to 65,536 environments."""
    found: dict[str, dict[str, float]] = {MEMCPY: {}, **{name: {} for name in GROWTH}}
    spread: dict[str, dict[str, dict[str, float]]] = {name: {} for name in found}
    failed: dict[str, str] = {}
    for envs in effort.sizes:
        task = replace(_pinned(), envs=envs)
        with ExitStack() as stack:
            copy = stack.enter_context(_copying(task))
            steps = max(3, effort.growth_steps // (1 + envs // 8192))
            blocks: dict[str, Block] = {MEMCPY: lambda n=steps, copy=copy: copy(n)}  # type: ignore[misc]
            wanted = {
                name: (kind, replace(task, **options))
                for name, (kind, options) in GROWTH.items()
                if kind == "lane" or kind in effort.growth_peers
            }
            steppers = _open_all(stack, wanted)
            for name, stepper in steppers.items():
                if stepper.works:
                    blocks[name] = lambda s=stepper, n=steps: s.measure(n)  # type: ignore[misc]
                else:
                    failed[name] = stepper.about["failed"]
            for name, rounds in alternate(blocks, effort.growth_rounds).items():
                found[name][str(envs)] = median(rounds)
                spread[name][str(envs)] = quartiles([each["p50_us"] for each in rounds])
    machine.unpin()
    return {"sizes": list(effort.sizes), "p50_us": found, "spread_us": spread, "failed": failed}


Part = Callable[[Effort], Any]
MEASUREMENTS: dict[str, list[Part]] = {
    "round_trip": [round_trip],
    "crowded": [crowded],
    "paced": [paced],
    "growth": [growth],
}
UNTIMED: set[str] = set()
TWO_CORES: set[str] = set()
