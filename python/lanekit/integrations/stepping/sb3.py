"""The environments of a step lane for Stable-Baselines3, whose vector environments are its own.

    from lanekit.integrations.stepping.sb3 import LaneVecEnv

    env = VecMonitor(LaneVecEnv("my-envs"))
    PPO("MlpPolicy", env, seed=1).learn(100_000)

The lane is one that resets in the same step: ``lanekit serve ENV_ID --autoreset same-step``. Then
training is what it is with ``DummyVecEnv`` and the same seed, bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from lanekit.integrations.stepping.lane_vector_env import LaneVectorEnv

try:
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    if error.name != "stable_baselines3":
        raise
    raise ModuleNotFoundError(
        f"{__name__} needs Stable-Baselines3: pip install 'lanekit[sb3]'", name=error.name
    ) from None

Array = npt.NDArray[Any]


class LaneVecEnv(VecEnv):
    """The environments of a step lane, as Stable-Baselines3 steps them.

    The arguments are those of :class:`LaneVectorEnv`, or one of these.
    """

    def __init__(self, lane: str | LaneVectorEnv | None = None, **options: Any) -> None:
        envs = lane if isinstance(lane, LaneVectorEnv) else LaneVectorEnv(lane, **options)
        if envs.autoreset_mode is not AutoresetMode.SAME_STEP:
            if envs is not lane:
                envs.close()
            raise ValueError(
                f"{envs!r}: resets with mode {envs.autoreset_mode.name}, and Stable-Baselines3 "
                "knows SAME_STEP only: serve with autoreset_mode=AutoresetMode.SAME_STEP "
                "(`lanekit serve --autoreset same-step`)"
            )
        self.envs = envs
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Array:
        """Reset all, with the seeds that :meth:`seed` gave for this time."""
        if any(self._options):
            raise ValueError(f"{self.envs!r}: a lane carries no options of a reset")
        observations, infos = self.envs.reset(seed=self._seeds)
        self.reset_infos = [_of_env(infos, i) for i in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: Array) -> None:
        """Hand the actions over and return at once."""
        self.envs.step_async(actions)

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        """Wait for the results."""
        observations, rewards, terminated, truncated, infos = self.envs.step_wait()
        over = terminated | truncated
        final = infos.pop("final_info", {})
        last = infos.pop("final_obs", ())
        told = []
        for i in range(self.num_envs):
            info = _of_env(final if over[i] else infos, i)
            info["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
            if over[i]:
                info["terminal_observation"] = last[i]
                self.reset_infos[i] = _of_env(infos, i)
            told.append(info)
        return observations, rewards.astype(np.float32), over, told

    def close(self) -> None:
        """Leave the lane. The server stays."""
        self.envs.close()

    def get_images(self) -> Sequence[Array | None]:
        """Return the pictures that came with the last step, if the lane carries any."""
        return [None] * self.num_envs if self.render_mode is None else self.envs.render()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return what is known on this side; nothing else is carried."""
        if attr_name not in ("render_mode", "metadata"):
            raise AttributeError(
                f"{self.envs!r}: can not read {attr_name!r}: its environments live in another "
                "process"
            )
        return [getattr(self.envs, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: a lane carries steps, not attributes."""
        self.envs.set_attr(attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        """Refuse: a lane carries steps, not calls."""
        self.envs.call(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Say no: how the environments are wrapped on the other side is not known here."""
        return [False for _ in self._get_indices(indices)]


def _of_env(infos: dict[str, Any], i: int) -> dict[str, Any]:
    """Return one environment's part of what all have reported."""
    return {
        key: _of_env(values, i) if isinstance(values, dict) else values[i].item()
        for key, values in infos.items()
        if not key.startswith("_") and infos[f"_{key}"][i]
    }
