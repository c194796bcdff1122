"""The one environment that is shown: it plays the newest policy at the speed people watch at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lanekit.demo import cartpole
from lanekit.demo.ppo import Policy

FALL_FRAMES = 30
"""How long a failed episode stays in the picture, to show the fall."""

PUSH_FRAMES = 12
"""How long a push stays visible, roughly."""

PUSH_SPEED = 0.9
"""What a push adds to the cart's speed at most, in metres per second."""

WIDTH, HEIGHT = 480, 240


@dataclass(frozen=True)
class StageStep:
    """What happened in one step, as the slow lane is told."""

    observation: NDArray[Any]
    action: Any
    reward: float
    terminated: bool
    truncated: bool


class Stage(Protocol):
    """One environment and its picture."""

    hz: float
    """Steps a second that look right."""

    def step(self, policy: Policy, *, solved: bool) -> StageStep | None:
        """Go on by one frame; None if only the picture moved, as in a fall."""

    def picture(self) -> NDArray[np.uint8]:
        """Draw it: (height, width, 3). The array may be used again for the next picture."""

    def close(self) -> None:
        """Let go of what it holds."""


class CartPoleStage:
    """A cart-pole that is knocked about once the task is solved, to show how firmly it stands."""

    hz = 1.0 / cartpole.TIME_STEP

    def __init__(self, seed: int) -> None:
        """Start with a fresh episode."""
        self.push = 0.0
        self._rng = np.random.default_rng(seed)
        self._states = cartpole.initial_states(self._rng, 1)
        self._age = 0
        self._fallen_for = 0
        self._image: NDArray[np.uint8] = np.zeros((HEIGHT, WIDTH, 3), np.uint8)

    @property
    def state(self) -> cartpole.States:
        """The state to draw, four numbers."""
        return self._states.reshape(4)

    def step(self, policy: Policy, *, solved: bool) -> StageStep | None:
        """Act once, or let a fallen pole drop."""
        self.push = 0.0 if abs(self.push) < 0.05 else self.push * (1 - 1 / PUSH_FRAMES)
        if self._fallen_for:
            self._fall()
            return None
        seen = self.state.copy()
        action = policy.best(self._states)
        self._states = cartpole.advance(self._states, cartpole.force_of(action))
        self._age += 1
        if solved and self._rng.random() < 0.01:
            self.push = self._rng.choice((-1.0, 1.0)) * self._rng.uniform(0.4, 1.0)
            self._states[0, 1] += self.push * PUSH_SPEED
        terminated = bool(cartpole.failed(self._states)[0])
        truncated = not terminated and self._age >= cartpole.MAX_STEPS
        if terminated:
            self._fallen_for = 1
        elif truncated:
            self._reset()
        return StageStep(seen, int(action[0]), 1.0, terminated, truncated)

    def picture(self) -> NDArray[np.uint8]:
        """Draw the cart, the pole and what pushes it."""
        cartpole.draw(self.state, self._image, push=self.push)
        return self._image

    def close(self) -> None:
        """Nothing is held."""

    def _reset(self) -> None:
        self._states = cartpole.initial_states(self._rng, 1)
        self._age = self._fallen_for = 0

    def _fall(self) -> None:
        """Let the pole drop beside a braking cart until it lies on the track."""
        self._fallen_for += 1
        if self._fallen_for > FALL_FRAMES:
            self._reset()
            return
        self._states[0, 1] *= 0.8
        self._states = cartpole.advance(self._states, np.zeros(1))
        self._states[0, 2] = np.clip(self._states[0, 2], -np.pi / 2, np.pi / 2)
