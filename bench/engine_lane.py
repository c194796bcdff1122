"""What the lanes cost a real engine: MuJoCo in process, behind lanes, behind gRPC, in processes.

All of them step the same simulation with the same actions. Each is a process of its own that waits
while another is measured.
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
from typing import Any

import numpy as np

from bench.engine_process import ACTION_SETS, GrpcTrainer, actions_for
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


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bench.engine_process", *arguments]


@contextlib.contextmanager
def _waiting(role: str, model: str, num_envs: int) -> Iterator[Callable[[float], float]]:
    """Let a process step for some seconds whenever it is asked; it tells its steps per second."""
    environment = {**os.environ, "MUJOCO_GL": "egl"}
    process = subprocess.Popen(
        _command(role, model, str(num_envs)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def measure(seconds: float) -> float:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{seconds}\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    try:
        assert process.stdout.readline() == "ready\n"
        yield measure
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def _engine(model: str, num_envs: int, *options: str) -> Iterator[EngineClient]:
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
            yield client
    finally:
        process.terminate()
        process.communicate()


@contextlib.contextmanager
def _grpc(model: str, num_envs: int, pictures: int = 0) -> Iterator[GrpcTrainer]:
    address = f"unix:/tmp/lanekit-bench-{uuid.uuid4().hex[:12]}"
    environment = {**os.environ, "MUJOCO_GL": "egl"}
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
        yield trainer
    finally:
        if trainer is not None:
            trainer.close()
        process.communicate()


def _rate(step: Callable[[np.ndarray], Any], actions: list[np.ndarray], seconds: float) -> float:
    """Return steps per second of all environments together."""
    step(actions[0])
    begun, made = time.perf_counter(), 0
    while True:
        step(actions[made % ACTION_SETS])
        made += 1
        passed = time.perf_counter() - begun
        if passed >= seconds:
            return made * len(actions[0]) / passed


def steps(effort: Effort, model: str, num_envs: int) -> dict[str, Any]:
    """Steps per second of one model: in process, and through lanes and gRPC."""
    num_envs = min(num_envs, effort.largest)
    rates: dict[str, list[float]] = {
        name: [] for name in ("physics", "in_process", "lanes", "grpc", "rollout")
    }
    with (
        _waiting("physics", model, num_envs) as physics,
        _waiting("in-process", model, num_envs) as in_process,
        _waiting("rollout", model, num_envs) as rollout,
        _engine(model, num_envs) as client,
        _grpc(model, num_envs) as remote,
    ):
        actions = actions_for(num_envs, client.config.act_size)
        for _ in range(effort.rounds):
            rates["in_process"].append(in_process(effort.seconds))
            rates["lanes"].append(_rate(client.step, actions, effort.seconds))
            rates["physics"].append(physics(effort.seconds))
            rates["grpc"].append(_rate(remote.step, actions, effort.seconds))
            rates["rollout"].append(rollout(effort.seconds))
    return {"model": model, "num_envs": num_envs, **_summary(rates)}


def _summary(rates: dict[str, list[float]]) -> dict[str, Any]:
    lanes = rates["lanes"]
    return {
        "rates": {name: statistics.median(found) for name, found in rates.items()},
        "lanes_over": {
            name: statistics.median(a / b for a, b in zip(lanes, found, strict=True))
            for name, found in rates.items()
            if name != "lanes"
        },
    }


def processes(effort: Effort) -> dict[str, Any]:
    """The same hopper in Gymnasium's AsyncVectorEnv: a process for each environment."""
    model, count = "hopper", effort.processes
    rates: dict[str, list[float]] = {name: [] for name in ("in_process", "lanes", "async")}
    with (
        _waiting("in-process", model, count) as in_process,
        _waiting("async", model, count) as asynchronous,
        _engine(model, count) as client,
    ):
        actions = actions_for(count, client.config.act_size)
        for _ in range(effort.rounds):
            rates["in_process"].append(in_process(effort.seconds))
            rates["lanes"].append(_rate(client.step, actions, effort.seconds))
            rates["async"].append(asynchronous(effort.seconds))
    return {"model": model, "num_envs": count, **_summary(rates)}


def camera(effort: Effort) -> dict[str, Any]:
    """Pictures of all environments with each step: in the image region, and over gRPC."""
    model, count, side = "hopper", effort.camera_envs, CAMERA_SIDE
    rates: dict[str, list[float]] = {name: [] for name in ("lanes", "grpc")}
    with (
        _engine(model, count, "--image", f"{side}x{side}") as client,
        _grpc(model, count, side) as remote,
    ):
        actions = actions_for(count, client.config.act_size)
        with client.stream_camera("track", range(count), into_images=True):
            assert client.images is not None
            while not client.images[-1].any():
                client.step(actions[0])
            for _ in range(effort.rounds):
                # A block ends with the first step after its time: drawing takes long.
                rates["lanes"].append(_rate(client.step, actions, 2 * effort.seconds))
                rates["grpc"].append(_rate(remote.step, actions, 2 * effort.seconds))
        transport = _transport(effort, client, remote, actions)
    return {"model": model, "num_envs": count, "side": side, **_summary(rates), **transport}


def _transport(
    effort: Effort, client: EngineClient, remote: GrpcTrainer, actions: list[np.ndarray]
) -> dict[str, float]:
    """The same pixels with each step, but not drawn anew: what moving them takes."""
    assert client.images is not None
    images = client.images
    lanes, grpc = [], []

    def step_and_read(found: np.ndarray) -> None:
        client.step(found)
        images.copy()

    for _ in range(effort.rounds):
        lanes.append(_rate(step_and_read, actions, effort.seconds))
        grpc.append(_rate(functools.partial(remote.step, draw=False), actions, effort.seconds))
    ratios = [a / b for a, b in zip(lanes, grpc, strict=True)]
    count = len(actions[0])
    return {
        "undrawn_lanes_ms": 1e3 * count / statistics.median(lanes),
        "undrawn_grpc_ms": 1e3 * count / statistics.median(grpc),
        "undrawn_ratio": statistics.median(ratios),
    }


def resets(effort: Effort) -> dict[str, Any]:
    """Resets per second of single environments, in the lane and with a contract by command."""
    from lanekit.engine import SimulationContract

    contract = SimulationContract(friction=(0.5, 1.5))
    plain, with_contract = [], []
    with _engine("hopper", min(64, effort.largest)) as client:
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
