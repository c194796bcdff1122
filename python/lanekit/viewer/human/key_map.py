"""From held keys to an action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PyQt6.QtCore import Qt

_CAPS = {
    "Left": "←",
    "Right": "→",
    "Up": "↑",
    "Down": "↓",
    "Space": "Space",
}


def key_code(name: str) -> int:
    """Return Qt's number of a key: ``Left``, ``A``, ``7``."""
    code: int = Qt.Key[f"Key_{name}"].value
    return code


@dataclass(frozen=True)
class Binding:
    """One thing to do, and the keys that do it."""

    keys: tuple[str, ...]
    label: str
    value: float
    """The action's number; of an axis, how far to push it."""
    axis: int = 0

    @property
    def codes(self) -> tuple[int, ...]:
        """Qt's numbers of the keys."""
        return tuple(map(key_code, self.keys))

    @property
    def caps(self) -> tuple[str, ...]:
        """What is written on the keys."""
        return tuple(_CAPS.get(key, key) for key in self.keys)


class KeyMap(Protocol):
    """Which keys there are, and what holding some of them means."""

    @property
    def bindings(self) -> Sequence[Binding]:
        """Everything that keys can do."""

    @property
    def turns(self) -> bool:
        """Whether the game waits for each move, as grid worlds do."""

    @property
    def idle(self) -> Any | None:
        """The action that does nothing; None if there is none."""

    def action(self, held: Sequence[Binding]) -> Any | None:
        """Return the action for keys held, the newest last; None without any."""


@dataclass(frozen=True)
class DiscreteKeys:
    """Each key is an action; the newest wins, unless several together are one of their own."""

    bindings: tuple[Binding, ...]
    idle: int | None = None
    turns: bool = False
    together: dict[frozenset[int], int] = field(default_factory=dict)
    """Actions that take several keys, by the actions of the single ones."""

    def action(self, held: Sequence[Binding]) -> int | None:
        """Return the action for keys held."""
        if not held:
            return None
        values = [int(binding.value) for binding in held]
        return self.together.get(frozenset(values), values[-1])


@dataclass(frozen=True)
class AxisKeys:
    """Keys push axes to one end or the other, all at the same time."""

    bindings: tuple[Binding, ...]
    rest: NDArray[Any]
    """Where the axes are while no key is held."""
    turns: bool = False

    @property
    def idle(self) -> NDArray[Any]:
        """All axes at rest."""
        return self.rest.copy()

    def action(self, held: Sequence[Binding]) -> NDArray[Any] | None:
        """Return the axes for keys held; of two keys of one axis the newest wins."""
        if not held:
            return None
        axes = self.rest.copy()
        for binding in held:
            axes[binding.axis] = binding.value
        return axes


def axis_keys(
    low: NDArray[Any],
    high: NDArray[Any],
    pushes: Sequence[tuple[str, str, int, int]],
) -> AxisKeys:
    """Make keys for axes: each has its keys, a label, an axis, and -1 or +1 for its ends."""
    low = np.where(np.isfinite(low), low, -1.0)
    high = np.where(np.isfinite(high), high, 1.0)
    rest = np.clip(np.zeros_like(low), low, high).astype(np.float32)
    bindings = [
        Binding(tuple(keys.split()), label, float(high[axis] if sign > 0 else low[axis]), axis)
        for keys, label, axis, sign in pushes
    ]
    return AxisKeys(tuple(bindings), rest)
