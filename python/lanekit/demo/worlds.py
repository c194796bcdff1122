"""Where an agent plays: several environments of one kind, stepped together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lanekit.demo import cartpole

Array = NDArray[Any]


@dataclass(frozen=True)
class Discrete:
    """So many choices."""

    size: int


@dataclass(frozen=True)
class Continuous:
    """So many numbers, each from -1 to 1."""

    size: int


@dataclass(frozen=True)
class WorldStep:
    """What came of one action in each environment."""

    observations: Array
    """What to act on next: where an episode has ended, the first of the next one."""
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    last_observations: Array
    """The same, but where an episode has ended, its own last one."""


class World(Protocol):
    """Environments that begin again by themselves when their episode has ended."""

    count: int
    observation_size: int
    actions: Discrete | Continuous

    def reset(self) -> Array:
        """Begin an episode in each, and return the observations, one per row."""

    def step(self, actions: Array) -> WorldStep:
        """Act once in each."""


class CartPoles:
    """Cart-poles as in Gymnasium's CartPole-v1, all in one array, with nothing but numpy."""

    observation_size = 4
    actions: Discrete | Continuous = Discrete(2)

    def __init__(self, count: int, seed: int) -> None:
        """Make ``count`` of them."""
        self.count = count
        self._rng = np.random.default_rng(seed)
        self._states = cartpole.initial_states(self._rng, count)
        self._ages: NDArray[np.int64] = np.zeros(count, np.int64)

    def reset(self) -> Array:
        """Begin an episode in each."""
        self._states = cartpole.initial_states(self._rng, self.count)
        self._ages[:] = 0
        return self._states

    def step(self, actions: Array) -> WorldStep:
        """Push each cart: 0 to the left, 1 to the right."""
        states = cartpole.advance(self._states, cartpole.force_of(actions))
        self._ages += 1
        terminated = cartpole.failed(states)
        truncated = ~terminated & (self._ages >= cartpole.MAX_STEPS)
        over = terminated | truncated
        last = states
        if over.any():
            states = states.copy()
            states[over] = cartpole.initial_states(self._rng, int(over.sum()))
            self._ages[over] = 0
        self._states = states
        return WorldStep(states, np.ones(self.count), terminated, truncated, last)
