"""A human plays: one action, one step, one record."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import Any, Protocol, Self, SupportsFloat

import numpy as np

from lanekit.slow.human.telemetry_service import TelemetryService
from lanekit.slow.store.records import EpisodeRecord, EventRecord, StepRecord


class Environment(Protocol):
    """What is played: anything with Gymnasium's ``reset`` and ``step``."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return its first observation, and info."""

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Act; return observation, reward, terminated, truncated and info."""


class SessionController:
    """Drives an environment with a human's actions and records what comes of each.

    >>> with SessionController(env, telemetry, run_id="ada-plays") as session:  # doctest: +SKIP
    ...     session.begin_episode(seed=7)
    ...     while not session.episode_over:
    ...         session.act(next_key_press())

    A step's record holds the observation that the action led to; the first one of each episode is
    in the payload of its ``episode_started`` event. What happens to the records is the telemetry's
    business and never an error here. Used by one thread at a time.
    """

    def __init__(
        self,
        env: Environment,
        telemetry: TelemetryService,
        *,
        run_id: str,
        agent_id: str = "human",
        worker_id: str = "human",
        record_frames: bool = False,
    ) -> None:
        """Announce the run. With `record_frames`, a step is stored with what ``render()`` gives."""
        self._env = env
        self._telemetry = telemetry
        self._names: dict[str, Any] = {"run_id": run_id, "worker_id": worker_id}
        self._agent_id = agent_id
        self._record_frames = record_frames
        self._ended = False
        self._seed: int | None = None
        self.episode = -1
        """The episode under way, or the last one; -1 before the first."""
        self.episode_over = True
        self.episode_return = 0.0
        self.steps = 0
        """Steps of this episode."""
        self.observation: Any = None
        """What the human sees now."""
        spec = getattr(env, "spec", None)  # Gymnasium's: wrappers have a class of their own
        environment = getattr(spec, "id", None) or type(env).__name__
        self._event("run_started", {"human": True, "environment": environment})

    def begin_episode(self, seed: int | None = None) -> Any:
        """Reset the environment, return what the human sees; an episode under way is cut short."""
        self._check_open()
        observation, info = self._env.reset(seed=seed)
        self._abandon_episode()
        self.episode += 1
        self.episode_over = False
        self.episode_return = 0.0
        self.steps = 0
        self._seed = seed
        self.observation = observation
        self._event(
            "episode_started",
            {
                "episode": self.episode,
                "agent_id": self._agent_id,
                "seed": seed,
                "observation": observation,
                "info": info,
            },
        )
        return observation

    def act(self, action: Any) -> StepRecord:
        """Take one step and return its record."""
        self._check_open()
        if self.episode_over:
            raise RuntimeError("no episode is under way: call begin_episode() first")
        observation, reward, terminated, truncated, info = self._env.step(action)
        self.observation = observation
        value = float(reward)
        finite = math.isfinite(value)
        record = StepRecord(
            **self._names,
            agent_id=self._agent_id,
            episode=self.episode,
            step=self.steps,
            action=action,
            observation=observation,
            reward=value if finite else None,
            terminated=bool(terminated),
            truncated=bool(truncated),
            info=info or None,
            seed=self._seed,
            wall_time_ns=time.time_ns(),
            # No store takes a reward that is not a number; what it was is not forgotten.
            extra={} if finite else {"reward_not_finite": repr(value)},
            frame=self._frame(),
        )
        self.steps += 1
        self.episode_return += value if finite else 0.0
        self._telemetry.record(record)
        if record.terminated or record.truncated:
            self._finish_episode(record.terminated, record.truncated)
        return record

    def end(self, error: BaseException | None = None) -> None:
        """End the run: completed, or failed with this error. Repeating it is harmless."""
        if self._ended:
            return
        self._abandon_episode()
        if error is None:
            self._event("run_completed", None)
        else:
            self._event("run_failed", {"error": f"{type(error).__name__}: {error}"})
        self._ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Ctrl-C is how a human stops playing.
        self.end(None if isinstance(error, KeyboardInterrupt) else error)

    def _abandon_episode(self) -> None:
        if not self.episode_over:
            self._finish_episode(terminated=False, truncated=True)

    def _finish_episode(self, terminated: bool, truncated: bool) -> None:
        self.episode_over = True
        self._telemetry.record(
            EpisodeRecord(
                **self._names,
                agent_id=self._agent_id,
                episode=self.episode,
                episode_return=self.episode_return,
                length=self.steps,
                terminated=terminated,
                truncated=truncated,
                seed=self._seed,
                wall_time_ns=time.time_ns(),
            )
        )

    def _event(self, name: str, payload: dict[str, Any] | None) -> None:
        event = EventRecord(**self._names, name=name, payload=payload, wall_time_ns=time.time_ns())
        self._telemetry.record(event)

    def _frame(self) -> Any:
        render = getattr(self._env, "render", None) if self._record_frames else None
        picture = render() if render is not None else None
        return picture if isinstance(picture, np.ndarray) else None

    def _check_open(self) -> None:
        if self._ended:
            raise RuntimeError("the session has ended: make a new one for the next run")
