"""Vector environments that reset at the step after an episode's end, as PPO here wants them."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space


class ResetInTheSameStep(VectorWrapper):  # not generic before gymnasium 1.4
    """Resets an environment in the step that ended its episode (``AutoresetMode.SAME_STEP``).

    Around ``RecordEpisodeStatistics``. The spaces are those of all environments together, which
    EnvPool does not know.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = batch_space(env.single_observation_space, env.num_envs)
        self.action_space = batch_space(env.single_action_space, env.num_envs)
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all; an EnvPool has its seed since it was made."""
        return self.env.reset(options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all, and reset those that are over."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        over = terminated | truncated
        if over.any():
            infos["final_obs"] = observations
            # Not what it has as "_episode": the reset below clears that in place.
            infos["final_info"] = {"episode": infos.pop("episode"), "_episode": over}
            del infos["_episode"]
            observations = observations.copy()
            observations[over] = self.env.reset(options={"reset_mask": over})[0]
        return observations, rewards, terminated, truncated, infos
