"""Watch and steer SBX, Stable-Baselines3's algorithms on JAX: the same two arguments as there.

    import sbx
    from lanekit.integrations.sbx import WatchCallback, WatchedEnv

    env = make_vec_env("CartPole-v1", n_envs=4, wrapper_class=WatchedEnv)
    sbx.PPO("MlpPolicy", env).learn(100_000, callback=WatchCallback())

SBX takes the environments and callbacks of Stable-Baselines3, so that they are those of
:mod:`lanekit.integrations.stable_baselines3`.
"""

from __future__ import annotations

from lanekit.integrations.stable_baselines3 import WatchCallback, WatchedEnv

__all__ = ["WatchCallback", "WatchedEnv"]
