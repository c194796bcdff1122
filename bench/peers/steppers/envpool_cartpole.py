"""EnvPool, which steps environments of its own in C++ threads: a real CartPole, no toy."""

from __future__ import annotations

import envpool
import numpy as np

from bench.peers.steppers import Step, Task

PACKAGE = "envpool"
CALLS = 'make("CartPole-v1", num_threads=1).step(actions): its own simulation, 4 numbers each'


def begin(task: Task) -> Step:
    """Make one pool."""
    pool = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=task.envs, num_threads=1)
    pool.reset()
    actions = np.zeros(task.envs, np.int32)
    return lambda: pool.step(actions)[0][0, 0]
