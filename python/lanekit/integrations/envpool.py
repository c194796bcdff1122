"""Watch an EnvPool: one line around it.

    from lanekit.integrations.envpool import watch_envpool

    envs = envpool.make_gymnasium("CartPole-v1", num_envs=8, render_mode="rgb_array")
    envs = watch_envpool(envs)

An EnvPool draws its environments itself, in the training process, and quickly: only those that are
shown, and only while somebody looks.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from gymnasium.vector import VectorEnv

from lanekit.fast import read_fastlane_environment
from lanekit.fast.environment import VideoMode
from lanekit.integrations.showing.publisher import FastLaneWarning, Telemetry
from lanekit.integrations.vector_env import FastLaneVectorWrapper
from lanekit.slow.emit import telemetry_of_this_run

Pool = VectorEnv[Any, Any, Any]


def watch_envpool(
    envs: Pool,
    run_id: str | None = None,
    *,
    telemetry: Telemetry | Literal["auto"] | None = "auto",
    **options: Any,
) -> Pool:
    """Wrap an EnvPool: pictures for whoever looks, steps and episodes for the slow lane.

    As :func:`lanekit.integrations.watch_env`: environment 0 is shown if no launcher asks for
    another, and the slow lane hears of every environment if a telemetry proxy started this run.
    Further options are those of :class:`FastLaneEnvPoolWrapper`.
    """
    wanted = read_fastlane_environment(os.environ)
    if telemetry == "auto":
        telemetry = telemetry_of_this_run()
    shown = wanted.video_mode
    if shown == "single" and wanted.fastlane_slot >= envs.num_envs:
        shown = "off"
    return FastLaneEnvPoolWrapper(
        envs,
        run_id,
        video_mode=shown,
        slot=wanted.fastlane_slot if shown == "single" else 0,
        grid_limit=wanted.grid_limit,
        telemetry=None if wanted.fastlane_only else telemetry,
        **options,
    )


class FastLaneEnvPoolWrapper(FastLaneVectorWrapper):
    """Publishes one environment of an EnvPool, or a grid of several.

    For pools of ``env_type="gymnasium"`` made with ``render_mode="rgb_array"``. The options are
    those of :class:`FastLaneVectorWrapper`. A pool that steps only some of its environments at a
    time (``batch_size``) shows one, because a grid would need all of them at rest.
    """

    def __init__(
        self,
        env: Pool,
        run_id: str | None = None,
        *,
        video_mode: VideoMode = "single",
        slot: int = 0,
        grid_limit: int = 4,
        **options: Any,
    ) -> None:
        config = getattr(env, "config", None)
        if not isinstance(config, dict) or "max_num_players" not in config:
            raise TypeError(
                f"{type(env).__name__} is no EnvPool; make it with envpool.make_gymnasium()"
            )
        if config["max_num_players"] > 1:
            raise ValueError("an EnvPool with several players in an environment can not be wrapped")
        if video_mode == "grid" and 0 < config["batch_size"] < config["num_envs"]:
            warnings.warn(
                f"lanekit shows environment {slot} alone: a grid needs an EnvPool that steps all "
                "environments at once, without batch_size",
                FastLaneWarning,
                stacklevel=2,
            )
            video_mode = "single"
        super().__init__(
            env, run_id, video_mode=video_mode, slot=slot, grid_limit=grid_limit, **options
        )
        self._shown = range(min(grid_limit, env.num_envs)) if video_mode == "grid" else [slot]

    @staticmethod
    def pictures_of(env: Pool, slots: Sequence[int]) -> list[Any]:
        """Have the pool draw some of its environments."""
        pool: Any = env
        return list(pool.render(env_ids=np.asarray(slots, np.int32)))

    def step(self, actions: Any, env_id: Any = None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step, and show the result if somebody watches."""
        self.send(actions, env_id)
        return self.recv()

    def send(self, actions: Any, env_id: Any = None) -> None:
        """Let environments step: those of `env_id`, or all."""
        pool: Any = self.env
        pool.send(actions, env_id)

    def recv(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Return what came of the next environments that are ready, and show it."""
        pool: Any = self.env
        result: tuple[Any, Any, Any, Any, dict[str, Any]] = pool.recv()
        _, rewards, terminated, truncated, info = result
        slots = info["env_id"]
        parts = rewards, terminated, truncated, info["elapsed_step"] > 0  # 0: it was reset
        spread = [np.zeros(self.num_envs, part.dtype) for part in parts]
        for whole, part in zip(spread, parts, strict=True):
            whole[slots] = part
        self.count(*spread)
        if np.isin(self._shown, slots).all():  # others may be stepping just now
            self.publisher.look()
        return result

    def async_reset(self) -> None:
        """Reset all, for :meth:`recv` to return."""
        pool: Any = self.env
        self.begin_episodes()
        pool.async_reset()
