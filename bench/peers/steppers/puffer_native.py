"""PufferLib's Multiprocessing with a native environment: shared memory, busy waiting on both sides.

Its environments in C need downloads to build; the vectorisation is plain Python and works from the
sources alone.
"""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np
import pufferlib
import pufferlib.vector

from bench.peers.steppers import Step, Task

PACKAGE = "pufferlib"
CALLS = "vector.Multiprocessing(native env, num_workers=1).step(actions)"


class NativeToy(pufferlib.PufferEnv):  # type: ignore[misc]
    """The toy with PufferLib's own buffers: it writes right into shared memory."""

    def __init__(self, task: Task, main: int, buf: Any = None, seed: int = 0) -> None:
        if os.getpid() != main:
            task.pin_engine()
        box = gymnasium.spaces.Box
        self.single_observation_space = box(-np.inf, np.inf, (task.obs,), np.float32)
        self.single_action_space = box(-1, 1, (task.act,), np.float32)
        self.num_agents = task.envs
        self._task = task
        self._number = 0
        super().__init__(buf)

    def reset(self, seed: int | None = None) -> tuple[Any, list[Any]]:
        """Begin."""
        return self.observations, []

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, list[Any]]:
        """Write one number, or all."""
        self._number += 1
        if self._task.work == "touch":
            self.observations[0, 0] = self._number
        else:
            self.observations[:] = self._number
            self.rewards[:] = self._number
        return self.observations, self.rewards, self.terminals, self.truncations, []

    def close(self) -> None:
        """Nothing to close."""


def begin(task: Task) -> Step:
    """Start one worker."""
    arguments = [[task, os.getpid()]]
    envs = pufferlib.vector.Multiprocessing([NativeToy], arguments, [{}], 1, num_workers=1)
    envs.reset()
    actions = np.ones((task.envs, task.act), np.float32)
    return lambda: envs.step(actions)[0][0, 0]
