"""A worker's configuration: what it must offer, and a dataclass that offers it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol, Self, runtime_checkable

from lanekit.worker.json_values import checked_fields, checked_names, plain


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
    known one. What JSON carries differently comes back as it was: tuples, whole floats, other
    dataclasses. A field's ``metadata={"help": ...}`` is what people read about it.

    >>> @dataclasses.dataclass(kw_only=True)
    ... class WalkerConfig(DataclassConfig):
    ...     env_id: str = "Walker2d-v5"
    ...     total_steps: int = 100_000
    ...     layers: tuple[int, ...] = (64, 64)
    >>> WalkerConfig.from_dict({"run_id": "a", "total_steps": 5}).to_dict()
    {'run_id': 'a', 'seed': None, 'env_id': 'Walker2d-v5', 'total_steps': 5, 'layers': [64, 64]}
    """

    run_id: str
    seed: int | None = None

    def __post_init__(self) -> None:
        """Check and convert; a subclass with checks of its own calls this first."""
        for name, value in checked_fields(self).items():
            setattr(self, name, value)
        if not self.run_id:
            raise ValueError("run_id is empty: every run has an id of its own")

    def to_dict(self) -> dict[str, Any]:
        """Return everything, as JSON knows it."""
        content: dict[str, Any] = plain(self)
        return content

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the configuration that :meth:`to_dict` described."""
        return cls(**checked_names(cls, data))
