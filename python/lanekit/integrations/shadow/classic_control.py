"""Gymnasium's classic control: a handful of numbers, with the type they have in the environment.

The type matters: single and double precision round to different pixels.
"""

from __future__ import annotations

from typing import Any


class Attributes:
    """Takes and sets some attributes of an environment."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def get_state(self, env: Any) -> tuple[Any, ...]:
        """Return the attributes' values."""
        return tuple([getattr(env, name) for name in self._names])

    def set_state(self, env: Any, state: tuple[Any, ...]) -> None:
        """Set the attributes."""
        for name, value in zip(self._names, state, strict=True):
            setattr(env, name, value)


PLAIN = Attributes("state")
PENDULUM = Attributes("state", "last_u")  # the arrow shows the last torque
