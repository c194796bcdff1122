"""Tianshou's ShmemVectorEnv."""

from __future__ import annotations

from functools import partial

import numpy as np
from tianshou.env import ShmemVectorEnv

from bench.peers.steppers import Step, Task
from bench.peers.steppers.toy import ToyBatch

PACKAGE = "tianshou"
CALLS = "ShmemVectorEnv([env]).step(actions)"


def begin(task: Task) -> Step:
    """Start one worker."""
    envs = ShmemVectorEnv([partial(ToyBatch, task)])
    envs.reset()
    actions = np.ones((1, task.envs, task.act), np.float32)
    return lambda: envs.step(actions)[0][0, 0, 0]
