"""A worker's configuration: what it must offer, and a dataclass that offers it."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Protocol, Self, Union, runtime_checkable


@runtime_checkable
class WorkerConfig(Protocol):
    """What every worker's configuration has: an id, a seed, and a form that fits into JSON."""

    run_id: str
    seed: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything, as JSON knows it."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the configuration that :meth:`to_dict` described."""


@dataclasses.dataclass(kw_only=True)
class DataclassConfig:
    """A configuration that is a dataclass: inherit, add fields with defaults, done.

    Values are checked against the fields' types, and unknown names are refused with the nearest
    known one. A field's ``metadata={"help": ...}`` is what people read about it.

    >>> @dataclasses.dataclass(kw_only=True)
    ... class WalkerConfig(DataclassConfig):
    ...     env_id: str = "Walker2d-v5"
    ...     total_steps: int = 100_000
    >>> WalkerConfig.from_dict({"run_id": "a", "total_steps": 5}).to_dict()
    {'run_id': 'a', 'seed': None, 'env_id': 'Walker2d-v5', 'total_steps': 5}
    """

    run_id: str
    seed: int | None = None

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not fits(value, hints[field.name]):
                raise TypeError(f"{field.name} is {type_name(hints[field.name])}, not {value!r}")
            if type(value) is int and hints[field.name] in (float, float | None):
                setattr(self, field.name, float(value))  # JSON writers turn 1.0 into 1
        if not self.run_id:
            raise ValueError("run_id is missing: every run has an id of its own")

    def to_dict(self) -> dict[str, Any]:
        """Return everything, as JSON knows it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the configuration that :meth:`to_dict` described."""
        known = [field.name for field in dataclasses.fields(cls) if field.init]
        for name in data:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, n=1)
                hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(known)}"
                raise ValueError(f"{cls.__name__} has no {name!r}{hint}")
        return cls(**data)


def fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is of a type, as far as JSON can carry it; ints pass for floats."""
    origin = typing.get_origin(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in typing.get_args(hint))
    if origin is Literal:
        return value in typing.get_args(hint)
    if hint is None or hint is type(None):
        return value is None
    if isinstance(value, bool):
        return hint is bool
    if hint is float:
        return isinstance(value, int | float)
    return isinstance(value, origin or hint)


def type_name(hint: Any) -> str:
    """Return a type as people write it."""
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in typing.get_args(hint))
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "")
