"""lanekit's step lane."""

from __future__ import annotations

import multiprocessing
import os
import time

import numpy as np

from bench.peers.steppers import Step, Task
from lanekit import PeerLost, StepClient, StepLaneConfig, StepServer

PACKAGE = "lanekit"
CALLS = "StepClient.step(actions)"


def _serve(name: str, task: Task) -> None:
    task.pin_engine()
    config = StepLaneConfig(task.envs, task.obs, task.act, pipelined=task.pipelined)
    with StepServer.create(name, config, wait=task.wait) as server:  # type: ignore[arg-type]
        obs, rewards = server.obs, server.rewards
        wait_actions, commit = server.wait_actions, server.commit
        number = 0
        try:
            while True:
                exchange = wait_actions()
                number += 1
                if task.work == "touch":
                    obs[0, 0] = number
                else:
                    obs[exchange.envs] = number
                    rewards[exchange.envs] = number
                commit()
        except PeerLost:
            return


def begin(task: Task) -> Step:
    """Start an engine and attach to it."""
    name = f"bench-{os.getpid()}-{time.monotonic_ns()}"
    context = multiprocessing.get_context("spawn")
    context.Process(target=_serve, args=(name, task), daemon=True).start()
    client = StepClient.attach(name, timeout=60, wait=task.wait)  # type: ignore[arg-type]
    actions = np.ones((task.envs, task.act), np.float32)
    out = np.zeros((task.envs, task.obs), np.float32)

    def step() -> object:
        obs = client.step(actions).obs
        return obs[0, 0]

    def step_and_copy() -> None:
        np.copyto(out, client.step(actions).obs)

    def step_halves() -> object:
        """As many steps as environments: the policy's half goes out while the other comes in."""
        obs = client.obs
        for _ in range(2):
            obs = client.recv().obs
            client.send(actions[client.next_envs])
        return obs[0, 0]

    if task.pipelined:
        for _ in range(2):
            client.send(actions[client.next_envs])
        return step_halves
    return step_and_copy if task.take == "copy" else step
