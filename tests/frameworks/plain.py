"""An environment that refuses every render mode, as ``plain:Plain-v0``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np


class Plain(gymnasium.Env[Any, Any]):
    """Nothing happens in it, and every tenth step ends an episode."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        assert render_mode is None or render_mode in self.metadata["render_modes"]
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps % 10 == 0, False, {}


gymnasium.register("Plain-v0", entry_point="plain:Plain", max_episode_steps=100)
