"""The TorchRL worker: PPO on environments with discrete actions."""

from __future__ import annotations

import functools
import math
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
    """What a PPO of TorchRL's parts can be told."""

    vector: Literal["sync", "subprocess"] = field(
        default="sync", metadata={"help": "environments in this process, or one process each"}
    )
    frames_per_batch: int = field(default=1000, metadata={"help": "steps before each update"})
    epochs: int = field(default=10, metadata={"help": "passes over the steps in each update"})
    batch_size: int = field(default=64, metadata={"help": "steps per gradient"})
    hidden_size: int = field(default=64, metadata={"help": "units of both hidden layers"})
    gamma: float = field(default=0.99, metadata={"help": "discount"})
    gae_lambda: float = field(default=0.95, metadata={"help": "of the advantage estimate"})
    entropy_coeff: float = field(default=0.0, metadata={"help": "weight of the policy's entropy"})


class Runtime(WorkerRuntime[Config]):
    """Trains with TorchRL."""

    def train(self) -> Mapping[str, Any]:
        """Train a PPO: collect a batch, update on it, again and again."""
        import torch
        from torchrl.collectors import Collector
        from torchrl.envs import ParallelEnv, RewardSum, SerialEnv, TransformedEnv

        from lanekit.integrations.torchrl import slots, while_going

        config = self.config
        torch.set_num_threads(config.threads)
        if config.seed is not None:
            torch.manual_seed(config.seed)
        make_env = functools.partial(make_torchrl_env, config)
        vector_class = {"sync": SerialEnv, "subprocess": ParallelEnv}[config.vector]
        envs = vector_class(config.num_envs, make_env, create_env_kwargs=slots(config.num_envs))
        env = TransformedEnv(envs, RewardSum())
        took: dict[str, Any] = {}
        returns: list[float] = []
        steps = 0
        try:
            if config.seed is not None:
                env.set_seed(config.seed)
            actor, update = self._learner(env)
            per_env = math.ceil(min(config.frames_per_batch, config.total_steps) / config.num_envs)
            batches = math.ceil(config.total_steps / (per_env * config.num_envs))
            collector = Collector(
                env,
                actor,
                frames_per_batch=per_env * config.num_envs,
                total_frames=batches * per_env * config.num_envs,
                auto_register_policy_transforms=False,
            )
            with measured(took):
                for batch in while_going(collector, self.keep_going):
                    steps += batch.numel()
                    after = batch["next"]
                    returns += after["episode_reward"][after["done"]].tolist()
                    self.progress(
                        steps, mean_return=outcome(steps, returns[-100:], {})["mean_return"]
                    )
                    # With the last batch collected, TorchRL gives torch all cores of the machine.
                    torch.set_num_threads(config.threads)
                    update(batch)
            collector.shutdown()
        finally:
            if not env.is_closed:
                env.close()
        return outcome(steps, returns, took)

    def _learner(self, env: Any) -> tuple[Any, Any]:
        """Return an actor, and what improves it with a batch."""
        import torch
        from tensordict.nn import TensorDictModule
        from torchrl.data import (
            LazyTensorStorage,
            SamplerWithoutReplacement,
            TensorDictReplayBuffer,
        )
        from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
        from torchrl.objectives import ClipPPOLoss
        from torchrl.objectives.value import GAE

        config = self.config
        net = functools.partial(
            MLP,
            in_features=math.prod(env.observation_spec["observation"].shape[1:]),
            num_cells=[config.hidden_size] * 2,
            activation_class=torch.nn.Tanh,
        )
        actor = ProbabilisticActor(
            TensorDictModule(
                net(out_features=env.action_spec.space.n), ["observation"], ["logits"]
            ),
            in_keys=["logits"],
            distribution_class=torch.distributions.Categorical,
            return_log_prob=True,
        )
        critic = ValueOperator(net(out_features=1))
        advantage = GAE(gamma=config.gamma, lmbda=config.gae_lambda, value_network=critic)
        loss = ClipPPOLoss(
            actor,
            critic,
            entropy_coeff=config.entropy_coeff,
            critic_coeff=0.5,
            loss_critic_type="l2",
            normalize_advantage=True,
        )
        parameters = list(loss.parameters())
        optimizer = torch.optim.Adam(parameters, lr=config.learning_rate)

        def update(batch: Any) -> None:
            with torch.no_grad():
                advantage(batch)
            samples = TensorDictReplayBuffer(
                storage=LazyTensorStorage(batch.numel()),
                sampler=SamplerWithoutReplacement(),
                batch_size=min(config.batch_size, batch.numel()),
            )
            samples.extend(batch.reshape(-1))
            for _ in range(config.epochs):
                for sample in samples:
                    losses = loss(sample)
                    total = losses["loss_objective"] + losses["loss_critic"]
                    if config.entropy_coeff:
                        total = total + losses["loss_entropy"]
                    optimizer.zero_grad()
                    total.backward()
                    torch.nn.utils.clip_grad_norm_(parameters, 0.5)
                    optimizer.step()

        return actor, update


def make_torchrl_env(config: Config, slot: int = 0) -> Any:
    """Make one environment; also called in processes that TorchRL starts."""
    from torchrl.envs import GymWrapper

    env = config.make_env(slot)
    require_discrete_actions(config.env_id, env.action_space)
    return GymWrapper(env, categorical_action_encoding=True)


def get_worker_metadata() -> tuple[WorkerMetadata, WorkerCapabilities]:
    """Say what this worker is."""
    return describe(
        "torchrl",
        "torchrl",
        "TorchRL",
        "Config",
        action_spaces=("Discrete",),
        observation_spaces=("Box",),
    )


if __name__ == "__main__":
    raise SystemExit(worker_main(Runtime, Config))
