"""Steps some of a lane's environments, and writes what they bring into their rows of the lane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from lanekit._core import lib
from lanekit.errors import LanekitError
from lanekit.integrations.stepping.description import (
    FINAL,
    PRESENCE,
    SEPARATOR,
    LaneDescription,
)
from lanekit.step.exchange import StepRequest

Array = npt.NDArray[Any]
Env = gymnasium.Env[Any, Any]
EnvMaker = Callable[[], Env]

_SEEDED: int = lib.LK_RESET_SEEDED


class EnvironmentFailed(LanekitError):
    """An environment, or a process that runs some, failed; the message says how."""


class LaneArrays(Protocol):
    """The arrays of a lane: a server's, or a worker process's own view of them."""

    obs: Array
    actions: Array
    rewards: Array
    dones: Array
    truncateds: Array
    resets: Array
    seeds: Array
    final_obs: Array | None
    infos: Mapping[str, Array]
    images: Array | None


class EnvRows:
    """Environments side by side in a lane, from number `first` on."""

    def __init__(
        self,
        makers: Sequence[EnvMaker],
        first: int,
        arrays: LaneArrays,
        description: LaneDescription,
    ) -> None:
        """Make the environments; each must have the spaces that the lane was made for."""
        self._first = first
        self._description = description
        self._envs: list[Env] = []
        try:
            for maker in makers:
                self._envs.append(self._made(maker))
        except BaseException:
            self.close()
            raise
        self._settle(arrays)

    def _made(self, maker: EnvMaker) -> Env:
        number = self._first + len(self._envs)
        try:
            env = maker()
        except Exception as error:
            raise self._failure(number, "could not be made", error) from error
        ours = self._description
        for what, found, expected in (
            ("observation", env.observation_space, ours.observation_space),
            ("action", env.action_space, ours.action_space),
        ):
            if found != expected:
                env.close()
                raise EnvironmentFailed(
                    f"environment {number}: its {what} space is {found}, and that of the lane "
                    f"{expected}; all environments of a lane have the same"
                )
        return env

    def _settle(self, arrays: LaneArrays) -> None:
        """Take this part of each array, each environment's observation in its own shape."""
        count, ours = len(self._envs), self._description
        rows = slice(self._first, self._first + count)
        self._shape = ours.observation_space.shape or ()
        shaped = (count, *self._shape)
        self._actions = arrays.actions[rows].reshape(count, *(ours.action_space.shape or ()))
        self._obs = _each(arrays.obs[rows].reshape(shaped))
        self._rewards = arrays.rewards[rows]
        self._terminated = arrays.dones[rows]
        self._truncated = arrays.truncateds[rows]
        self._resets = arrays.resets[rows]
        self._seeds = arrays.seeds[rows]
        self._mode = ours.autoreset_mode
        self._final_obs: list[Array] = []
        if arrays.final_obs is not None:
            self._final_obs = _each(arrays.final_obs[rows].reshape(shaped))
        self._infos = InfoRows(ours.infos, arrays.infos, rows, "")
        self._final_infos = InfoRows({}, arrays.infos, rows, FINAL)
        if self._mode is AutoresetMode.SAME_STEP:
            self._final_infos = InfoRows(ours.infos, arrays.infos, rows, FINAL)
        self._images = [] if arrays.images is None else _each(arrays.images[rows])
        self._over = [False] * count

    def exchange(self, request: StepRequest) -> None:
        """Do what the client asked for: reset the flagged environments, step the others or not.

        An environment that fails raises :class:`EnvironmentFailed`.
        """
        self._infos.clear()
        self._final_infos.clear()
        flags = self._resets.tolist()
        # A copy of our own: an environment may keep its action, and the next ones come soon.
        actions = self._actions.copy() if request == "step" else None
        for i, flag in enumerate(flags):
            try:
                if flag:
                    self._begin(i, int(self._seeds[i]) if flag == _SEEDED else None)
                elif actions is not None:
                    self._step(i, actions[i])
                else:
                    continue
                if self._images:
                    self._draw(i)
            except (Exception, SystemExit) as error:  # of anybody's making
                raise self._failure(self._first + i, "failed", error) from error

    def _step(self, i: int, action: Any) -> None:
        if self._over[i]:  # and the lane resets in the next step: this one
            self._begin(i, None)
            return
        env = self._envs[i]
        obs, reward, terminated, truncated, info = env.step(action)
        self._rewards[i] = reward
        self._terminated[i] = terminated
        self._truncated[i] = truncated
        if terminated or truncated:
            if self._mode is AutoresetMode.SAME_STEP:
                self._write(self._final_obs[i], obs)
                self._final_infos.write(i, info)
                obs, info = env.reset()
            else:
                self._over[i] = self._mode is AutoresetMode.NEXT_STEP
        self._write(self._obs[i], obs)
        self._infos.write(i, info)

    def _begin(self, i: int, seed: int | None) -> None:
        env = self._envs[i]
        obs, info = env.reset() if seed is None else env.reset(seed=seed)
        self._over[i] = False
        self._rewards[i] = 0.0
        self._terminated[i] = False
        self._truncated[i] = False
        self._write(self._obs[i], obs)
        self._infos.write(i, info)

    def _write(self, row: Array, obs: Any) -> None:
        if np.shape(obs) != self._shape:  # numpy would repeat what is too small
            raise ValueError(
                f"an observation has shape {np.shape(obs)}, and its space {self._shape}"
            )
        np.copyto(row, obs, "same_kind")

    def _draw(self, i: int) -> None:
        picture: Any = self._envs[i].render()
        image = self._images[i]
        if np.shape(picture) != image.shape:
            raise ValueError(
                f"render() returned shape {np.shape(picture)}, and the lane carries {image.shape}"
            )
        np.copyto(image, picture, "no")

    def _failure(self, number: int, how: str, error: BaseException) -> EnvironmentFailed:
        name = self._description.env_id
        of_what = f" ({name})" if name else ""
        return EnvironmentFailed(f"environment {number}{of_what} {how}: {words_of(error)}")

    def close(self) -> None:
        """Close the environments. One that fails at that keeps no other from it."""
        for env in self._envs:
            with suppress(Exception):
                env.close()
        self._envs = []


class InfoRows:
    """Where the named infos of some environments go."""

    def __init__(
        self, names: Mapping[str, object], rows: Mapping[str, Array], envs: slice, kind: str
    ) -> None:
        """Take the rows of these names that begin with `kind`."""
        self._rows = [
            (
                name,
                name.split(SEPARATOR),
                rows[kind + name][envs],
                rows[PRESENCE + kind + name][envs],
            )
            for name in names
        ]

    def clear(self) -> None:
        """Say that nobody has reported anything."""
        for _, _, _, there in self._rows:
            there[:] = 0.0

    def write(self, i: int, info: Mapping[str, Any]) -> None:
        """Write what environment `i` reports."""
        for name, path, values, there in self._rows:
            value: Any = info
            for key in path:
                value = value.get(key) if isinstance(value, Mapping) else None
            if value is not None:
                values[i] = _as_number(name, value)
                there[i] = 1.0


def words_of(error: BaseException) -> str:
    """Return an error as a traceback's last line has it."""
    kind = type(error).__name__
    return f"{kind}: {error}" if str(error) else kind


def check_drawable(env: Env) -> tuple[int, int, int]:
    """Reset an environment, draw it, and return the picture's height, width and channels."""
    if env.render_mode != "rgb_array":
        raise ValueError(
            f"pictures are carried from environments made with render_mode='rgb_array', not "
            f"{env.render_mode!r}"
        )
    try:
        env.reset()
        picture = np.asarray(env.render())
    except Exception as error:  # of anybody's making
        raise EnvironmentFailed(f"can not be drawn: {words_of(error)}") from error
    if picture.dtype != np.uint8 or picture.ndim != 3:
        raise ValueError(
            "render() must return an array (height, width, channels) of bytes, not "
            f"{picture.dtype} of shape {picture.shape}"
        )
    height, width, channels = picture.shape
    return height, width, channels


def describe(
    env: Env, env_id: str, autoreset_mode: AutoresetMode, infos: Mapping[str, np.dtype[Any]]
) -> LaneDescription:
    """Return what a lane of environments like this one says about them."""
    return LaneDescription(
        env.observation_space,
        env.action_space,
        autoreset_mode,
        env_id,
        dict(env.metadata or {}),
        infos,
    )


def _each(rows: Array) -> list[Array]:
    """Return a view of each row; of one number too, which an index alone would copy."""
    return [rows[i, ...] for i in range(len(rows))]


def _as_number(name: str, value: Any) -> float:
    if np.ndim(value) != 0 or isinstance(value, str | bytes):
        raise TypeError(f"info {name!r} is a {type(value).__name__}; a lane carries numbers")
    number = float(value)
    if isinstance(value, int | np.integer) and int(number) != value:
        raise ValueError(f"info {name!r} is {value}; a lane carries whole numbers up to 2**53")
    return number
