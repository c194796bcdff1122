"""What a plot tells of the place where the mouse is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PyQt6.QtCore import QPointF, QRectF, Qt
from PyQt6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from lanekit.viewer.appearance import appearance
from lanekit.viewer.live.curve import Curve, Scale, colour_of
from lanekit.viewer.live.numbers import number_text

MOST_LINES = 8


@dataclass(frozen=True, slots=True)
class ReadOut:
    """A place on the screen, and lines about it, each with the agent's number if it has one."""

    x: float
    lines: list[tuple[int | None, str]]


def read_out(
    curves: Sequence[Curve], scale: Scale, x: float, window: int, axis: str
) -> ReadOut | None:
    """Tell the numbers at a pixel: one of each curve, or what a pixel has room for."""
    width = max(1.0, (scale.last - scale.first) / scale.width)
    middle = min(max(scale.place(x), scale.first), scale.last)
    place = round(middle)
    first, last = (place, place) if width < 2 else (round(middle - width / 2), place)
    lines = []
    for curve in curves:
        text = _numbers(curve, first, last, window)
        if text:
            lines.append((curve.number, f"{curve.name}  {text}" if curve.name else text))
    if not lines:
        return None
    title = f"{axis} {place:,}" if first == last else f"{axis} {first:,} to {last:,}"
    shown: list[tuple[int | None, str]] = [(None, title), *lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append((None, f"and {len(lines) - MOST_LINES} more"))
    return ReadOut(float(scale.x(place)), shown)


def draw_read_out(painter: QPainter, told: ReadOut, area: QRectF) -> None:
    """Draw a line through the place, and the lines in a box beside it."""
    colours = appearance().palette
    painter.setPen(QPen(QColor(colours.quiet_text), 1))
    x = round(told.x) + 0.5
    painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
    metrics = QFontMetricsF(painter.font())
    line = metrics.height() + 2
    widest = max(metrics.horizontalAdvance(text) for _, text in told.lines)
    box = QRectF(x + 10, area.top() + 2, widest + 32, line * len(told.lines) + 10)
    if box.right() > area.right():
        box.moveRight(x - 10)
    box.moveLeft(max(box.left(), 2.0))
    painter.setBrush(QColor(colours.raised))
    painter.setPen(QPen(QColor(colours.outline), 1))
    painter.drawRoundedRect(box, 5, 5)
    for place, (number, text) in enumerate(told.lines):
        y = box.top() + 5 + place * line
        if number is not None:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour_of(number, colours))
            painter.drawEllipse(QPointF(box.left() + 12, y + line / 2), 4, 4)
        painter.setPen(QColor(colours.text if number is not None else colours.quiet_text))
        left = box.left() + (22 if number is not None else 8)
        painter.drawText(QRectF(left, y, widest + 24, line), Qt.AlignmentFlag.AlignVCenter, text)


def _numbers(curve: Curve, first: int, last: int, window: int) -> str:
    begin, end = max(0, first - curve.start), min(len(curve.series), last - curve.start + 1)
    if begin >= end:
        return ""
    values = curve.series.values[begin:end]
    low, high = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
    text = (
        number_text(low)
        if low == high or low != low
        else (f"{number_text(low)} to {number_text(high)}")
    )
    if window > 1:
        mean = float(curve.series.means(np.array([end - 1]), window)[0])
        text += f"   mean {number_text(mean)}"
    return text
