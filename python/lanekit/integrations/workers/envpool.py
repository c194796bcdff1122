"""The worker for EnvPool: its environments, and the PPO that the worker "cleanrl" has, too."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lanekit.integrations.workers.cleanrl import PPOConfig
from lanekit.integrations.workers.training import (
    describe,
    measured,
    outcome,
    require_discrete_actions,
)
from lanekit.worker import WorkerCapabilities, WorkerMetadata, WorkerRuntime, worker_main

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv


@dataclass(kw_only=True)
class Config(PPOConfig):
    """The options of this worker."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rendering == "shadow":
            raise ValueError(
                "EnvPool draws in the training process: rendering is 'auto' or 'in-process'"
            )


class Runtime(WorkerRuntime[Config]):
    """Trains on EnvPool's environments with a PPO in the style of CleanRL."""

    def train(self) -> dict[str, Any]:
        """Train, and return what it came to."""
        import torch

        from lanekit.integrations.steering import Steering
        from lanekit.integrations.workers.ppo import learn

        torch.set_num_threads(self.config.threads)
        took: dict[str, float] = {}
        with closing(make_envs(self.config)) as envs, measured(took):
            steps, returns = learn(
                envs, self.config, Steering(self.keep_going).keep_going, self.progress
            )
        return outcome(steps, returns, took)


def make_envs(config: Config) -> VectorEnv[Any, Any, Any]:
    """Make the pool, watched as the configuration says, and as PPO wants it."""
    import envpool
    from gymnasium.wrappers.vector import RecordEpisodeStatistics

    from lanekit.integrations.envpool import FastLaneEnvPoolWrapper, watch_envpool
    from lanekit.integrations.workers.same_step import ResetInTheSameStep

    if config.env_id not in envpool.list_all_envs():
        raise ValueError(f"EnvPool has no {config.env_id!r}: see envpool.list_all_envs()")
    envs = envpool.make_gymnasium(
        config.env_id,
        num_envs=config.num_envs,
        num_threads=config.threads,
        seed=random.getrandbits(31) if config.seed is None else config.seed,
        render_mode=None if config.frames == "off" else "rgb_array",
    )
    require_discrete_actions(config.env_id, envs.single_action_space)
    heard = config.heard_by()
    if config.frames == "off":
        watched: Any = FastLaneEnvPoolWrapper(
            envs, config.run_id, video_mode="off", telemetry=heard
        )
    else:
        watched = watch_envpool(
            envs,
            config.run_id,
            telemetry=heard,
            max_hz=config.max_hz,
            every_step=config.frames == "every_step",
        )
    return ResetInTheSameStep(RecordEpisodeStatistics(watched))


def get_worker_metadata() -> tuple[WorkerMetadata, WorkerCapabilities]:
    """Return what this worker is, and what it can do."""
    return describe(
        "envpool",
        "envpool",
        "EnvPool",
        "Config",
        env_families=("envpool",),
        action_spaces=("Discrete",),
        observation_spaces=("Box",),
    )


if __name__ == "__main__":
    raise SystemExit(worker_main(Runtime, Config))
