"""Stable-Baselines3's SubprocVecEnv: everything through a pipe."""

from __future__ import annotations

from functools import partial

import numpy as np
from stable_baselines3.common.vec_env import SubprocVecEnv

from bench.peers.steppers import Step, Task
from bench.peers.steppers.toy import ToyBatch

PACKAGE = "stable_baselines3"
CALLS = "SubprocVecEnv([env]).step(actions)"


def begin(task: Task) -> Step:
    """Start one worker."""
    envs = SubprocVecEnv([partial(ToyBatch, task)], start_method="fork")
    envs.reset()
    actions = np.ones((1, task.envs, task.act), np.float32)
    return lambda: envs.step(actions)[0][0, 0, 0]
