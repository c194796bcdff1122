"""Watch a XuanCe training, and let it be paused and stopped; one line each.

    config = xuance.get_arguments("ppo", "classic_control", "CartPole-v1")
    watch(config, "my-run")
    agent = PPO_Agent(config, make_envs(config), callback=SteeringCallback())
    with suppress(TrainingStopped):
        agent.train(10_000)

XuanCe makes environments through ``REGISTRY_ENV``; ``watch`` registers there what makes the same
ones, watched. XuanCe counts their seeds up, so the distance to the first seed is the slot.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium

from lanekit.integrations.launch import watch_env
from lanekit.integrations.steering import Steering

try:
    from xuance.common import BaseCallback
    from xuance.environment import REGISTRY_ENV
except ModuleNotFoundError as error:
    if error.name != "xuance":
        raise
    raise ModuleNotFoundError(
        f"{__name__} needs XuanCe: pip install 'lanekit[xuance]'", name=error.name
    ) from None

Env = gymnasium.Env[Any, Any]


def watch(
    config: Any,
    run_id: str | None = None,
    *,
    watch: Callable[..., Env] = watch_env,
    **options: Any,
) -> None:
    """Have the environments watched that ``make_envs(config)`` is going to make.

    Those made from a copy of the configuration are not watched: XuanCe's runners test on such ones.
    A configuration without ``render_mode``, which XuanCe takes for "human", gets "rgb_array". The
    options are those of :func:`lanekit.integrations.watch_env`, which `watch` replaces.
    """
    entry = REGISTRY_ENV.get(config.env_name)
    if not isinstance(entry, RegisteredEnv):
        if not (isinstance(entry, type) and issubclass(entry, gymnasium.Wrapper)):
            raise ValueError(
                f"XuanCe's environment {config.env_name!r} is {entry!r}, not a Gymnasium wrapper, "
                "and can not be watched from here; use lanekit.integrations.watch_env within it"
            )
        entry = REGISTRY_ENV[config.env_name] = RegisteredEnv(entry)
    if not hasattr(config, "render_mode"):
        config.render_mode = "rgb_array"
    if run_id is not None:
        options["run_id"] = run_id
    entry.plans.append(Plan(config, config.env_seed, functools.partial(watch, **options)))


class Plan(NamedTuple):
    """How the environments of one configuration are watched."""

    config: Any
    first_seed: int
    watch: Callable[..., Env]


class RegisteredEnv:
    """An entry of XuanCe's registry: makes what was there before, watched if that was asked for."""

    def __init__(self, made_by: type[Any]) -> None:
        self._made_by = made_by
        self.plans: list[Plan] = []

    def __call__(self, config: Any) -> Any:
        """Make an environment, as XuanCe asks for it."""
        env = self._made_by(config)
        for plan in reversed(self.plans):
            if plan.config is config:
                # The only environment, without a vector environment, has no seed.
                slot = 0 if config.env_seed is None else config.env_seed - plan.first_seed
                # Within XuanCe's wrapper, whose reset() is not quite Gymnasium's.
                env.env = plan.watch(env.env, slot=slot)
                break
        return env


class TrainingStopped(Exception):
    """Ends an agent's ``train()``; the agent is as after its last step, and can be saved."""


class SteeringCallback(BaseCallback):
    """Pauses a training, and raises :class:`TrainingStopped` to end it: XuanCe has no other way.

    `keep_going` stays away for as long as the training shall pause, and says False to stop it. By
    default it obeys ``lanekit control``. Derive from it to do more on these occasions.
    """

    def __init__(self, keep_going: Callable[[], bool] | None = None) -> None:
        super().__init__()
        self._steering = Steering(keep_going)

    def on_train_step_end(self, current_step: int, **details: Any) -> None:
        """Wait, go on, or end the training."""
        if not self._steering.keep_going():
            raise TrainingStopped(f"asked to stop after {current_step} steps")
