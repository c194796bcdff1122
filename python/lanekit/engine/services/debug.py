"""Debug: shapes in the pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from lanekit.command import Debug
from lanekit.command import messages as m
from lanekit.engine.drawing import Arrow, Drawing, Line, Shape, Sphere, Text
from lanekit.engine.simulation import VectorSimulation
from lanekit.errors import EngineError

_WHITE = m.Color(1.0, 1.0, 1.0, 1.0)
_FORWARD, _TURN = (0.1, 0.8, 0.2, 1.0), (0.9, 0.6, 0.1, 1.0)
_ARROW_WIDTH = 0.02


class DebugService:
    """Draws into the pictures of cameras and viewport."""

    def __init__(self, simulation: VectorSimulation, drawing: Drawing) -> None:
        """Serve a drawing."""
        self._simulation = simulation
        self._drawing = drawing

    def handlers(self) -> Mapping[Any, Callable[[Any], Any]]:
        """Return the methods."""
        return {Debug.Draw: self.draw}

    def draw(self, request: m.DebugDrawRequest) -> m.DebugDrawResponse:
        """Add shapes to an environment's pictures; they stay until they are cleared."""
        env = self._simulation.checked_env(request.env_id)
        shapes = _shapes(request)
        self._drawing.add(env, shapes, clear=request.clear_previous)
        return m.DebugDrawResponse(success=True, message=f"{len(shapes)} shapes were added")


def _shapes(request: m.DebugDrawRequest) -> list[Shape]:
    shapes: list[Shape] = [
        Line(_point(line.start), _point(line.end), _colour(line.color)) for line in request.lines
    ]
    for arrow in request.arrows:
        start, along = _point(arrow.origin), _point(arrow.direction)
        end = tuple(s + arrow.scale * d for s, d in zip(start, along, strict=True))
        shapes.append(Arrow(start, end, _colour(arrow.color), _ARROW_WIDTH))  # type: ignore[arg-type]
    for sphere in request.spheres:
        shapes.append(Sphere(_point(sphere.center), sphere.radius, _colour(sphere.color)))
    for text in request.texts:
        shapes.append(Text(_point(text.position), text.text, _colour(text.color)))
    command = request.velocity_command
    if command is not None:
        x, y, z = _point(command.origin)
        end = (x + command.scale * command.lin_vel_x, y + command.scale * command.lin_vel_y, z)
        shapes.append(Arrow((x, y, z), end, _FORWARD, _ARROW_WIDTH))
        if command.ang_vel_z:
            up = (x, y, z + command.scale * command.ang_vel_z)
            shapes.append(Arrow((x, y, z), up, _TURN, _ARROW_WIDTH))
    return shapes


def _point(vector: m.Vec3 | None) -> tuple[float, float, float]:
    if vector is None:
        raise EngineError("a shape is without one of its points")
    point = (vector.x, vector.y, vector.z)
    if not all(math.isfinite(part) for part in point):
        raise EngineError(f"a shape has a point that is nowhere: {point}")
    return point


def _colour(colour: m.Color | None) -> tuple[float, float, float, float]:
    shown = colour or _WHITE
    return (shown.r, shown.g, shown.b, shown.a)
