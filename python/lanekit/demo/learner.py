"""A small learner that really learns: the cross-entropy method over a linear policy.

Each generation draws a population of weight vectors around the current mean, lets every member
balance one episode, and moves the mean and the spread towards the members that lasted longest.
All episodes of a generation run in step, as rows of one array, so the caller can stop between any
two steps to do something else, such as to publish a frame.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lanekit.demo import cartpole

Weights = NDArray[np.float64]

MEMBERS = 32
"""Policies tried in a generation."""

ELITE = 8
"""Members that the next generation learns from."""

PROBES = 8
"""Episodes of the mean policy itself, played beside the members to know how good it is."""

SOLVED_RETURN = 475.0
"""The task counts as solved once the probes earn this much on average."""

_LEARNING_RATE = 0.4
_FIRST_SPREAD = 0.5
# Keeps the search from freezing on a lucky early find, and fades as the generations go by.
_EXTRA_SPREAD = 0.1
_EXTRA_FADE = 0.9
# A linear policy that knows nothing (all zeros) is a coin toss away from a good one. This one
# pushes the wrong way, so there is something to learn, and to see being learned.
_FIRST_MEAN = (0.0, 0.0, -0.5, -0.5)


def choose_force(weights: Weights, states: cartpole.States) -> NDArray[np.float64]:
    """Return full force to the right where the policy's score is positive, else to the left.

    ``weights`` is one policy for all states, or one per row.
    """
    score = (states * weights).sum(axis=1)
    return np.where(score > 0.0, cartpole.MOTOR_FORCE, -cartpole.MOTOR_FORCE)


def evaluate(weights: Weights, rng: np.random.Generator, episodes: int) -> NDArray[np.float64]:
    """Play whole episodes with one policy and return what each of them earned."""
    batch = _Batch(weights, cartpole.initial_states(rng, episodes))
    while not batch.finished:
        batch.step()
    return batch.returns


class Learner:
    """Learns to balance, one environment step of a whole generation at a time.

    The same seed learns the same policy.
    """

    def __init__(self, seed: int) -> None:
        """Start with a policy that falls at once."""
        self.mean: Weights = np.array(_FIRST_MEAN)
        self.generation = 0
        self.episodes = 0
        self.steps = 0
        self.best_return = 0.0
        self.probe_return = 0.0
        self._spread: Weights = np.full(self.mean.shape, _FIRST_SPREAD)
        self._rng = np.random.default_rng(seed)
        self._batch = self._next_batch()

    @property
    def solved(self) -> bool:
        """Whether the mean policy balanced in the last generation."""
        return self.probe_return >= SOLVED_RETURN

    def step(self) -> list[float]:
        """Step every running episode once and return what the episodes that ended now earned."""
        batch = self._batch
        self.steps += batch.running
        ended = batch.step()
        self.episodes += len(ended)
        self.best_return = max(self.best_return, *ended, 0.0)
        if batch.finished:
            self._learn(batch)
            self._batch = self._next_batch()
        return ended

    def _next_batch(self) -> _Batch:
        noise = self._rng.standard_normal((MEMBERS + PROBES, self.mean.size))
        noise[MEMBERS:] = 0.0
        states = cartpole.initial_states(self._rng, MEMBERS + PROBES)
        return _Batch(self.mean + self._spread * noise, states)

    def _learn(self, batch: _Batch) -> None:
        ranking = np.argsort(batch.returns[:MEMBERS], kind="stable")
        elite = batch.weights[ranking[-ELITE:]]
        extra = _EXTRA_SPREAD * _EXTRA_FADE**self.generation
        self.probe_return = float(batch.returns[MEMBERS:].mean())
        self.mean = self.mean + _LEARNING_RATE * (elite.mean(axis=0) - self.mean)
        self._spread = self._spread + _LEARNING_RATE * (elite.std(axis=0) + extra - self._spread)
        self.generation += 1


class _Batch:
    """Episodes that run in step, each until it fails or has lasted long enough."""

    def __init__(self, weights: Weights, states: cartpole.States) -> None:
        self.weights = weights
        self.returns: NDArray[np.float64] = np.zeros(len(states))
        self._states = states
        self._alive: NDArray[np.bool_] = np.ones(len(states), dtype=bool)
        self._age = 0

    @property
    def running(self) -> int:
        return int(self._alive.sum())

    @property
    def finished(self) -> bool:
        return not self._alive.any()

    def step(self) -> list[float]:
        # Ended rows are computed along: cheaper than to gather the others.
        self._states = cartpole.advance(self._states, choose_force(self.weights, self._states))
        self.returns += self._alive
        self._age += 1
        ended = self._alive & (cartpole.failed(self._states) | (self._age >= cartpole.MAX_STEPS))
        self._alive &= ~ended
        earned: list[float] = self.returns[ended].tolist()
        return earned
