"""Watch and steer Stable-Baselines3: one argument for its environments, one for ``learn()``.

    from lanekit.integrations.stable_baselines3 import WatchCallback, WatchedEnv

    env = make_vec_env("CartPole-v1", n_envs=4, wrapper_class=WatchedEnv)
    PPO("MlpPolicy", env).learn(100_000, callback=WatchCallback())

The wrapper shows pictures and reports steps and episodes. The callback tells each environment its
index, and lets ``lanekit control`` pause and stop ``learn()``.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium

from lanekit.integrations.gymnasium_env import FastLaneTelemetryWrapper
from lanekit.integrations.launch import watch_env
from lanekit.integrations.showing.publisher import FastLaneWarning
from lanekit.integrations.steering import Steering

try:
    from stable_baselines3.common.callbacks import BaseCallback
except ModuleNotFoundError as error:
    if error.name != "stable_baselines3":
        raise
    raise ModuleNotFoundError(
        f"{__name__} needs Stable-Baselines3: pip install 'lanekit[sb3]'", name=error.name
    ) from None

Env = gymnasium.Env[Any, Any]


class WatchedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that is watched as soon as it knows its index among those of the run.

    ``make_vec_env`` does not tell it to wrappers; :class:`WatchCallback` does. Without that, the
    environments of one process are counted. `run_id` and further options are those of
    :func:`lanekit.integrations.watch_env`, which `watch` replaces.
    """

    def __init__(
        self,
        env: Env,
        run_id: str | None = None,
        *,
        watch: Callable[..., Env] = watch_env,
        **options: Any,
    ) -> None:
        super().__init__(env)
        self._plain = env
        self._watch = watch
        self._options = options if run_id is None else {"run_id": run_id, **options}
        self._slot: int | None = None
        self._settled = False

    def take_slot(self, slot: int | None) -> None:
        """Be watched as environment number `slot`; None: as the next one of this process."""
        if self._settled and slot == self._slot:
            return
        if isinstance(self.env, FastLaneTelemetryWrapper):
            self.env.publisher.close()
        self._settled, self._slot = True, slot
        self.env = self._watch(self._plain, slot=slot, **self._options)

    def step(self, action: Any) -> Any:
        """Step, and show the result if somebody watches."""
        if not self._settled:
            self._settle_without_callback()
        return self.env.step(action)

    def _settle_without_callback(self) -> None:
        # In a SubprocVecEnv all would count themselves as the first.
        if multiprocessing.parent_process() is None:
            self.take_slot(None)
            return
        self._settled = True
        warnings.warn(
            "lanekit can not show an environment in a process of its own that does not know its "
            "index; learn(..., callback=WatchCallback()) tells it (training goes on)",
            FastLaneWarning,
            stacklevel=3,
        )


class WatchCallback(BaseCallback):
    """Gives the environments their slots, and ends or pauses ``learn()`` when that is asked for.

    `keep_going` and `progress` are those of a worker's runtime; a script needs neither.
    """

    def __init__(
        self,
        keep_going: Callable[[], bool] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__()
        self._steering = Steering(keep_going)
        self._progress = progress

    def _init_callback(self) -> None:
        env = self.training_env
        if not env.has_attr("take_slot"):
            return
        for slot in range(env.num_envs):
            env.env_method("take_slot", slot, indices=[slot])

    def _on_step(self) -> bool:
        if self._progress is not None:
            self._progress(self.num_timesteps)
        return self._steering.keep_going()
