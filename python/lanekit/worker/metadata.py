"""What a worker says about itself, so that people and programs can choose one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar


@dataclass(frozen=True, kw_only=True)
class WorkerMetadata:
    """Who a worker is, and how it is started."""

    name: str
    """For people: "Stable-Baselines3"."""
    version: str
    description: str = ""
    author: str = ""
    homepage: str = ""
    upstream_library: str = ""
    """The library that does the training: "stable-baselines3"."""
    upstream_version: str = ""
    license: str = ""
    module: str = ""
    """What ``python -m`` starts. Default: ``cli`` in the package that the entry point names."""
    config: str = ""
    """Its configuration class, as "package.module:Class". Default: the one in ``config`` there."""

    def __post_init__(self) -> None:
        _check_types(self)
        if not self.name or not self.version:
            raise ValueError("a worker's metadata needs a name and a version")


@dataclass(frozen=True, kw_only=True)
class WorkerCapabilities:
    """What a worker can do."""

    worker_type: str
    """For programs, the name it is installed under: "sb3"."""
    supported_paradigms: tuple[str, ...] = ("sequential",)
    """How agents act: "sequential", "parallel", "self_play", "human"."""
    env_families: tuple[str, ...] = ("gymnasium",)
    action_spaces: tuple[str, ...] = ()
    observation_spaces: tuple[str, ...] = ()
    max_agents: int = 1
    supports_pause: bool = True
    supports_checkpointing: bool = False
    requires_gpu: bool = False

    def __post_init__(self) -> None:
        _check_types(self)
        if not self.worker_type:
            raise ValueError("a worker's capabilities need a worker_type")
        if self.max_agents < 1:
            raise ValueError(f"max_agents is at least 1, not {self.max_agents}")


Record = TypeVar("Record", WorkerMetadata, WorkerCapabilities)


def take_over(cls: type[Record], other: Any) -> Record:
    """Return what another library's record of the same shape says, as one of ours."""
    if isinstance(other, cls):
        return other
    found: dict[str, Any] = {}
    for field in fields(cls):
        value = getattr(other, field.name, None)
        if value is not None:
            found[field.name] = tuple(value) if isinstance(value, list | set) else value
        elif field.name == "supports_pause":
            found[field.name] = False  # who does not know the question does not pause
        elif field.default is MISSING:
            raise ValueError(f"{type(other).__name__} is no {cls.__name__}: it has no {field.name}")
    return cls(**found)


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a text", lambda value: isinstance(value, str)),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "tuple[str, ...]": (
        "a tuple of texts",
        lambda value: isinstance(value, tuple) and all(isinstance(item, str) for item in value),
    ),
}


def _check_types(record: Any) -> None:
    for field in fields(record):
        value = getattr(record, field.name)
        words, fits = _KINDS[str(field.type)]
        if not fits(value):
            raise TypeError(f"{field.name} is {words}, not {value!r}")
