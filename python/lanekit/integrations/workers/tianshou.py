"""The Tianshou worker: PPO on environments with discrete actions."""

from __future__ import annotations

import functools
from collections.abc import Mapping
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
    """What Tianshou's PPO can be told."""

    vector: Literal["sync", "subprocess"] = field(
        default="sync", metadata={"help": "environments in this process, or one process each"}
    )
    steps_per_collect: int = field(default=1000, metadata={"help": "steps before each update"})
    repeat: int = field(default=10, metadata={"help": "passes over the steps in each update"})
    batch_size: int = field(default=64, metadata={"help": "steps per gradient"})
    hidden_size: int = field(default=64, metadata={"help": "units of both hidden layers"})
    gamma: float = field(default=0.99, metadata={"help": "discount"})
    gae_lambda: float = field(default=0.95, metadata={"help": "of the advantage estimate"})
    ent_coef: float = field(default=0.0, metadata={"help": "weight of the policy's entropy"})


class Runtime(WorkerRuntime[Config]):
    """Trains with Tianshou."""

    def train(self) -> Mapping[str, Any]:
        """Train a PPO; Tianshou always ends a collection that it began."""
        import torch
        from tianshou.algorithm import PPO
        from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
        from tianshou.algorithm.optim import AdamOptimizerFactory
        from tianshou.data import Collector, VectorReplayBuffer
        from tianshou.env import DummyVectorEnv, SubprocVectorEnv
        from tianshou.trainer import OnPolicyTrainerParams
        from tianshou.utils.net.common import Net
        from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
        from torch.distributions import Categorical

        from lanekit.integrations.tianshou import controlled

        config = self.config
        torch.set_num_threads(config.threads)
        if config.seed is not None:
            torch.manual_seed(config.seed)
        makers = [functools.partial(config.make_env, slot) for slot in range(config.num_envs)]
        vector_class = {"sync": DummyVectorEnv, "subprocess": SubprocVectorEnv}[config.vector]
        envs = vector_class(makers)
        try:
            envs.seed(config.seed)
            observations, actions = envs.observation_space[0], envs.action_space[0]
            require_discrete_actions(config.env_id, actions)
            body = functools.partial(
                Net,
                state_shape=observations.shape,
                hidden_sizes=[config.hidden_size] * 2,
                activation=torch.nn.Tanh,
            )
            actor = DiscreteActor(
                preprocess_net=body(), action_shape=int(actions.n), softmax_output=False
            )
            algorithm = PPO(
                policy=ProbabilisticActorPolicy(
                    actor=actor,
                    dist_fn=lambda logits: Categorical(logits=logits),
                    action_space=actions,
                    action_scaling=False,
                ),
                critic=DiscreteCritic(preprocess_net=body()),
                optim=AdamOptimizerFactory(lr=config.learning_rate),
                gamma=config.gamma,
                gae_lambda=config.gae_lambda,
                ent_coef=config.ent_coef,
                max_grad_norm=0.5,
            )
            steps_per_collect = min(config.steps_per_collect, config.total_steps)
            buffer = VectorReplayBuffer(steps_per_collect + config.num_envs, config.num_envs)
            returns: list[float] = []
            params = OnPolicyTrainerParams(
                training_collector=Collector(algorithm.policy, envs, buffer),
                max_epochs=1,
                epoch_num_steps=config.total_steps,
                collection_step_num_env_steps=steps_per_collect,
                update_step_num_repetitions=config.repeat,
                batch_size=config.batch_size,
                logger=self._logger(returns),
                verbose=False,
                show_progress=False,
            )
            took: dict[str, Any] = {}
            with measured(took):
                info = algorithm.run_training(controlled(params, self.keep_going))
        finally:
            envs.close()
        return outcome(info.train_step, returns, took)

    def _logger(self, returns: list[float]) -> Any:
        """Return a logger that puts down the returns that Tianshou's collector reports."""
        from tianshou.utils import LazyLogger

        runtime = self

        class EpisodeLogger(LazyLogger):
            def log_training_data(self, log_data: dict[str, Any], step: int) -> None:
                returns.extend(map(float, log_data["returns"]))
                summary = outcome(step, returns[-100:], {})
                runtime.progress(step, mean_return=summary["mean_return"])

        return EpisodeLogger()


def get_worker_metadata() -> tuple[WorkerMetadata, WorkerCapabilities]:
    """Say what this worker is."""
    return describe(
        "tianshou",
        "tianshou",
        "Tianshou",
        "Config",
        action_spaces=("Discrete",),
        observation_spaces=("Box",),
    )


if __name__ == "__main__":
    raise SystemExit(worker_main(Runtime, Config))
