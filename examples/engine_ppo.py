"""PPO in one file, numpy only: a hopper of `lanekit engine` learns to hop.

    python examples/engine_ppo.py                    # starts an engine of its own
    python examples/engine_ppo.py --attach hopper    # uses one that runs already

Watch it meanwhile from another terminal with `lanekit view engine-ppo`.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small, the engine is not
import numpy as np

from lanekit.engine import EngineClient

GAMMA, LAMBDA = 0.99, 0.95
CLIP, ENTROPY = 0.2, 0.001
EPOCHS, MINIBATCHES = 6, 8
HIDDEN = 64
RATE = 1e-3


class Network:
    """Two hidden layers of tanh, with its gradients written out and Adam's memory."""

    def __init__(self, sizes: list[int], last_scale: float, rng: np.random.Generator) -> None:
        """Begin with small random weights."""
        self.params: list[np.ndarray] = []
        for layer, (here, there) in enumerate(itertools.pairwise(sizes)):
            scale = last_scale if layer == len(sizes) - 2 else 1.0
            weights = rng.normal(size=(here, there)) * scale / np.sqrt(here)
            self.params += [weights.astype(np.float32), np.zeros(there, np.float32)]
        self.moments = [np.zeros_like(p) for p in self.params]
        self.squares = [np.zeros_like(p) for p in self.params]
        self.updates = 0

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the outputs, and what the gradients need."""
        kept = [x]
        for layer in range(0, len(self.params) - 2, 2):
            x = np.tanh(x @ self.params[layer] + self.params[layer + 1])
            kept.append(x)
        return x @ self.params[-2] + self.params[-1], kept

    def backward(self, kept: list[np.ndarray], slope: np.ndarray) -> list[np.ndarray]:
        """Return the gradient of each parameter, given that of the outputs."""
        gradients: list[np.ndarray] = []
        for layer in range(len(self.params) - 2, -1, -2):
            inputs = kept[layer // 2]
            gradients = [inputs.T @ slope, slope.sum(axis=0), *gradients]
            if layer:
                slope = (slope @ self.params[layer].T) * (1.0 - inputs**2)
        return gradients


def adam(
    params: list[np.ndarray],
    gradients: list[np.ndarray],
    memory: Network | Scale,
    rate: float,
    most: float = 0.5,
) -> None:
    """Change parameters in place; gradients longer than `most` are shortened."""
    length = np.sqrt(sum(float((g**2).sum()) for g in gradients))
    shorten = min(1.0, most / (length + 1e-8))
    memory.updates += 1
    for param, gradient, moment, square in zip(
        params, gradients, memory.moments, memory.squares, strict=True
    ):
        gradient = gradient * shorten
        moment += 0.1 * (gradient - moment)
        square += 0.001 * (gradient**2 - square)
        towards = moment / (1 - 0.9**memory.updates)
        param -= rate * towards / (np.sqrt(square / (1 - 0.999**memory.updates)) + 1e-8)


class Scale:
    """How far the actions scatter: the logarithm of a standard deviation for each."""

    def __init__(self, size: int) -> None:
        """Begin wide."""
        self.params = [np.full(size, -0.5, np.float32)]
        self.moments = [np.zeros(size, np.float32)]
        self.squares = [np.zeros(size, np.float32)]
        self.updates = 0


class Normalizer:
    """Mean and spread of everything observed so far."""

    def __init__(self, size: int) -> None:
        """Begin with nothing observed."""
        self.mean, self.square, self.count = np.zeros(size), np.ones(size), 1e-4

    def update(self, obs: np.ndarray) -> None:
        """Observe a batch."""
        mean, variance, count = obs.mean(axis=0), obs.var(axis=0), len(obs)
        total = self.count + count
        apart = mean - self.mean
        self.square = (
            self.square * self.count + variance * count + apart**2 * self.count * count / total
        ) / total
        self.mean += apart * count / total
        self.count = total

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Return observations around 0 and about 1 wide."""
        scaled = (obs - self.mean) / np.sqrt(self.square + 1e-8)
        return np.clip(scaled, -10, 10).astype(np.float32)


def log_probability(action: np.ndarray, mean: np.ndarray, log_std: np.ndarray) -> np.ndarray:
    """Return how likely a normal distribution brings these actions."""
    z = (action - mean) * np.exp(-log_std)
    return -0.5 * (z**2).sum(axis=1) - log_std.sum() - 0.919 * action.shape[1]


class Learner:
    """A policy, a critic, and how PPO changes them."""

    def __init__(self, obs_size: int, act_size: int, seed: int) -> None:
        """Make both of the same shape."""
        self.rng = np.random.default_rng(seed)
        self.policy = Network([obs_size, HIDDEN, HIDDEN, act_size], 0.01, self.rng)
        self.critic = Network([obs_size, HIDDEN, HIDDEN, 1], 1.0, self.rng)
        self.scale = Scale(act_size)
        self.normalizer = Normalizer(obs_size)

    def act(self, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return actions, and how likely they were."""
        mean, _ = self.policy.forward(obs)
        log_std = self.scale.params[0]
        noise = self.rng.standard_normal(mean.shape, dtype=np.float32)
        action = mean + noise * np.exp(log_std)
        return action, log_probability(action, mean, log_std)

    def value(self, obs: np.ndarray) -> np.ndarray:
        """Return what the critic expects."""
        return self.critic.forward(obs)[0][:, 0]

    def learn(self, batch: dict[str, np.ndarray], rate: float) -> None:
        """Make several passes over what was collected."""
        count = len(batch["obs"])
        for _ in range(EPOCHS):
            for part in np.array_split(self.rng.permutation(count), MINIBATCHES):
                self._improve({name: values[part] for name, values in batch.items()}, rate)

    def _improve(self, part: dict[str, np.ndarray], rate: float) -> None:
        count = len(part["obs"])
        log_std = self.scale.params[0]
        mean, kept = self.policy.forward(part["obs"])
        apart = part["actions"] - mean
        ratio = np.exp(log_probability(part["actions"], mean, log_std) - part["likely"])
        gain = part["advantages"]
        # Where the ratio has gone far enough already, nothing pulls it further.
        pulls = ~(((gain > 0) & (ratio > 1 + CLIP)) | ((gain < 0) & (ratio < 1 - CLIP)))
        slope = (-(gain * ratio * pulls) / count)[:, None]
        precision = np.exp(-2 * log_std)
        adam(
            self.policy.params,
            self.policy.backward(kept, slope * apart * precision),
            self.policy,
            rate,
        )
        spread = (slope * (apart**2 * precision - 1)).sum(axis=0) - ENTROPY
        adam(self.scale.params, [spread.astype(np.float32)], self.scale, rate)
        expected, kept = self.critic.forward(part["obs"])
        wrong = (expected[:, 0] - part["returns"]) / count
        adam(self.critic.params, self.critic.backward(kept, wrong[:, None]), self.critic, rate)


def collect(
    client: EngineClient, learner: Learner, horizon: int, finished: deque[float]
) -> dict[str, np.ndarray]:
    """Step the engine `horizon` times; returns what happened, with advantages."""
    lane, num_envs = client.lane, client.num_envs
    assert lane.final_obs is not None
    shape = (horizon, num_envs)
    obs = np.empty((*shape, client.config.obs_size), np.float32)
    actions = np.empty((*shape, client.config.act_size), np.float32)
    likely, rewards, values = (np.empty(shape, np.float32) for _ in range(3))
    ended = np.empty(shape, bool)
    for t in range(horizon):
        learner.normalizer.update(lane.obs)
        obs[t] = learner.normalizer(lane.obs)
        actions[t], likely[t] = learner.act(obs[t])
        values[t] = learner.value(obs[t])
        result = client.step(np.clip(actions[t], -1.0, 1.0))
        rewards[t] = result.rewards
        over = result.dones | result.truncateds
        ended[t] = over
        if result.truncateds.any():  # cut off, not failed: what would have come counts
            cut = np.flatnonzero(result.truncateds)
            rewards[t, cut] += GAMMA * learner.value(learner.normalizer(lane.final_obs[cut]))
        finished.extend(lane.infos["episode_return"][over].tolist())
    after = learner.value(learner.normalizer(lane.obs))
    advantages, running = np.empty(shape, np.float32), np.zeros(num_envs, np.float32)
    for t in reversed(range(horizon)):
        goes_on = ~ended[t]
        surprise = rewards[t] + GAMMA * after * goes_on - values[t]
        running = surprise + GAMMA * LAMBDA * goes_on * running
        advantages[t], after = running, values[t]
    batch = {"obs": obs, "actions": actions, "likely": likely, "returns": advantages + values}
    batch["advantages"] = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    return {name: field.reshape(-1, *field.shape[2:]) for name, field in batch.items()}


@contextlib.contextmanager
def engine(arguments: argparse.Namespace) -> Iterator[str]:
    """Name an engine that runs, or run one for as long as it is needed."""
    if arguments.attach:
        yield arguments.attach
        return
    name = "engine-ppo"
    command = [sys.executable, "-m", "lanekit", "engine", "--name", name, "--view"]
    command += ["--model", arguments.model, "--num-envs", str(arguments.num_envs)]
    with subprocess.Popen([*command, "--seed", str(arguments.seed)]) as process:
        try:
            yield name
        finally:
            process.terminate()


def main() -> None:
    """Train, and tell how it goes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attach", metavar="LANE", help="an engine that runs already")
    parser.add_argument("--model", default="hopper")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--horizon", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1_000_000, help="of all environments together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, help="write the curve there, as CSV")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the engine ends with us
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(engine(arguments))
        client = stack.enter_context(EngineClient(name, timeout=60))
        learner = Learner(client.config.obs_size, client.config.act_size, arguments.seed)
        rows: list[tuple[object, ...]] = [("steps", "seconds", "mean_return")]
        finished: deque[float] = deque(maxlen=100)
        client.reset(seed=arguments.seed)
        begun, steps = time.monotonic(), 0
        per_round = client.num_envs * arguments.horizon
        rounds = -(-arguments.steps // per_round)
        for number in range(rounds):
            batch = collect(client, learner, arguments.horizon, finished)
            learner.learn(batch, RATE * (1.0 - number / rounds))
            steps += per_round
            seconds = time.monotonic() - begun
            mean = float(np.mean(finished)) if finished else 0.0
            rows.append((steps, round(seconds, 2), round(mean, 2)))
            if number % 20 == 0 or number == rounds - 1:
                print(f"{steps:>9,} steps  {seconds:6.0f} s  mean return {mean:7.1f}", flush=True)
        if arguments.log:
            with arguments.log.open("w", newline="") as file:
                csv.writer(file).writerows(rows)


if __name__ == "__main__":
    main()
