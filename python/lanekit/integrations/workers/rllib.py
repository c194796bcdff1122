"""The worker for RLlib: PPO or DQN on its new API stack, with a Ray of the worker's own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from lanekit.integrations.workers.training import TrainingConfig, describe, measured, outcome
from lanekit.worker import WorkerCapabilities, WorkerMetadata, WorkerRuntime, worker_main

RETURNS = "lanekit_episode_returns"
"""The metric that has the return of each episode."""


@dataclass(kw_only=True)
class Config(TrainingConfig):
    """The options of this worker."""

    algorithm: Literal["DQN", "PPO"] = field(default="PPO", metadata={"help": "which algorithm"})
    num_env_runners: int = field(
        default=0, metadata={"help": "processes that step the environments; 0: this one does"}
    )
    rollout_steps: int = field(
        default=1024, metadata={"help": "of all environments, until it can be paused or stopped"}
    )
    hyperparameters: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "what else training() takes, by its own names"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_env_runners < 0:
            raise ValueError(f"num_env_runners is at least 0, not {self.num_env_runners}")
        if self.num_envs % self.env_processes != 0:
            raise ValueError(
                f"num_envs is {self.num_envs}, which {self.num_env_runners} env runners can not "
                "share evenly"
            )

    @property
    def env_processes(self) -> int:
        """How many processes step environments."""
        return max(1, self.num_env_runners)


class Runtime(WorkerRuntime[Config]):
    """Trains with RLlib."""

    def train(self) -> dict[str, Any]:
        """Train, and return what it came to."""
        import torch

        torch.set_num_threads(self.config.threads)
        steps, returns = 0, []
        took: dict[str, float] = {}
        with ray_of_our_own(self.config.num_env_runners + 1):
            algorithm = algorithm_config(self.config).build_algo()
            try:
                with measured(took):
                    while steps < self.config.total_steps and self.keep_going():
                        result = algorithm.train()
                        steps = int(result["num_env_steps_sampled_lifetime"])
                        returns += returns_in(result)
                        self.progress(steps)
            finally:
                algorithm.stop()
                with suppress(OSError):
                    os.rmdir(algorithm.logdir)  # made for every run, and left empty
        return outcome(steps, returns, took)


def returns_in(result: dict[str, Any]) -> list[float]:
    """Return the returns of the episodes that ended in an iteration.

    RLlib has a list of them, but a bare number if it was one, and nothing before the first.
    """
    found = result["env_runners"].get(RETURNS, [])
    return [float(one) for one in np.atleast_1d(found)]


@contextmanager
def ray_of_our_own(cpus: int) -> Iterator[None]:
    """Start Ray, and end it; runners must not wait for cores that others of them have."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    before = signal.getsignal(signal.SIGTERM)
    ray.init(address="local", num_cpus=cpus, include_dashboard=False)
    signal.signal(signal.SIGTERM, before)  # Ray takes it, and would exit in the midst of things
    try:
        yield
    finally:
        ray.shutdown()


def algorithm_config(config: Config) -> Any:
    """Return RLlib's configuration of the training."""
    import gymnasium
    from ray.tune.registry import get_trainable_cls, register_env

    from lanekit.integrations.rllib import watched

    def make(context: dict[str, Any]) -> gymnasium.Env[Any, Any]:
        return config.make_bare_env()

    register_env("watched", watched(make, watch=config.watch))
    options: dict[str, Any] = {"lr": config.learning_rate}
    if config.algorithm == "PPO":
        options["train_batch_size_per_learner"] = config.rollout_steps
    chosen = get_trainable_cls(config.algorithm).get_default_config()
    return (
        chosen.environment("watched")
        .env_runners(
            num_env_runners=config.num_env_runners,
            num_envs_per_env_runner=config.num_envs // config.env_processes,
        )
        .training(**{**options, **config.hyperparameters})
        .reporting(min_sample_timesteps_per_iteration=config.rollout_steps)
        .callbacks(on_episode_end=keep_return)
        .debugging(seed=config.seed)
    )


def keep_return(
    *, episode: Any, prev_episode_chunks: Sequence[Any], metrics_logger: Any, **others: Any
) -> None:
    """Add an episode's return to the metrics: those that RLlib keeps itself are means."""
    parts = [*prev_episode_chunks, episode]
    metrics_logger.log_value(
        RETURNS, sum(part.get_return() for part in parts), reduce="item_series"
    )


def get_worker_metadata() -> tuple[WorkerMetadata, WorkerCapabilities]:
    """Return what this worker is, and what it can do."""
    return describe(
        "rllib",
        "ray",
        "RLlib",
        "Config",
        action_spaces=("Box", "Discrete"),
        observation_spaces=("Box", "Discrete"),
    )


if __name__ == "__main__":
    raise SystemExit(worker_main(Runtime, Config))
