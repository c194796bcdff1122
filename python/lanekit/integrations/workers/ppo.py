"""PPO in one file, after the manner of CleanRL: read it from top to bottom, change what you like.

It trains any Gymnasium vector environment with flat observations and discrete actions that resets
an environment in the step that ended its episode (``AutoresetMode.SAME_STEP``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from gymnasium.vector import VectorEnv
from torch import nn
from torch.distributions import Categorical

Tensor = Any  # torch.Tensor; torch is not there when types are checked


class Options(Protocol):
    """What PPO is told."""

    seed: int | None
    total_steps: int
    learning_rate: float
    rollout_steps: int
    minibatches: int
    epochs: int
    gamma: float
    gae_lambda: float
    clip: float
    entropy: float
    value_weight: float
    largest_gradient: float


class Agent(nn.Module):
    """Two small networks: one chooses actions, one judges states."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.actor = network(inputs, actions, last_gain=0.01)
        self.critic = network(inputs, 1, last_gain=1.0)

    def choice(self, observation: Tensor) -> Any:
        """Return the distribution that actions are drawn from."""
        return Categorical(logits=self.actor(observation), validate_args=False)

    def value(self, observation: Tensor) -> Tensor:
        """Return what is expected from here on."""
        return self.critic(observation).squeeze(-1)


def network(inputs: int, outputs: int, last_gain: float) -> Any:
    """Return two layers of 64, with the starting weights that suit PPO."""
    sizes = [inputs, 64, 64, outputs]
    layers: list[Any] = []
    for index, (size, size_after) in enumerate(itertools.pairwise(sizes)):
        last = index == len(sizes) - 2
        layer = nn.Linear(size, size_after)
        nn.init.orthogonal_(layer.weight, last_gain if last else 2**0.5)
        nn.init.zeros_(layer.bias)
        layers += [layer] if last else [layer, nn.Tanh()]
    return nn.Sequential(*layers)


def learn(
    envs: VectorEnv[Any, Any, Any],
    options: Options,
    keep_going: Callable[[], bool],
    progress: Callable[[int], None],
) -> tuple[int, list[float]]:
    """Train until enough steps are taken; return their number and the episodes' returns.

    Ends with a whole rollout, or when `keep_going`, which is asked before each step, says so.
    """
    if options.seed is not None:
        torch.manual_seed(options.seed)
    shape = envs.observation_space.shape
    assert shape is not None
    agent = Agent(shape[1], int(envs.single_action_space.n))  # type: ignore[attr-defined]
    optimizer = torch.optim.Adam(agent.parameters(), lr=options.learning_rate, eps=1e-5)

    rollout = Rollout(options.rollout_steps, *shape)
    episode_returns: list[float] = []
    steps = 0
    observation = torch.from_numpy(envs.reset(seed=options.seed)[0])
    while steps < options.total_steps:
        optimizer.param_groups[0]["lr"] = options.learning_rate * (1 - steps / options.total_steps)
        for t in range(options.rollout_steps):
            if not keep_going():
                return steps, episode_returns
            with torch.no_grad():
                choice = agent.choice(observation)
                action = choice.sample()
                rollout.observations[t] = observation
                rollout.actions[t] = action
                rollout.log_probs[t] = choice.log_prob(action)
                rollout.values[t] = agent.value(observation)
            result, reward, terminated, truncated, infos = envs.step(action.numpy())
            observation = torch.from_numpy(result)
            steps += envs.num_envs
            if truncated.any():  # cut short, not over: what would have come counts
                reward = reward + options.gamma * values_after_the_cut(agent, truncated, infos)
            rollout.rewards[t] = torch.from_numpy(np.asarray(reward, np.float32))
            rollout.over[t] = torch.from_numpy(np.asarray(terminated | truncated, np.float32))
            if "final_info" in infos:  # as RecordEpisodeStatistics reports it
                ended = infos["final_info"]["_episode"]
                episode_returns += infos["final_info"]["episode"]["r"][ended].tolist()
        with torch.no_grad():
            rollout.judge(agent.value(observation), options.gamma, options.gae_lambda)
        for batch in rollout.batches(options.epochs, options.minibatches):
            update(agent, optimizer, batch, options)
        progress(steps)
    return steps, episode_returns


def values_after_the_cut(
    agent: Agent, truncated: npt.NDArray[np.bool_], infos: dict[str, Any]
) -> npt.NDArray[np.float32]:
    """Return for each environment what was still expected where its episode was cut short."""
    values = np.zeros(len(truncated), np.float32)
    last = np.stack(list(infos["final_obs"][truncated]))
    with torch.no_grad():
        values[truncated] = agent.value(torch.from_numpy(last)).numpy()
    return values


class Rollout:
    """What happened in the last steps of all environments."""

    def __init__(self, steps: int, num_envs: int, inputs: int) -> None:
        self.observations = torch.zeros(steps, num_envs, inputs)
        self.actions = torch.zeros(steps, num_envs, dtype=torch.int64)
        self.log_probs = torch.zeros(steps, num_envs)
        self.values = torch.zeros(steps, num_envs)
        self.rewards = torch.zeros(steps, num_envs)
        self.over = torch.zeros(steps, num_envs)
        self.advantages = torch.zeros(steps, num_envs)

    def judge(self, value_after: Tensor, gamma: float, gae_lambda: float) -> None:
        """Work out how much better than expected each action was (GAE)."""
        advantage = torch.zeros_like(value_after)
        for t in reversed(range(len(self.rewards))):
            going_on = 1.0 - self.over[t]
            delta = self.rewards[t] + gamma * going_on * value_after - self.values[t]
            advantage = delta + gamma * gae_lambda * going_on * advantage
            self.advantages[t] = advantage
            value_after = self.values[t]

    def batches(self, epochs: int, minibatches: int) -> Iterator[tuple[Tensor, ...]]:
        """Give everything so many times, in pieces, in a different order each time."""
        columns = (
            self.observations.flatten(0, 1),
            self.actions.flatten(),
            self.log_probs.flatten(),
            self.advantages.flatten(),
            (self.advantages + self.values).flatten(),
        )
        for _ in range(epochs):
            for indices in torch.randperm(self.rewards.numel()).chunk(minibatches):
                yield tuple(column[indices] for column in columns)


def update(agent: Agent, optimizer: Any, batch: tuple[Tensor, ...], options: Options) -> None:
    """Make one step towards actions that were better than expected, but no large one."""
    observations, actions, log_probs, advantages, targets = batch
    choice = agent.choice(observations)
    ratio = (choice.log_prob(actions) - log_probs).exp()
    if len(advantages) > 1:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
    policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean()
    value_loss = 0.5 * (agent.value(observations) - targets).square().mean()
    loss = (
        policy_loss - options.entropy * choice.entropy().mean() + options.value_weight * value_loss
    )
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), options.largest_gradient)
    optimizer.step()
