"""Which environments are registered, which actions they take, and how to make one to be played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec, load_env_creator
from numpy.typing import NDArray

from lanekit.integrations.playing.quiet_engines import quiet_engines

USUAL_RATE = 30.0
_LONGEST_REASON = 120


class NotPlayable(Exception):
    """Why a person at a keyboard can not play this."""


@dataclass(frozen=True)
class Choices:
    """One of several actions at a time."""

    count: int
    first: int = 0
    meanings: Sequence[str] | None = None
    """Words for the actions, where an environment knows them: Atari's do."""


@dataclass(frozen=True, eq=False)
class Axes:
    """Numbers to be pushed between two ends."""

    low: NDArray[Any]
    high: NDArray[Any]

    def __len__(self) -> int:
        return len(self.low)


@dataclass(frozen=True)
class Playable:
    """What there is to know before an environment is played."""

    name: str
    """Without name space and version."""
    actions: Choices | Axes
    rate: float
    """Steps a second, as the environment's makers meant it."""


def newest_env_ids() -> list[str]:
    """Return what is registered, in its newest version only."""
    newest: dict[tuple[str | None, str], EnvSpec] = {}
    for spec in list(gymnasium.registry.values()):
        known = newest.get((spec.namespace, spec.name))
        if known is None or (spec.version or 0) >= (known.version or 0):
            newest[spec.namespace, spec.name] = spec
    return [spec.id for spec in newest.values()]


def look_at(env_id: str) -> Playable:
    """Make an environment, look at it, and close it. Raises :class:`NotPlayable`, saying why."""
    spec = gymnasium.spec(env_id)
    try:
        creator: Any = spec.entry_point
        if not callable(creator):
            creator = load_env_creator(creator)
            quiet_engines()  # those that were imported just now
        env = creator(**spec.kwargs)
        try:
            return _described(spec, env)
        finally:
            env.close()
    except NotPlayable:
        raise
    except ImportError as error:
        missing = getattr(error, "name", None)
        raise NotPlayable(f"needs {missing}" if missing else _words(error)) from error
    except Exception as error:  # of anybody's making: one that fails must not hide the others
        raise NotPlayable(_words(error)) from error


def actions_of(space: Any, meanings: Sequence[str] | None = None) -> Choices | Axes:
    """Return what a person can do in an action space."""
    if isinstance(space, spaces.Discrete):
        return Choices(int(space.n), int(space.start), meanings)
    if not isinstance(space, spaces.Box):
        raise NotPlayable(f"{type(space).__name__} actions have no keys: several choices at once")
    if len(space.shape) != 1 or not np.issubdtype(space.dtype, np.floating):
        raise NotPlayable(f"actions are arrays of shape {space.shape}, {space.dtype}")
    return Axes(space.low, space.high)


def make_drawn(env_id: str) -> gymnasium.Env[Any, Any]:
    """Make an environment whose ``render()`` returns pixels, drawn without a screen."""
    quiet_engines()
    return gymnasium.make(env_id, render_mode="rgb_array")


def _described(spec: EnvSpec, env: Any) -> Playable:
    metadata = env.metadata or {}
    if "rgb_array" not in metadata.get("render_modes", ()):
        raise NotPlayable("draws no pictures (no rgb_array)")
    meanings = getattr(env, "get_action_meanings", None)
    actions = actions_of(env.action_space, meanings() if meanings else None)
    return Playable(spec.name, actions, float(metadata.get("render_fps") or USUAL_RATE))


def _words(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:_LONGEST_REASON]
