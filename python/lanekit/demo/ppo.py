"""Proximal policy optimisation in numpy: small, complete, and without a framework.

Schulman et al. (2017): the clipped objective, generalised advantages, several passes over each
rollout in minibatches, Adam. Observations and rewards are scaled by what was seen so far, so that
one set of options serves many environments. A :class:`Learner` works in slices (one step of all
its environments, or one minibatch), so the caller can do something else between any two of them,
such as to publish a frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lanekit.demo.networks import Adam, Array, Network, RunningScale
from lanekit.demo.worlds import Discrete, World

HIDDEN = (64, 64)


@dataclass(frozen=True)
class Options:
    """What decides how the learner learns."""

    rollout_steps: int = 64
    """Of each environment, per update."""
    epochs: int = 6
    minibatches: int = 4
    learning_rate: float = 2e-3
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.005
    largest_gradient: float = 0.5


class Policy:
    """Maps observations to actions: categorical over choices, or Gaussian over numbers.

    A continuous action lives between -1 and 1 here; the world stretches it to its own bounds.
    """

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        """Start with a policy that hardly prefers anything."""
        self.discrete = isinstance(world.actions, Discrete)
        self.actor = Network((world.observation_size, *HIDDEN, world.actions.size), rng, 0.01)
        self.log_std: Array = np.full(0 if self.discrete else world.actions.size, -0.5)
        self.scale = RunningScale(world.observation_size)

    def best(self, observations: Array) -> Array:
        """Return the most likely action for each observation, as the world takes it."""
        outputs = self.actor(self.scale(observations))
        return outputs.argmax(axis=1) if self.discrete else np.clip(outputs, -1.0, 1.0)

    def sample(self, outputs: Array, rng: np.random.Generator) -> Array:
        """Draw an action for each row of the network's outputs."""
        if self.discrete:
            chosen: Array = (outputs + rng.gumbel(size=outputs.shape)).argmax(axis=1)
            return chosen
        return outputs + np.exp(self.log_std) * rng.standard_normal(outputs.shape)

    def log_probability(self, outputs: Array, actions: Array) -> Array:
        """Return the logarithm of each action's probability (or density)."""
        if self.discrete:
            of_chosen: Array = _log_softmax(outputs)[np.arange(len(actions)), actions]
            return of_chosen
        distance = (actions - outputs) / np.exp(self.log_std)
        each: Array = -0.5 * distance**2 - self.log_std - 0.5 * np.log(2 * np.pi)
        together: Array = each.sum(axis=1)
        return together

    def gradients(
        self, outputs: Array, actions: Array, weight: Array, entropy: float
    ) -> tuple[Array, Array]:
        """Return how the loss changes with the outputs, and with the spread.

        ``weight`` is its derivative by each action's log probability; ``entropy`` the bonus that
        each row gets for staying undecided.
        """
        if self.discrete:
            log_p = _log_softmax(outputs)
            p = np.exp(log_p)
            chosen = np.zeros_like(p)
            chosen[np.arange(len(actions)), actions] = 1.0
            undecided = -(p * log_p).sum(axis=1, keepdims=True)
            slope = weight[:, None] * (chosen - p) + entropy * p * (log_p + undecided)
            return slope, self.log_std
        variance = np.exp(2 * self.log_std)
        away = actions - outputs
        of_spread = (weight[:, None] * (away**2 / variance - 1.0)).sum(axis=0)
        return weight[:, None] * away / variance, of_spread - entropy * len(outputs)


class Learner:
    """Learns by playing a world, one slice of work at a time. The same seed learns the same."""

    def __init__(self, world: World, seed: int, options: Options | None = None) -> None:
        """Begin an episode in each of the world's environments."""
        self.options = options or Options()
        self._world = world
        self._rng = np.random.default_rng(seed)
        self.policy = Policy(world, self._rng)
        self._critic = Network((world.observation_size, *HIDDEN, 1), self._rng, 1.0)
        self._adam = Adam([*self._parameters()])
        self.updates = 0
        self.steps = 0
        self.episodes = 0
        self.best_return = -np.inf
        self.returns: deque[float] = deque(maxlen=100)
        self._reward_scale = RunningScale(1)
        self._discounted: Array = np.zeros(world.count)
        self._earned: Array = np.zeros(world.count)
        self._ages: NDArray[np.int64] = np.zeros(world.count, np.int64)
        self._observations = world.reset()
        self._work = self._slices()

    @property
    def mean_return(self) -> float:
        """The mean over the last hundred episodes; 0 before the first has ended."""
        return sum(self.returns) / len(self.returns) if self.returns else 0.0

    def work(self) -> list[Ended]:
        """Do one slice, and return the episodes that ended in it."""
        return next(self._work)

    def _slices(self) -> Iterator[list[Ended]]:
        while True:
            rollout: list[_Moment] = []
            for _ in range(self.options.rollout_steps):
                moment, ended = self._play()
                rollout.append(moment)
                yield ended
            yield from self._learn(rollout)
            self.updates += 1

    def _play(self) -> tuple[_Moment, list[Ended]]:
        """Step all environments once."""
        seen = self._observations
        self.policy.scale.take(seen)
        inputs = self.policy.scale(seen)
        outputs = self.policy.actor(inputs)
        actions = self.policy.sample(outputs, self._rng)
        step = self._world.step(actions)
        over = step.terminated | step.truncated
        moment = _Moment(
            inputs,
            actions,
            self.policy.log_probability(outputs, actions),
            self._critic(inputs)[:, 0],
            self._scaled(step.rewards, over),
            over,
        )
        if step.truncated.any():
            # It would have gone on: what was still to come counts as expected.
            last = self._critic(self.policy.scale(step.last_observations))[:, 0]
            moment.rewards[step.truncated] += self.options.gamma * last[step.truncated]
        self._observations = step.observations
        self.steps += self._world.count
        return moment, self._count(step.rewards, over)

    def _scaled(self, rewards: Array, over: NDArray[np.bool_]) -> Array:
        """Return rewards in units of the spread of what they add up to."""
        self._discounted = self._discounted * self.options.gamma + rewards
        self._reward_scale.take(self._discounted[:, None])
        self._discounted[over] = 0.0
        scaled: Array = rewards / self._reward_scale.deviation[0]
        return scaled

    def _count(self, rewards: Array, over: NDArray[np.bool_]) -> list[Ended]:
        self._earned += rewards
        self._ages += 1
        ended = [Ended(float(self._earned[i]), int(self._ages[i])) for i in np.flatnonzero(over)]
        self._earned[over] = 0.0
        self._ages[over] = 0
        self.episodes += len(ended)
        for episode in ended:
            self.returns.append(episode.episode_return)
            self.best_return = max(self.best_return, episode.episode_return)
        return ended

    def _learn(self, rollout: list[_Moment]) -> Iterator[list[Ended]]:
        """Learn from a rollout, minibatch by minibatch."""
        advantages = self._advantages(rollout)
        values = np.concatenate([moment.values for moment in rollout])
        batch = (
            np.concatenate([moment.inputs for moment in rollout]),
            np.concatenate([moment.actions for moment in rollout]),
            np.concatenate([moment.log_probabilities for moment in rollout]),
            advantages,
            advantages + values,
        )
        for _ in range(self.options.epochs):
            order = self._rng.permutation(len(values))
            for rows in np.array_split(order, self.options.minibatches):
                self._improve(*(column[rows] for column in batch))
                yield []

    def _advantages(self, rollout: list[_Moment]) -> Array:
        """Work out how much better than expected each action was (GAE)."""
        after = self._critic(self.policy.scale(self._observations))[:, 0]
        advantage = np.zeros_like(after)
        found = []
        for moment in reversed(rollout):
            going_on = ~moment.over
            delta = moment.rewards + self.options.gamma * after * going_on - moment.values
            advantage = delta + self.options.gamma * self.options.gae_lambda * going_on * advantage
            found.append(advantage)
            after = moment.values
        return np.concatenate(found[::-1])

    def _improve(
        self, inputs: Array, actions: Array, before: Array, advantages: Array, targets: Array
    ) -> None:
        """Make one step towards actions that were better than expected, but no large one."""
        options, count = self.options, len(inputs)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        outputs = self.policy.actor(inputs, remember=True)
        ratio = np.exp(self.policy.log_probability(outputs, actions) - before)
        # Beyond the clip in its own direction, an action pulls no further.
        free = np.where(advantages > 0, ratio < 1 + options.clip, ratio > 1 - options.clip)
        weight = -advantages * ratio * free / count
        slope, of_spread = self.policy.gradients(outputs, actions, weight, options.entropy / count)
        values = self._critic(inputs, remember=True)[:, 0]
        gradients = [
            *self.policy.actor.backward(slope),
            *self._critic.backward(0.5 * (values - targets)[:, None] / count),
        ]
        if not self.policy.discrete:
            gradients.append(of_spread)
        self._adam.step(gradients, options.learning_rate, options.largest_gradient)

    def _parameters(self) -> Iterator[Array]:
        yield from self.policy.actor.parameters
        yield from self._critic.parameters
        if not self.policy.discrete:
            yield self.policy.log_std


@dataclass(frozen=True)
class Ended:
    """An episode that has ended."""

    episode_return: float
    length: int


@dataclass(frozen=True)
class _Moment:
    """One step of all environments, as learning needs it."""

    inputs: Array
    actions: Array
    log_probabilities: Array
    values: Array
    rewards: Array
    over: NDArray[np.bool_]


def _log_softmax(outputs: Array) -> Array:
    shifted = outputs - outputs.max(axis=1, keepdims=True)
    log_p: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return log_p
