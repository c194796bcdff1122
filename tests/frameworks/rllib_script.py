"""A script of a user's own: two env runners with two environments each, and an evaluation."""

from __future__ import annotations

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

from lanekit.integrations.rllib import WatchCallback, watched
from lanekit.integrations.workers.rllib import RETURNS, keep_return
from lanekit.slow import emit


def main() -> None:
    ray.init(address="local", num_cpus=4, include_dashboard=False)
    register_env("watched", watched("CartPole-v1"))
    config = (
        PPOConfig()
        .environment("watched")
        .callbacks(WatchCallback, on_episode_end=keep_return)
        .env_runners(num_env_runners=2, num_envs_per_env_runner=2)
        .training(train_batch_size_per_learner=256, minibatch_size=128, num_epochs=1)
        .evaluation(evaluation_interval=1, evaluation_num_env_runners=0, evaluation_duration=1)
    )
    algorithm = config.build_algo()
    returns: list[float] = []
    evaluated = 0
    result = {"done": False}
    while not result["done"]:
        result = algorithm.train()
        returns += result["env_runners"].get(RETURNS, [])
        evaluated += len(result["evaluation"]["env_runners"].get(RETURNS, []))
    algorithm.stop()
    ray.shutdown()
    emit.run_completed(
        status="stopped",
        steps=int(result["num_env_steps_sampled_lifetime"]),
        episodes=len(returns),
        episode_returns=returns,
        evaluated=evaluated,
    )


if __name__ == "__main__":
    main()
