"""TorchRL's ParallelEnv: tensors in shared memory."""

from __future__ import annotations

from functools import partial

import torch
from torchrl.envs import GymWrapper, ParallelEnv

from bench.peers.steppers import Step, Task
from bench.peers.steppers.toy import ToyBatch

PACKAGE = "torchrl"
CALLS = "ParallelEnv(1, env).step(tensordict)"


def _make(task: Task, main: int) -> GymWrapper:
    return GymWrapper(ToyBatch(task, main))


def begin(task: Task) -> Step:
    """Start one worker."""
    import os

    torch.set_num_threads(1)
    envs = ParallelEnv(1, partial(_make, task, os.getpid()))
    state = envs.reset()
    state["action"] = torch.ones((1, task.envs, task.act))
    return lambda: envs.step(state)["next", "observation"][0, 0, 0]
