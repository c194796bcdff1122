"""What the lanes cost a real engine: MuJoCo in process, behind lanes, behind gRPC, in processes.

All of them step the same simulation with the same actions. Each is a process of its own that waits
while another is measured. Beside the steps per second stands the processor time of all processes
that took part: on a machine that others use as well it says more.
"""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import psutil

from bench.engine_process import ACTION_SETS, GrpcTrainer, actions_for
from bench.samples import quartiles
from lanekit.engine import EngineClient

CASES = (
    ("hopper", 256),
    ("hopper", 1024),
    ("hopper", 4096),
    ("humanoid", 1024),
    ("cartpole", 1024),
)
PROCESSES = 32
CAMERA_ENVS = 64
CAMERA_SIDE = 64


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    seconds: float
    rounds: int
    largest: int = 4096
    processes: int = PROCESSES
    camera_envs: int = CAMERA_ENVS


FULL = Effort(seconds=2.0, rounds=7)
QUICK = Effort(seconds=0.8, rounds=3)
TINY = Effort(seconds=0.02, rounds=1, largest=4, processes=2, camera_envs=2)


class Found(NamedTuple):
    """What a block of steps has brought."""

    rate: float
    """Steps per second of all environments together."""
    cpu_us: float
    """Processor time of one environment's step, in all processes that took part."""


class Clock:
    """The processor time of some processes together."""

    def __init__(self, *pids: int) -> None:
        """Take them; children are counted only if they are named, too."""
        self._pids = pids

    def __call__(self) -> float:
        """Return the seconds that they have used."""
        # Linux's number for the clock of another process.
        return sum(time.clock_gettime((~pid << 3) | 2) for pid in self._pids)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bench.engine_process", *arguments]


Blocks = dict[str, list[Found]]


@contextlib.contextmanager
def _waiting(role: str, model: str, num_envs: int) -> Iterator[Callable[[float], Found]]:
    """Let a process step for some seconds whenever it is asked; it tells how many it made."""
    environment = {**os.environ, "MUJOCO_GL": "egl", "LP_NUM_THREADS": "0"}
    process = subprocess.Popen(
        _command(role, model, str(num_envs)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def measure(seconds: float) -> Found:
        assert process.stdin is not None
        assert process.stdout is not None
        before = clock()
        process.stdin.write(f"{seconds}\n")
        process.stdin.flush()
        made, passed = process.stdout.readline().split()
        return Found(int(made) / float(passed), 1e6 * (clock() - before) / int(made))

    try:
        assert process.stdout.readline() == "ready\n"
        children = psutil.Process(process.pid).children(recursive=True)
        clock = Clock(process.pid, *(child.pid for child in children))
        yield measure
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def _engine(model: str, num_envs: int, *options: str) -> Iterator[tuple[EngineClient, Clock]]:
    name = f"bench-{uuid.uuid4().hex[:12]}"
    command = [sys.executable, "-m", "lanekit", "engine", "--name", name, "--model", model]
    process = subprocess.Popen(
        [*command, "--num-envs", str(num_envs), *options], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with EngineClient(name, timeout=60) as client:
            client.reset(seed=1)
            yield client, Clock(process.pid, os.getpid())
    finally:
        process.terminate()
        process.communicate()


@contextlib.contextmanager
def _grpc(model: str, num_envs: int, pictures: int = 0) -> Iterator[tuple[GrpcTrainer, Clock]]:
    address = f"unix:/tmp/lanekit-bench-{uuid.uuid4().hex[:12]}"
    environment = {**os.environ, "MUJOCO_GL": "egl", "LP_NUM_THREADS": "0"}
    process = subprocess.Popen(
        _command("grpc", model, str(num_envs), address, str(pictures)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    trainer = None
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        trainer = GrpcTrainer(address, pictures)
        yield trainer, Clock(process.pid, os.getpid())
    finally:
        if trainer is not None:
            trainer.close()
        process.communicate()


def _stepped(
    step: Callable[[np.ndarray], Any], clock: Clock, actions: list[np.ndarray], seconds: float
) -> Found:
    """Step for some seconds."""
    step(actions[0])
    begun, used, made = time.perf_counter(), clock(), 0
    while True:
        step(actions[made % ACTION_SETS])
        made += 1
        passed = time.perf_counter() - begun
        if passed >= seconds:
            count = made * len(actions[0])
            return Found(count / passed, 1e6 * (clock() - used) / count)


def steps(effort: Effort, model: str, num_envs: int) -> dict[str, Any]:
    """Steps per second of one model: in process, and through lanes and gRPC."""
    num_envs = min(num_envs, effort.largest)
    found: Blocks = {name: [] for name in ("physics", "in_process", "lanes", "grpc", "rollout")}
    with (
        _waiting("physics", model, num_envs) as physics,
        _waiting("in-process", model, num_envs) as in_process,
        _waiting("rollout", model, num_envs) as rollout,
        _engine(model, num_envs) as (client, lane_clock),
        _grpc(model, num_envs) as (remote, grpc_clock),
    ):
        actions = actions_for(num_envs, client.config.act_size)
        ways: dict[str, Callable[[float], Found]] = {
            "in_process": in_process,
            "lanes": functools.partial(_stepped, client.step, lane_clock, actions),
            "physics": physics,
            "grpc": functools.partial(_stepped, remote.step, grpc_clock, actions),
            "rollout": rollout,
        }
        for number in range(effort.rounds):
            # Every other round backwards: who comes after whom must not matter.
            for name in sorted(ways, reverse=bool(number % 2)):
                found[name].append(ways[name](effort.seconds))
    return {"model": model, "num_envs": num_envs, **_summary(found)}


def _summary(found: Blocks) -> dict[str, Any]:
    """Return medians over the rounds, of rates and of ratios within a round."""
    others = [name for name in found if name != "lanes"]

    def ratios(name: str, part: str) -> list[float]:
        pairs = zip(found["lanes"], found[name], strict=True)
        return [getattr(lanes, part) / getattr(other, part) for lanes, other in pairs]

    return {
        "rates": {
            name: statistics.median(b.rate for b in blocks) for name, blocks in found.items()
        },
        "cpu_us": {
            name: statistics.median(b.cpu_us for b in blocks) for name, blocks in found.items()
        },
        "rate_spread": {
            name: quartiles([b.rate for b in blocks]) for name, blocks in found.items()
        },
        "of_in_process": {
            name: quartiles(
                [b.rate / base.rate for b, base in zip(blocks, found["in_process"], strict=True)]
            )
            for name, blocks in found.items()
            if "in_process" in found
        },
        "lanes_over": {name: statistics.median(ratios(name, "rate")) for name in others},
        "cpu_over": {name: statistics.median(ratios(name, "cpu_us")) for name in others},
    }


def processes(effort: Effort) -> dict[str, Any]:
    """The same hopper in Gymnasium's AsyncVectorEnv: a process for each environment."""
    model, count = "hopper", effort.processes
    found: Blocks = {name: [] for name in ("in_process", "lanes", "async")}
    with (
        _waiting("in-process", model, count) as in_process,
        _waiting("async", model, count) as asynchronous,
        _engine(model, count) as (client, clock),
    ):
        actions = actions_for(count, client.config.act_size)
        for _ in range(effort.rounds):
            found["in_process"].append(in_process(effort.seconds))
            found["lanes"].append(_stepped(client.step, clock, actions, effort.seconds))
            found["async"].append(asynchronous(effort.seconds))
    return {"model": model, "num_envs": count, **_summary(found)}


def camera(effort: Effort) -> dict[str, Any]:
    """Pictures of all environments with each step: in the image region, and over gRPC."""
    model, count, side = "hopper", effort.camera_envs, CAMERA_SIDE
    found: Blocks = {name: [] for name in ("lanes", "grpc")}
    with (
        _engine(model, count, "--image", f"{side}x{side}") as (client, lane_clock),
        _grpc(model, count, side) as (remote, grpc_clock),
    ):
        actions = actions_for(count, client.config.act_size)
        with client.stream_camera("track", range(count), into_images=True):
            assert client.images is not None
            while not client.images[-1].any():
                client.step(actions[0])
            for _ in range(effort.rounds):
                # A block ends with the first step after its time: drawing takes long.
                long = 2 * effort.seconds
                found["lanes"].append(_stepped(client.step, lane_clock, actions, long))
                found["grpc"].append(_stepped(remote.step, grpc_clock, actions, long))
        moved: Blocks = {name: [] for name in ("lanes", "grpc")}
        for _ in range(effort.rounds):
            read = functools.partial(_step_and_read, client)
            moved["lanes"].append(_stepped(read, lane_clock, actions, effort.seconds))
            send = functools.partial(remote.step, draw=False)
            moved["grpc"].append(_stepped(send, grpc_clock, actions, effort.seconds))
    return {
        "model": model,
        "num_envs": count,
        "side": side,
        **_summary(found),
        "undrawn": _summary(moved),
    }


def _step_and_read(client: EngineClient, actions: np.ndarray) -> None:
    """Step, and take the pictures that are there out of the lane: gRPC's trainer has its own."""
    client.step(actions)
    assert client.images is not None
    client.images.copy()


def resets(effort: Effort) -> dict[str, Any]:
    """Resets per second of single environments, in the lane and with a contract by command."""
    from lanekit.engine import SimulationContract

    contract = SimulationContract(friction=(0.5, 1.5))
    plain, with_contract = [], []
    with _engine("hopper", min(64, effort.largest)) as (client, _):
        for _ in range(effort.rounds):
            for found, options in ((plain, {}), (with_contract, {"contract": contract})):
                begun, made = time.perf_counter(), 0
                while (passed := time.perf_counter() - begun) < effort.seconds or not made:
                    client.reset([made % client.num_envs], seed=made, **options)
                    made += 1
                found.append(made / passed)
    return {"plain": statistics.median(plain), "contract": statistics.median(with_contract)}


MEASUREMENTS: dict[str, list[Callable[[Effort], Any]]] = {
    "steps": [functools.partial(steps, model=model, num_envs=count) for model, count in CASES],
    "processes": [processes],
    "camera": [camera],
    "resets": [resets],
}
UNTIMED: set[str] = set()
TWO_CORES: set[str] = set()
