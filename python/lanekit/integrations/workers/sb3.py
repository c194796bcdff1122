"""The worker for Stable-Baselines3: any of its algorithms, with the options it has there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal

from lanekit.integrations.workers.training import TrainingConfig, describe, measured, outcome
from lanekit.worker import WorkerCapabilities, WorkerMetadata, WorkerRuntime, worker_main


@dataclass(kw_only=True)
class VecEnvConfig(TrainingConfig):
    """The options of all that trains on Stable-Baselines3's vector environments."""

    policy: str = field(default="MlpPolicy", metadata={"help": "which kind of network"})
    vector: Literal["sync", "subprocess"] = field(
        default="sync", metadata={"help": "environments in this process, or one process each"}
    )
    hyperparameters: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "what else the algorithm takes, by its own names"}
    )


@dataclass(kw_only=True)
class Config(VecEnvConfig):
    """The options of this worker."""

    algorithm: Literal["A2C", "DDPG", "DQN", "PPO", "SAC", "TD3"] = field(
        default="PPO", metadata={"help": "which algorithm"}
    )
    device: str = field(default="cpu", metadata={"help": "where the network is: cpu, cuda, auto"})


class Runtime(WorkerRuntime[Config]):
    """Trains with Stable-Baselines3."""

    def train(self) -> dict[str, Any]:
        """Train, and return what it came to."""
        import stable_baselines3
        import torch

        torch.set_num_threads(self.config.threads)
        algorithm = getattr(stable_baselines3, self.config.algorithm)
        return learn(self, self.config, algorithm, device=self.config.device)


def learn(
    runtime: WorkerRuntime[Any], config: VecEnvConfig, algorithm: Any, **options: Any
) -> dict[str, Any]:
    """Train with an algorithm of Stable-Baselines3, or with one that is like them."""
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    from lanekit.integrations.stable_baselines3 import WatchCallback, WatchedEnv

    envs = make_vec_env(
        config.make_bare_env,
        n_envs=config.num_envs,
        seed=config.seed,
        wrapper_class=WatchedEnv if config.is_watched else None,
        wrapper_kwargs={"watch": config.watch} if config.is_watched else None,
        vec_env_cls=SubprocVecEnv if config.vector == "subprocess" else DummyVecEnv,
    )
    took: dict[str, float] = {}
    with closing(envs):
        model = algorithm(
            config.policy,
            envs,
            learning_rate=config.learning_rate,
            seed=config.seed,
            **options,
            **config.hyperparameters,
        )
        with measured(took):
            model.learn(
                config.total_steps, callback=WatchCallback(runtime.keep_going, runtime.progress)
            )
        return outcome(model.num_timesteps, returns_of(envs), took)


def returns_of(envs: Any) -> Sequence[float]:
    """Return the returns that the environments' Monitors have, in the order of their ends."""
    returns: list[list[float]] = envs.env_method("get_episode_rewards")
    times: list[list[float]] = envs.env_method("get_episode_times")
    ends = [
        (time, episode_return)
        for of_one in zip(times, returns, strict=True)
        for time, episode_return in zip(*of_one, strict=True)
    ]
    return [episode_return for _, episode_return in sorted(ends)]


def get_worker_metadata() -> tuple[WorkerMetadata, WorkerCapabilities]:
    """Return what this worker is, and what it can do."""
    return describe(
        "sb3",
        "stable-baselines3",
        "Stable-Baselines3",
        "Config",
        action_spaces=("Box", "Discrete", "MultiBinary", "MultiDiscrete"),
        observation_spaces=("Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete"),
    )


if __name__ == "__main__":
    raise SystemExit(worker_main(Runtime, Config))
