"""Lines through many points, and a painter that is ended whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from PyQt6.QtCore import QPointF, Qt
from PyQt6.QtGui import QPaintDevice, QPainter, QPen, QPolygonF

from lanekit.viewer.live.series import Floats

_THERE = ((0.0, 0.0),)
_AROUND = ((0.5, 0.0), (-0.5, 0.0), (0.0, 0.5), (0.0, -0.5))


@contextmanager
def painting(device: QPaintDevice) -> Iterator[QPainter]:
    """Paint on something, with smooth edges. Qt crashes when a painter is left open."""
    painter = QPainter(device)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    try:
        yield painter
    finally:
        painter.end()


def draw_line(painter: QPainter, points: Floats, *, thick: bool) -> None:
    """Draw a line; a thick one as four thin ones, which Qt draws far faster than a wide one."""
    if len(points) == 1:
        pen = painter.pen()
        painter.setPen(QPen(pen.color(), 4, cap=Qt.PenCapStyle.RoundCap))
        painter.drawPoint(QPointF(*points[0]))
    elif len(points):
        polygon = QPolygonF()
        polygon.resize(len(points))
        memory = polygon.data()
        memory.setsize(points.nbytes)
        np.frombuffer(memory, np.float64)[:] = points.ravel()  # type: ignore[call-overload]
        for right, down in _AROUND if thick else _THERE:
            painter.drawPolyline(polygon.translated(right, down))
