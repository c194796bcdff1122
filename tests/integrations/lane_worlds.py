"""Environments for the tests of the step lane; ``lane_worlds:Slots-v0`` and so on."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class World(gymnasium.Env[Any, Any]):
    """Observations are drawn from its own generator; how long episodes last depends on actions."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.left = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(3, 12))
        return self.draw(), {"left": self.left}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), f"{action!r} of {type(action)}"
        self.left -= 1 + int(np.sum(action)) % 2
        over = self.left <= 0
        info: dict[str, Any] = {"left": self.left, "path": {"sum": float(np.sum(action)) / 3}}
        if self.left % 3 == 0:
            info["lucky"] = True
        return self.draw(), float(self.np_random.normal()), over and self.left % 2 == 0, over, info

    def draw(self) -> Any:
        """Return an observation, with the generator of this environment."""
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()

    def render(self) -> Any:
        return np.full((6, 8, 3), self.left % 256, np.uint8)


INFOS = {"left": "int64", "path/sum": "float64", "lucky": "bool"}


class Slots(World):
    """Several choices at once."""

    observation_space = spaces.MultiDiscrete([3, 4, 5], start=[0, 2, -7])
    action_space = spaces.MultiDiscrete([[2, 3], [4, 5]])


class Switches(World):
    """On or off."""

    observation_space = spaces.MultiBinary([2, 3])
    action_space = spaces.MultiBinary(4)


class Pictures(World):
    """Sees bytes, pushes in two directions."""

    observation_space = spaces.Box(0, 255, (7, 5, 3), np.uint8)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Scalar(World):
    """One number of 64 bits."""

    observation_space = spaces.Box(-np.inf, np.inf, (), np.float64)
    action_space = spaces.Discrete(3, start=-1)


class Nested(World):
    """Sees several things."""

    observation_space = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 1, (2,))})
    action_space = spaces.Discrete(2)


class Choosy(World):
    """Takes several things."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Tuple([spaces.Discrete(3), spaces.Discrete(2)])


class Misbehaved(World):
    """Does what it is told, which is not good."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(10)

    def __init__(self, trouble: str, **kwargs: Any) -> None:
        if trouble == "make":
            raise RuntimeError("no power")
        super().__init__(**kwargs)
        self.trouble = trouble

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self.trouble == "reset":
            raise ValueError("can not begin")
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        if action == 9:
            if self.trouble == "step":
                raise ZeroDivisionError("the ground is gone – ünderground")
            if self.trouble == "exit":
                raise SystemExit("quit")
            if self.trouble == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.trouble == "shape":
                obs = obs[:1]
            if self.trouble == "info":
                info["left"] = "three"
            if self.trouble == "huge":
                info["left"] = 2**53 + 1
        return obs, reward, terminated, truncated, info


class Marked(World):
    """Leaves a mark when it is closed, and says so when it is made."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2)

    def __init__(self, mark: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mark = mark

    def close(self) -> None:
        with open(self.mark, "a", encoding="utf-8") as file:
            file.write("closed\n")


class Gated(World):
    """Steps when its gate is open; for servers in this very process."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2)

    def __init__(self, gate: threading.Event) -> None:
        super().__init__()
        self.gate = gate

    def step(self, action: Any) -> Any:
        self.gate.wait()
        return super().step(action)


for kind in (Slots, Switches, Pictures, Scalar, Nested, Choosy, Misbehaved, Marked):
    if f"{kind.__name__}-v0" not in gymnasium.registry:
        gymnasium.register(
            f"{kind.__name__}-v0",
            entry_point=f"lane_worlds:{kind.__name__}",
            disable_env_checker=True,
        )
