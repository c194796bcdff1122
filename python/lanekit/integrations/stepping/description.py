"""What a lane says about its environments: spaces, autoreset mode, metadata, named infos.

It travels as JSON in the lane's description. An engine in any language can write it, so the form is
told in ``docs/step-lane-gymnasium.md``, and nothing in it is believed before it was checked against
the sizes of the lane.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from lanekit import errors
from lanekit.step import StepLaneConfig

FORMAT = 1
SEPARATOR = "/"
"""Between the keys of an info within an info: "episode/r"."""
PRESENCE = "_"
"""In front of an info's name: the row that says which environments reported it."""
FINAL = "final_info" + SEPARATOR
"""In front of an info's name: what an episode's last step reported, where a reset followed it."""

_NUMBERS = "biuf"
_LARGEST_ITEM = 8
_RESERVED = ("final_obs", "final_info")
_INFINITIES = {"inf": math.inf, "-inf": -math.inf}

Space = spaces.Space[Any]


@dataclass(frozen=True)
class LaneDescription:
    """The environments that a lane carries."""

    observation_space: Space
    """Of one environment."""
    action_space: Space
    autoreset_mode: AutoresetMode
    env_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    infos: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    """Names of the infos that are carried, with their types."""

    def __post_init__(self) -> None:
        for what, space in (
            ("observations", self.observation_space),
            ("actions", self.action_space),
        ):
            check_carried(space, what)

    @property
    def info_rows(self) -> tuple[str, ...]:
        """The names of the lane's infos: values, who reported them, and both for the last step."""
        kinds = ["", FINAL] if self.autoreset_mode is AutoresetMode.SAME_STEP else [""]
        return tuple(
            f"{presence}{kind}{name}"
            for kind in kinds
            for name in self.infos
            for presence in ("", PRESENCE)
        )

    def lane_config(self, num_envs: int, image: tuple[int, int, int] | None) -> StepLaneConfig:
        """Return the shape of a lane that carries so many of these environments."""
        return StepLaneConfig(
            num_envs,
            size_of(self.observation_space),
            size_of(self.action_space),
            obs_dtype=dtype_of(self.observation_space),
            act_dtype=dtype_of(self.action_space),
            reward_dtype=np.float64,  # Gymnasium's own
            final_obs=self.autoreset_mode is AutoresetMode.SAME_STEP,
            infos=self.info_rows,
            description=self.to_json(),
            image=image,
            command_ring=0,
        )

    def to_json(self) -> str:
        """Return the text for the lane."""
        return json.dumps(
            {
                "gymnasium": FORMAT,
                "env_id": self.env_id,
                "observation_space": _space_to_json(self.observation_space),
                "action_space": _space_to_json(self.action_space),
                "autoreset_mode": self.autoreset_mode.value,
                "metadata": _sayable(self.metadata),
                "infos": {name: dtype.str for name, dtype in self.infos.items()},
            },
            allow_nan=False,
        )

    @classmethod
    def from_lane(cls, config: StepLaneConfig, what: str) -> Self:
        """Return the description that a lane has; `what` names the lane in messages."""
        if not config.description:
            raise errors.SchemaMismatch(
                f"{what}: says nothing about its spaces. An engine tells them in the lane's "
                "description (docs/step-lane-gymnasium.md); `lanekit serve` does so by itself"
            )
        try:
            return cls._parsed(json.loads(config.description), config)
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise errors.SchemaMismatch(
                f"{what}: its description makes no sense ({reason}). Its form is in "
                "docs/step-lane-gymnasium.md; are both ends of the same lanekit version?"
            ) from error

    @classmethod
    def _parsed(cls, said: Any, config: StepLaneConfig) -> Self:
        _expect(said, dict, "the description")
        if said["gymnasium"] != FORMAT:
            raise ValueError(f"it has form {said['gymnasium']!r}, known is {FORMAT}")
        infos = _expect(said.get("infos", {}), dict, "infos")
        description = cls(
            observation_space=_space_from_json(
                said["observation_space"], config.obs_size, config.obs_dtype, "observation_space"
            ),
            action_space=_space_from_json(
                said["action_space"], config.act_size, config.act_dtype, "action_space"
            ),
            autoreset_mode=AutoresetMode(said["autoreset_mode"]),
            env_id=_expect(said.get("env_id", ""), str, "env_id"),
            metadata=_expect(said.get("metadata", {}), dict, "metadata"),
            infos={name: _info_type(infos.get(name, "<f8")) for name in _info_names(config)},
        )
        if description.autoreset_mode is AutoresetMode.SAME_STEP and not config.final_obs:
            raise ValueError("autoreset in the same step needs a lane with final observations")
        return description


def check_carried(space: Any, what: str) -> None:
    """Refuse a space that is no array of numbers."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        remedy = (
            "wrap the environment in gymnasium.wrappers.FlattenObservation (`lanekit serve "
            "--flatten`)"
            if what == "observations"
            else "flatten them with gymnasium.wrappers.TransformAction and gymnasium.spaces.flatten"
        )
        raise ValueError(
            f"{what} are {type(space).__name__}s, and a lane carries one array: {remedy}"
        )
    kinds = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    if not isinstance(space, kinds):
        raise ValueError(
            f"{what} are of space {type(space).__name__}; a lane carries "
            f"{', '.join(kind.__name__ for kind in kinds)}"
        )
    dtype = dtype_of(space)
    if dtype.kind not in _NUMBERS or dtype.itemsize > _LARGEST_ITEM or not dtype.isnative:
        raise ValueError(f"{what} are {dtype}, and a lane carries plain numbers of up to 64 bits")
    if size_of(space) == 0:
        raise ValueError(f"{what} of shape {space.shape} hold nothing; a lane carries something")


def size_of(space: Space) -> int:
    """Return how many numbers one element of the space has."""
    return math.prod(space.shape or ())


def dtype_of(space: Space) -> np.dtype[Any]:
    """Return the type of these numbers."""
    return np.dtype(space.dtype)


def typed_infos(infos: Iterable[str] | Mapping[str, npt.DTypeLike]) -> dict[str, np.dtype[Any]]:
    """Return the infos to carry with their types; float64 where only names are given."""
    if isinstance(infos, str):
        raise TypeError(f"infos are several names: pass ({infos!r},)")
    if not isinstance(infos, Mapping):
        infos = dict.fromkeys(infos, np.float64)
    typed = {}
    for name, dtype in infos.items():
        if name.split(SEPARATOR)[0] in _RESERVED or name.startswith(PRESENCE):
            raise ValueError(
                f"an info can not be called {name!r}: Gymnasium has another use for it"
            )
        try:
            typed[name] = np.dtype(dtype)
        except TypeError as error:
            raise ValueError(f"info {name!r}: {error}") from None
        if typed[name].kind not in _NUMBERS:
            raise ValueError(f"info {name!r}: numbers are carried, not {typed[name]}")
    return typed


def _info_type(said: Any) -> np.dtype[Any]:
    # Numpy understands much more, and has opinions on some of it.
    if not isinstance(said, str) or re.fullmatch(r"[<>|][biuf][1248]", said) is None:
        raise ValueError(f"an info has type {said!r}; one is told as numpy does, such as '<f8'")
    return np.dtype(said)


def _info_names(config: StepLaneConfig) -> list[str]:
    return [name for name in config.infos if not name.startswith((PRESENCE, FINAL))]


def _sayable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of the metadata JSON can say; the rest means nothing to another process."""
    said = {}
    for key, value in metadata.items():
        if isinstance(key, str) and key != "autoreset_mode":
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError, RecursionError):
                continue
            said[key] = value
    return said


# --- spaces ---------------------------------------------------------------------------------------


def _space_to_json(space: Space) -> dict[str, Any]:
    if isinstance(space, spaces.Box):
        said = {"kind": "Box", "low": _numbers(space.low), "high": _numbers(space.high)}
    elif isinstance(space, spaces.Discrete):
        said = {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    elif isinstance(space, spaces.MultiDiscrete):
        said = {"kind": "MultiDiscrete", "nvec": _numbers(space.nvec)}
        said["start"] = _numbers(space.start)
    else:
        assert isinstance(space, spaces.MultiBinary)
        n = np.asarray(space.n).tolist()  # a number or several, which Gymnasium holds apart
        said = {"kind": "MultiBinary", "n": n}
    said |= {"shape": list(space.shape or ()), "dtype": dtype_of(space).str}
    rebuilt = _space_from_json(said, size_of(space), dtype_of(space), "the space")
    if rebuilt != space:
        raise ValueError(f"{space} can not be described: it would come back as {rebuilt}")
    return said


def _space_from_json(said: Any, size: int, dtype: npt.DTypeLike, what: str) -> Space:
    """Return the space, if the lane's rows of `size` items of that type are its elements."""
    kind = _expect(said, dict, what)["kind"]
    shape = tuple(_expect(said.get("shape", [size]), list, f"{what}'s shape"))
    if any(type(side) is not int or side < 0 for side in shape) or math.prod(shape) != size:
        raise ValueError(f"{what} has shape {list(shape)}, and the lane has {size} numbers")
    if said["dtype"] != np.dtype(dtype).str:
        raise ValueError(f"{what} has {said['dtype']}, and the lane {np.dtype(dtype).str}")
    scalar: Any = np.dtype(dtype).type
    if kind == "Box":
        low, high = (_array(said[key], shape, dtype, f"{what}'s {key}") for key in ("low", "high"))
        return spaces.Box(low, high, shape, scalar)
    if kind == "Discrete" and shape == ():
        n, start = said["n"], said.get("start", 0)
        _expect(n, int, f"{what}'s n")
        _expect(start, int, f"{what}'s start")
        if n < 1:
            raise ValueError(f"{what} has {n} elements")
        # Older versions of Gymnasium have int64 only, and take no type.
        typed = {} if scalar is np.int64 else {"dtype": scalar}
        return spaces.Discrete(n, start=start, **typed)
    if kind == "MultiDiscrete":
        nvec = _array(said["nvec"], shape, dtype, f"{what}'s nvec")
        if (nvec < 1).any():
            raise ValueError(f"{what}'s nvec has a number below 1")
        start = _array(said.get("start", 0), shape, dtype, f"{what}'s start")
        return spaces.MultiDiscrete(nvec, dtype=scalar, start=start)
    if kind == "MultiBinary" and shape and scalar is np.int8:
        return spaces.MultiBinary(shape[0] if said.get("n") == shape[0] else shape)
    raise ValueError(f"{what} is a {kind!r} of shape {list(shape)} and {dtype}, which is not known")


def _numbers(values: npt.NDArray[Any]) -> Any:
    """Return an array as JSON: one number if all are the same, else all in a row."""
    row = [_number(value) for value in values.ravel().tolist()]
    return row[0] if all(value == row[0] for value in row) else row


def _number(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def _array(said: Any, shape: tuple[int, ...], dtype: npt.DTypeLike, what: str) -> npt.NDArray[Any]:
    row = said if isinstance(said, list) else [said]
    if len(row) not in (1, math.prod(shape)):
        raise ValueError(f"{what} has {len(row)} numbers instead of {math.prod(shape)}")
    for value in row:
        if value not in _INFINITIES and not isinstance(value, int | float):
            raise TypeError(f"{what} has {value!r}, which is no number")
    numbers = np.asarray([_INFINITIES.get(value, value) for value in row], dtype)
    return np.broadcast_to(numbers if len(row) > 1 else numbers[0], (math.prod(shape),)).reshape(
        shape
    )


def _expect(said: Any, kind: type, what: str) -> Any:
    if not isinstance(said, kind) or (isinstance(said, bool) and kind is not bool):
        raise TypeError(f"{what} is a {type(said).__name__} instead of a {kind.__name__}")
    return said
