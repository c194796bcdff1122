"""The worker for training in the style of CleanRL: a PPO of one file (``ppo.py``), on torch."""

from __future__ import annotations

import functools
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lanekit.integrations.workers.training import (
    TrainingConfig,
    describe,
    measured,
    outcome,
    require_discrete_actions,
)
from lanekit.worker import WorkerCapabilities, WorkerMetadata, WorkerRuntime, worker_main

if TYPE_CHECKING:
    import gymnasium


@dataclass(kw_only=True)
class PPOConfig(TrainingConfig):
    """The options of all that trains with this PPO."""

    rollout_steps: int = field(default=128, metadata={"help": "of each environment, per update"})
    minibatches: int = field(default=4, metadata={"help": "pieces that a rollout is learned in"})
    epochs: int = field(default=4, metadata={"help": "times that a rollout is learned"})
    gamma: float = field(default=0.99, metadata={"help": "worth of the next step's reward"})
    gae_lambda: float = field(default=0.95, metadata={"help": "how far advantages look ahead"})
    clip: float = field(default=0.2, metadata={"help": "largest change of a probability"})
    entropy: float = field(default=0.01, metadata={"help": "weight of trying things out"})
    value_weight: float = field(default=0.5, metadata={"help": "weight of judging states"})
    largest_gradient: float = field(default=0.5, metadata={"help": "norm gradients are cut to"})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rollout_steps", "minibatches", "epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is at least 1, not {getattr(self, name)}")


@dataclass(kw_only=True)
class Config(PPOConfig):
    """The options of this worker."""

    vector: Literal["sync", "subprocess"] = field(
        default="sync", metadata={"help": "environments in this process, or one process each"}
    )


class Runtime(WorkerRuntime[Config]):
    """Trains with a PPO in the style of CleanRL."""

    def train(self) -> dict[str, Any]:
        """Train, and return what it came to."""
        import torch
        from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

        from lanekit.integrations.steering import Steering
        from lanekit.integrations.workers.ppo import learn

        config = self.config
        torch.set_num_threads(config.threads)
        make = AsyncVectorEnv if config.vector == "subprocess" else SyncVectorEnv
        thunks = [functools.partial(make_env, config, idx) for idx in range(config.num_envs)]
        took: dict[str, float] = {}
        with closing(make(thunks, autoreset_mode=AutoresetMode.SAME_STEP)) as envs:
            require_discrete_actions(config.env_id, envs.single_action_space)
            with measured(took):
                steps, returns = learn(
                    envs, config, Steering(self.keep_going).keep_going, self.progress
                )
        return outcome(steps, returns, took)


def make_env(config: Config, idx: int) -> gymnasium.Env[Any, Any]:
    """Make one environment as CleanRL's scripts do."""
    from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics

    counted = RecordEpisodeStatistics(config.make_bare_env())
    return FlattenObservation(config.watch(counted, idx))


def get_worker_metadata() -> tuple[WorkerMetadata, WorkerCapabilities]:
    """Return what this worker is, and what it can do."""
    return describe(
        "cleanrl",
        "torch",
        "CleanRL-style PPO",
        "Config",
        action_spaces=("Discrete",),
        observation_spaces=("Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete", "Tuple"),
    )


if __name__ == "__main__":
    raise SystemExit(worker_main(Runtime, Config))
