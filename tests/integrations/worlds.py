"""Environments for the tests: small, deterministic, some of them badly behaved."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

SIZE = (32, 48)


class Counter(gymnasium.Env[Any, Any]):
    """Its picture tells its step; every tenth step ends an episode, each step is worth 1."""

    metadata = {"render_modes": ["rgb_array", "human", "ansi"], "render_fps": 60}  # noqa: RUF012
    observation_space = gymnasium.spaces.Discrete(1000)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = "rgb_array", tint: int = 0) -> None:
        self.render_mode = render_mode
        self.tint = tint
        self.steps = 0
        self.renders = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.steps % 1000, 1.0, self.steps % 10 == 0, False, {}

    def render(self) -> Any:
        self.renders += 1
        return picture(self.steps, self.tint)


def picture(steps: int, tint: int = 0, size: tuple[int, int] = SIZE) -> np.ndarray:
    """What a Counter looks like after so many steps."""
    pixels = np.full((*size, 3), tint, np.uint8)
    pixels[..., 0] = steps % 251
    pixels[..., 1] = steps // 251 % 251
    return pixels


class Growing(Counter):
    """Its picture has another size after each reset."""

    def __init__(self, render_mode: str | None = "rgb_array") -> None:
        super().__init__(render_mode)
        self.resets = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.resets += 1
        return super().reset(seed=seed)

    def render(self) -> Any:
        return picture(self.steps, size=(16 + 8 * (self.resets % 3), 24))


class Odd(Counter):
    """Renders whatever it was told to."""

    def __init__(self, result: Any, render_mode: str | None = "rgb_array") -> None:
        super().__init__(render_mode)
        self.result = result

    def render(self) -> Any:
        self.renders += 1
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class CounterState:
    """A state adapter for Counter."""

    def get_state(self, env: Any) -> bytes:
        return int(env.steps).to_bytes(8, "little")

    def set_state(self, env: Any, state: bytes) -> None:
        env.steps = int.from_bytes(state, "little")


class Fatal(Counter):
    """A Counter whose copy in another process can not draw."""


class FatalState(CounterState):
    """Lets the process that draws fail."""

    def set_state(self, env: Any, state: bytes) -> None:
        raise RuntimeError("no such state")


class Unreadable(Counter):
    """A Counter whose state can not be read."""


class UnreadableState(CounterState):
    """Fails in the training process."""

    def get_state(self, env: Any) -> bytes:
        raise ValueError("unreadable")


class Opaque(Counter):
    """A Counter whose state is no plain value."""


class OpaqueState(CounterState):
    """Returns the environment itself."""

    def get_state(self, env: Any) -> Any:
        return env


def register() -> None:
    """Make the environments known to gymnasium, and their adapters to lanekit."""
    from lanekit.integrations import register_state_adapter

    for kind in (Counter, Growing, Fatal, Unreadable, Opaque):
        if f"{kind.__name__}-v0" not in gymnasium.registry:
            gymnasium.register(f"{kind.__name__}-v0", entry_point=f"worlds:{kind.__name__}")
    register_state_adapter(Counter, CounterState())
    register_state_adapter(Fatal, FatalState())
    register_state_adapter(Unreadable, UnreadableState())
    register_state_adapter(Opaque, OpaqueState())
