"""The toy that every framework steps: one environment whose observation is the whole batch.

So that a framework's one worker process has all environments, as an engine has. Its reward is one
number for the whole batch, where a lane carries one for each environment.
"""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np

from bench.peers.steppers import Task

_MAIN = os.getpid()


class ToyBatch(gymnasium.Env):  # type: ignore[type-arg]
    """A batch of environments that do next to nothing."""

    def __init__(self, task: Task, main: int = _MAIN) -> None:
        if os.getpid() != main:  # frameworks also build one in the parent, to look at its spaces
            task.pin_engine()
        box = gymnasium.spaces.Box
        self.observation_space = box(-np.inf, np.inf, (task.envs, task.obs), np.float32)
        self.action_space = box(-1, 1, (task.envs, task.act), np.float32)
        self._obs = np.zeros((task.envs, task.obs), np.float32)
        self._task = task
        self._number = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin."""
        return self._obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Write one number, or all."""
        self._number += 1
        if self._task.work == "touch":
            self._obs[0, 0] = self._number
        else:
            self._obs[:] = self._number
        return self._obs, 0.0, False, False, {}
