"""What a simulation varies from one episode to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

Span = tuple[float, float]
"""The two ends of a closed interval to sample from."""

# Beyond these no number is a physical one any more, and the solver suffers.
_LIMITS: dict[str, tuple[float, float]] = {
    "friction": (0.0, 10.0),
    "mass_scale": (0.05, 20.0),
    "com_offset": (-1.0, 1.0),
    "motor_strength": (0.0, 10.0),
    "motor_offset": (-10.0, 10.0),
    "gravity_scale": (-5.0, 5.0),
    "push_interval": (0.01, 3600.0),
    "push_velocity": (0.0, 20.0),
}
_NOISE_LIMITS: dict[str, float] = {
    "pose_orientation_noise": math.pi,
    "joint_position_noise": math.pi,
    "joint_velocity_noise": 100.0,
}
_POSITION_NOISE_LIMIT = 10.0


@dataclass(frozen=True)
class SimulationContract:
    """What a simulation varies from one episode to the next; None and 0 leave it as it is.

    Ranges are pairs, of which each environment gets a number of its own at each reset; one number
    alone is a range of that number. Noise is the standard deviation of a normal distribution.

    >>> SimulationContract(friction=(0.5, 1.5), mass_scale=1.1).mass_scale
    (1.1, 1.1)
    """

    friction: Span | float | None = None
    """Sliding friction of all geoms, in place of the model's own."""
    mass_scale: Span | float | None = None
    """Multiplies masses and inertias of all bodies."""
    com_offset: Span | float | None = None
    """Metres that the root body's centre of mass is moved along each of its axes."""
    motor_strength: Span | float | None = None
    """Multiplies the gains of all actuators, and the biases that belong to them."""
    motor_offset: Span | float | None = None
    """Added to each control."""
    gravity_scale: Span | float | None = None
    """Multiplies the model's gravity."""
    push_interval: Span | float | None = None
    """Seconds between pushes at the root body; they need a `push_velocity`."""
    push_velocity: Span | float | None = None
    """Metres per second that a push adds in a horizontal direction."""
    pose_position_noise: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Of free bodies, in metres along each axis."""
    pose_orientation_noise: float = 0.0
    """Of free bodies and ball joints, in radians."""
    joint_position_noise: float = 0.0
    """Of hinges and slides, in radians and metres; what a limit forbids is cut off."""
    joint_velocity_noise: float = 0.0

    def __post_init__(self) -> None:
        for name, limits in _LIMITS.items():
            object.__setattr__(self, name, _checked_span(name, getattr(self, name), limits))
        for name, limit in _NOISE_LIMITS.items():
            object.__setattr__(self, name, _checked_noise(name, getattr(self, name), limit))
        noise = self.pose_position_noise
        if isinstance(noise, str) or not isinstance(noise, Sequence) or len(noise) != 3:
            raise ValueError(f"pose_position_noise has three numbers, not {noise!r}")
        checked = tuple(
            _checked_noise("pose_position_noise", value, _POSITION_NOISE_LIMIT) for value in noise
        )
        object.__setattr__(self, "pose_position_noise", checked)
        if (self.push_interval is None) != (self.push_velocity is None):
            raise ValueError("a push needs both push_interval and push_velocity")

    def span(self, name: str) -> Span | None:
        """Return one of the ranges by its name."""
        found: Span | None = getattr(self, name)
        return found

    @property
    def pushes(self) -> bool:
        """Whether bodies are pushed."""
        return self.push_interval is not None

    @property
    def changed(self) -> dict[str, Any]:
        """What the contract asks for, by name."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }


RANGES = tuple(_LIMITS)
"""The names of the ranges."""


def _checked_span(name: str, value: Any, limits: tuple[float, float]) -> Span | None:
    if value is None:
        return None
    pair = value if isinstance(value, Sequence) and not isinstance(value, str) else (value, value)
    if len(pair) != 2:
        raise ValueError(f"{name} is a pair (least, most), not {value!r}")
    least, most = (_finite(name, end) for end in pair)
    if least > most:
        raise ValueError(f"{name}: {least:g} to {most:g} is no range; the smaller number is first")
    if least < limits[0] or most > limits[1]:
        raise ValueError(
            f"{name}: {least:g} to {most:g} is outside of what can be simulated, "
            f"{limits[0]:g} to {limits[1]:g}"
        )
    return least, most


def _checked_noise(name: str, value: Any, limit: float) -> float:
    number = _finite(name, value)
    if not 0 <= number <= limit:
        raise ValueError(f"{name} is a standard deviation from 0 to {limit:g}, not {number:g}")
    return number


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool | str):
        raise TypeError(f"{name} takes numbers, not {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} takes numbers, not {value!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} takes finite numbers, not {number}")
    return number
