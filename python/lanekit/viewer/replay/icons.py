"""The pictures on a player's buttons, drawn in the theme's colours."""

from __future__ import annotations

from PyQt6.QtCore import QPointF, QRectF, Qt
from PyQt6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPixmap

from lanekit.viewer.appearance import appearance

_SIZE = 20
_SHARPNESS = 2


def icon(name: str) -> QIcon:
    """Return the picture of a button: play, pause, first, previous, next, last, again."""
    pixmap = QPixmap(_SIZE * _SHARPNESS, _SIZE * _SHARPNESS)
    pixmap.setDevicePixelRatio(_SHARPNESS)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(appearance().palette.text))
    painter.drawPath(_shape(name))
    painter.end()
    return QIcon(pixmap)


def _shape(name: str) -> QPainterPath:
    path = QPainterPath()
    match name:
        case "play":
            _triangle(path, 5, 16)
        case "pause":
            path.addRect(QRectF(5, 4, 3.5, 12))
            path.addRect(QRectF(11.5, 4, 3.5, 12))
        case "next":
            path.addRect(QRectF(4, 4, 2.5, 12))
            _triangle(path, 8, 16)
        case "previous":
            path.addRect(QRectF(13.5, 4, 2.5, 12))
            _triangle(path, 12, 4)
        case "last":
            _triangle(path, 3, 13)
            path.addRect(QRectF(14, 4, 2.5, 12))
        case "first":
            _triangle(path, 17, 7)
            path.addRect(QRectF(3.5, 4, 2.5, 12))
        case "again":
            path.arcMoveTo(QRectF(3, 3, 14, 14), 60)
            path.arcTo(QRectF(3, 3, 14, 14), 60, 300)
            path.arcTo(QRectF(5.5, 5.5, 9, 9), 360, -300)
            path.closeSubpath()
            for index, point in enumerate((QPointF(12.6, 11), QPointF(19.4, 11), QPointF(16, 6.4))):
                (path.lineTo if index else path.moveTo)(point)
            path.closeSubpath()
        case _:
            raise ValueError(f"there is no icon {name!r}")
    return path


def _triangle(path: QPainterPath, base: float, tip: float) -> None:
    path.moveTo(base, 4)
    path.lineTo(tip, 10)
    path.lineTo(base, 16)
    path.closeSubpath()
