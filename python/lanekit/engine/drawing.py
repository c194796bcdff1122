"""Shapes that are drawn into pictures, beside what the model has."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from lanekit.errors import EngineError

Point = tuple[float, float, float]
Colour = tuple[float, float, float, float]

MOST_SHAPES = 2000
"""Shapes that are kept; each one costs time in every picture."""
_LONGEST_TEXT = 99  # MuJoCo's own limit
_LINE_WIDTH = 3.0
_IDENTITY = np.eye(3).ravel()


@dataclass(frozen=True)
class Line:
    """A straight line."""

    start: Point
    end: Point
    colour: Colour

    def __post_init__(self) -> None:
        _check("a line", (*self.start, *self.end), self.colour)


@dataclass(frozen=True)
class Arrow:
    """An arrow from one point to another."""

    start: Point
    end: Point
    colour: Colour
    width: float = 0.02

    def __post_init__(self) -> None:
        _check("an arrow", (*self.start, *self.end, self.width), self.colour)


@dataclass(frozen=True)
class Sphere:
    """A ball."""

    centre: Point
    radius: float
    colour: Colour

    def __post_init__(self) -> None:
        _check("a sphere", (*self.centre, self.radius), self.colour)
        if self.radius <= 0:
            raise ValueError(f"a sphere has a radius above 0, not {self.radius:g}")


@dataclass(frozen=True)
class Text:
    """Words at a point."""

    position: Point
    text: str
    colour: Colour

    def __post_init__(self) -> None:
        _check("a text", self.position, self.colour)
        if len(self.text.encode()) > _LONGEST_TEXT:
            raise ValueError(f"a text has at most {_LONGEST_TEXT} bytes, not {len(self.text)}")


Shape = Line | Arrow | Sphere | Text


def _check(what: str, numbers: Iterable[float], colour: Colour) -> None:
    if not all(math.isfinite(number) for number in numbers):
        raise ValueError(f"{what} needs finite numbers")
    if not all(0 <= part <= 1 for part in colour):
        raise ValueError(f"{what} has a colour of four numbers from 0 to 1, not {colour}")


class Drawing:
    """The shapes of all environments."""

    def __init__(self) -> None:
        """Begin with none."""
        self._of_env: dict[int, list[Shape]] = {}

    def add(self, env: int, shapes: Iterable[Shape], *, clear: bool) -> None:
        """Add shapes to an environment's pictures, in place of those before if `clear`."""
        kept = [] if clear else self._of_env.get(env, [])
        added = [*kept, *shapes]
        others = sum(len(drawn) for place, drawn in self._of_env.items() if place != env)
        if len(added) + others > MOST_SHAPES:
            raise EngineError(
                f"{len(added) + others} shapes are more than the {MOST_SHAPES} that are kept; "
                "clear_previous removes those before"
            )
        if added:
            self._of_env[env] = added
        else:
            self._of_env.pop(env, None)

    def shapes(self, env: int) -> tuple[Shape, ...]:
        """Return an environment's shapes."""
        return tuple(self._of_env.get(env, ()))


def draw_into(scene: mujoco.MjvScene, shapes: Iterable[Shape]) -> int:
    """Add shapes to a scene; returns for how many there was room."""
    drawn = 0
    for shape in shapes:
        if scene.ngeom >= scene.maxgeom:
            break
        _place(scene.geoms[scene.ngeom], shape)
        scene.ngeom += 1
        drawn += 1
    return drawn


def _place(geom: Any, shape: Shape) -> None:
    kinds = mujoco.mjtGeom
    colour = np.asarray(shape.colour, np.float32)
    match shape:
        case Sphere():
            size, at = np.full(3, shape.radius), np.asarray(shape.centre, float)
            mujoco.mjv_initGeom(geom, kinds.mjGEOM_SPHERE, size, at, _IDENTITY, colour)
        case Text():
            at = np.asarray(shape.position, float)
            mujoco.mjv_initGeom(geom, kinds.mjGEOM_LABEL, np.full(3, 0.1), at, _IDENTITY, colour)
            geom.label = shape.text
        case Line() | Arrow():
            kind = kinds.mjGEOM_LINE if isinstance(shape, Line) else kinds.mjGEOM_ARROW
            width = _LINE_WIDTH if isinstance(shape, Line) else shape.width
            mujoco.mjv_initGeom(geom, kind, np.zeros(3), np.zeros(3), _IDENTITY, colour)
            start, end = np.asarray(shape.start, float), np.asarray(shape.end, float)
            mujoco.mjv_connector(geom, kind, width, start, end)
    geom.category = mujoco.mjtCatBit.mjCAT_DECOR
