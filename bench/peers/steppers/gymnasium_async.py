"""Gymnasium's AsyncVectorEnv: observations through shared memory, actions through a pipe."""

from __future__ import annotations

from functools import partial

import numpy as np
from gymnasium.vector import AsyncVectorEnv

from bench.peers.steppers import Step, Task
from bench.peers.steppers.toy import ToyBatch

PACKAGE = "gymnasium"
CALLS = "AsyncVectorEnv([env], shared_memory=True, copy=False).step(actions)"


def begin(task: Task) -> Step:
    """Start one worker."""
    envs = AsyncVectorEnv([partial(ToyBatch, task)], shared_memory=True, copy=False)
    envs.reset()
    actions = np.ones((1, task.envs, task.act), np.float32)
    return lambda: envs.step(actions)[0][0, 0, 0]
