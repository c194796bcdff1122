"""The XuanCe worker: PPO on environments with discrete actions."""

from __future__ import annotations

import math
import os
import random
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from lanekit.integrations.workers.training import (
    TrainingConfig,
    describe,
    measured,
    outcome,
    require_discrete_actions,
)
from lanekit.worker import WorkerCapabilities, WorkerMetadata, WorkerRuntime, worker_main


@dataclass(kw_only=True)
class Config(TrainingConfig):
    """What XuanCe's PPO can be told."""

    vector: Literal["sync", "subprocess"] = field(
        default="sync", metadata={"help": "environments in this process, or one process each"}
    )
    horizon_size: int = field(
        default=256, metadata={"help": "steps of each environment before each update"}
    )
    n_epochs: int = field(default=8, metadata={"help": "passes over the steps in each update"})
    n_minibatch: int = field(default=8, metadata={"help": "parts of each pass"})
    hidden_size: int = field(default=128, metadata={"help": "units of each hidden layer"})
    gamma: float = field(default=0.98, metadata={"help": "discount"})
    gae_lambda: float = field(default=0.95, metadata={"help": "of the advantage estimate"})
    ent_coef: float = field(default=0.01, metadata={"help": "weight of the policy's entropy"})
    log_dir: str = field(
        default="", metadata={"help": "where XuanCe's TensorBoard files go; empty: nowhere"}
    )


SAME_NAMES = (
    "learning_rate",
    "horizon_size",
    "n_epochs",
    "n_minibatch",
    "gamma",
    "gae_lambda",
    "ent_coef",
)
"""The options that XuanCe has, too."""


class Runtime(WorkerRuntime[Config]):
    """Trains with XuanCe."""

    def train(self) -> Mapping[str, Any]:
        """Train a PPO."""
        # XuanCe always shows a progress bar, which nobody sees here; heartbeats tell the progress.
        os.environ.setdefault("TQDM_DISABLE", "1")
        import torch
        from xuance.environment import make_envs
        from xuance.torch.agents import PPO_Agent

        from lanekit.integrations.xuance import TrainingStopped, watch

        config = self.config
        torch.set_num_threads(config.threads)
        took: dict[str, Any] = {}
        returns: list[float] = []
        with tempfile.TemporaryDirectory(prefix="lanekit-xuance-") as scratch:
            options = self._options(config.log_dir or scratch)
            watch(options, watch=config.watch)
            with closing(make_envs(options)) as envs:
                require_discrete_actions(config.env_id, envs.action_space)
                agent = PPO_Agent(options, envs, callback=self._callback(returns))
                with measured(took), suppress(TrainingStopped):
                    agent.train(math.ceil(config.total_steps / config.num_envs))
                agent.finish()
        return outcome(agent.current_step, returns, took)

    def _callback(self, returns: list[float]) -> Any:
        """Return a callback that steers, and puts down the scores that XuanCe reports."""
        from lanekit.integrations.xuance import SteeringCallback

        runtime = self

        class EpisodeCallback(SteeringCallback):
            def on_train_episode_info(self, **details: Any) -> None:
                returns.append(float(details["infos"][details["env_id"]]["episode_score"]))
                summary = outcome(0, returns[-100:], {})
                runtime.progress(details["current_step"], mean_return=summary["mean_return"])

        return EpisodeCallback(self.keep_going)

    def _options(self, log_dir: str) -> Namespace:
        """Return XuanCe's own configuration for CartPole, changed by this worker's."""
        from xuance import get_arguments

        config = self.config
        seed = random.randrange(2**31) if config.seed is None else config.seed
        with closing(config.make_bare_env()) as tried:  # XuanCe makes them itself
            render_mode = tried.render_mode
        own = Namespace(
            env_id=config.env_id,  # by "Classic Control" XuanCe makes any that Gymnasium knows
            env_seed=seed,
            seed=seed,
            vectorize={"sync": "DummyVecEnv", "subprocess": "SubprocVecEnv"}[config.vector],
            parallels=config.num_envs,
            running_steps=config.total_steps,
            render_mode=render_mode,
            representation_hidden_size=[config.hidden_size],
            actor_hidden_size=[config.hidden_size],
            critic_hidden_size=[config.hidden_size],
            log_dir=log_dir,
            model_dir=log_dir,
        )
        for name in SAME_NAMES:
            setattr(own, name, getattr(config, name))
        options: Namespace = get_arguments("ppo", "classic_control", "CartPole-v1", parser_args=own)
        return options


def get_worker_metadata() -> tuple[WorkerMetadata, WorkerCapabilities]:
    """Say what this worker is."""
    return describe(
        "xuance",
        "xuance",
        "XuanCe",
        "Config",
        action_spaces=("Discrete",),
        observation_spaces=("Box",),
    )


if __name__ == "__main__":
    raise SystemExit(worker_main(Runtime, Config))
