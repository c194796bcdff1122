"""Any Gymnasium environment that a small network can play, to train in and to show."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from lanekit.demo.ppo import Policy
from lanekit.demo.stages import StageStep
from lanekit.demo.worlds import Array, Continuous, Discrete, WorldStep
from lanekit.errors import WorkerError

MOST_NUMBERS = 2048
"""In an observation. What has more is a picture, and wants another kind of network."""


def make(env_id: str, *, shown: bool = False) -> gymnasium.Env[Any, Any]:
    """Make an environment; :class:`WorkerError` says why one can not be had, and what to do."""
    try:
        return gymnasium.make(env_id, render_mode="rgb_array" if shown else None)
    except gymnasium.error.DependencyNotInstalled as error:
        raise WorkerError(f"{env_id} needs a package that is not installed: {error}") from error
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
        raise WorkerError(
            f"there is no environment {env_id!r} here: {error} "
            "`python -c 'import gymnasium; gymnasium.pprint_registry()'` lists them all"
        ) from error
    except ModuleNotFoundError as error:
        raise WorkerError(
            f"{env_id} can not be made: {error}; install the package that brings it"
        ) from error
    except Exception as error:  # whatever an environment's own constructor does
        raise WorkerError(f"{env_id} can not be made: {_words(error)}") from error


def check(env_id: str) -> None:
    """Try an environment once, so that it fails here and not in another process."""
    stage = GymnasiumStage(env_id, seed=0)
    try:
        GymnasiumWorld(env_id, 1, seed=0).close()
        stage.picture()
    finally:
        stage.close()


class GymnasiumWorld:
    """Several environments of one id, stepped one after the other."""

    def __init__(self, env_id: str, count: int, seed: int) -> None:
        """Make them all."""
        self.count = count
        self._envs = [make(env_id) for _ in range(count)]
        self._seed = seed
        self._reading = _Reading(env_id, self._envs[0])
        self.observation_size = self._reading.size
        self.actions = self._reading.actions

    def reset(self) -> Array:
        """Begin an episode in each."""
        return np.stack(
            [
                self._reading.flat(env.reset(seed=self._seed + place)[0])
                for place, env in enumerate(self._envs)
            ]
        )

    def step(self, actions: Array) -> WorldStep:
        """Act once in each."""
        rewards = np.zeros(self.count)
        terminated, truncated = np.zeros((2, self.count), np.bool_)
        next_ones, last_ones = [], []
        for place, (env, action) in enumerate(zip(self._envs, actions, strict=True)):
            seen, reward, ended, cut, _ = env.step(self._reading.action(action))
            rewards[place], terminated[place] = float(reward), ended
            truncated[place] = cut and not ended
            last_ones.append(self._reading.flat(seen))
            if ended or cut:
                seen, _ = env.reset()
            next_ones.append(self._reading.flat(seen))
        return WorldStep(np.stack(next_ones), rewards, terminated, truncated, np.stack(last_ones))

    def close(self) -> None:
        """Close them all."""
        for env in self._envs:
            env.close()


class GymnasiumStage:
    """One environment that can draw itself."""

    def __init__(self, env_id: str, seed: int) -> None:
        """Make it and begin an episode."""
        self._id = env_id
        self._env = make(env_id, shown=True)
        self._reading = _Reading(env_id, self._env)
        self.hz = min(60.0, max(1.0, float(self._env.metadata.get("render_fps") or 30)))
        self.threshold = getattr(self._env.spec, "reward_threshold", None)
        try:
            self._seen, _ = self._env.reset(seed=seed)
        except Exception as error:  # whatever the environment does
            raise WorkerError(f"{env_id} can not be reset: {_words(error)}") from error

    def step(self, policy: Policy, *, solved: bool) -> StageStep | None:
        """Act once, and begin again after an episode's end."""
        observation = self._reading.flat(self._seen)
        action = self._reading.action(policy.best(observation[None])[0])
        self._seen, reward, terminated, truncated, _ = self._env.step(action)
        if terminated or truncated:
            self._seen, _ = self._env.reset()
        return StageStep(observation, action, float(reward), bool(terminated), bool(truncated))

    def picture(self) -> NDArray[np.uint8]:
        """Have it drawn."""
        try:
            image: Any = self._env.render()
        except gymnasium.error.DependencyNotInstalled as error:
            raise WorkerError(f"{self._id} can not be drawn: {error}") from error
        except Exception as error:  # a drawing library without a screen, or without a driver
            raise WorkerError(f"{self._id} can not be drawn: {_words(error)}") from error
        if not isinstance(image, np.ndarray) or image.ndim != 3:
            raise WorkerError(
                f"{self._id} draws no pictures (render mode rgb_array); choose another environment"
            )
        return np.ascontiguousarray(image, np.uint8)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class _Reading:
    """How the network sees an environment, and how its actions are told to it."""

    def __init__(self, env_id: str, env: gymnasium.Env[Any, Any]) -> None:
        self._space = env.observation_space
        try:
            self.size = spaces.flatdim(self._space)
        except (NotImplementedError, ValueError):
            self.size = 0
        if not 0 < self.size <= MOST_NUMBERS:
            raise WorkerError(
                f"{env_id} is seen as {_short(self._space)}; the demo's small network takes up to "
                f"{MOST_NUMBERS:,} numbers. Try a framework: "
                f"lanekit run --worker sb3 --env {env_id} --set policy=CnnPolicy"
            )
        space = env.action_space
        self._first, self._low, self._high = 0, np.zeros(0), np.zeros(0)
        self.actions: Discrete | Continuous
        if isinstance(space, spaces.Discrete):
            self.actions, self._first = Discrete(int(space.n)), int(space.start)
        elif isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
            bounded = np.isfinite(space.low) & np.isfinite(space.high)
            self._low = np.where(bounded, space.low, -1.0)
            self._high = np.where(bounded, space.high, 1.0)
            self.actions = Continuous(int(np.prod(space.shape)))
        else:
            raise WorkerError(
                f"{env_id} has the actions {_short(space)}; the demo's agent knows Discrete and "
                f"Box. Try a framework: lanekit run --worker sb3 --env {env_id}"
            )

    def flat(self, observation: Any) -> Array:
        return np.asarray(spaces.flatten(self._space, observation), np.float64)

    def action(self, chosen: Any) -> Any:
        if isinstance(self.actions, Discrete):
            return int(chosen) + self._first
        share = (np.clip(chosen, -1.0, 1.0).reshape(self._low.shape) + 1.0) / 2.0
        return (self._low + share * (self._high - self._low)).astype(np.float32)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _short(space: object, most: int = 80) -> str:
    text = str(space)
    return text if len(text) <= most else text[: most - 1] + "…"
