"""An episode's rewards and their sum over its steps, with a mark where the replay is."""

from __future__ import annotations

import numpy as np
from PyQt6.QtCore import QPointF, QRectF, QSize, Qt, pyqtSignal
from PyQt6.QtGui import (
    QColor,
    QFont,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QPolygonF,
    QResizeEvent,
)
from PyQt6.QtWidgets import QSizePolicy, QWidget

from lanekit.slow.replay.tape import Floats, Tape
from lanekit.viewer.appearance import appearance

_LEFT, _RIGHT, _TOP, _BOTTOM = 12, 12, 26, 10


class RewardStrip(QWidget):
    """Draws an episode once, and then only the mark; a click goes to the step under the mouse."""

    sought = pyqtSignal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tape: Tape | None = None
        self._index = 0
        self._picture: QPixmap | None = None
        font = QFont(self.font())
        font.setPixelSize(12)
        self.setFont(font)
        self.setMinimumSize(160, 84)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setAccessibleName("Rewards of the episode")
        appearance().dark_changed.connect(self._draw_anew)

    def set_tape(self, tape: Tape | None) -> None:
        """Show another episode."""
        self._tape = tape
        self._index = 0
        self._draw_anew()

    def set_index(self, index: int) -> None:
        """Move the mark."""
        self._index = index
        self.update()

    def x_of(self, index: int) -> float:
        """Return where a step is."""
        steps = 1 if self._tape is None else max(1, len(self._tape) - 1)
        return _LEFT + (self.width() - _LEFT - _RIGHT) * index / steps

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Enough to see a shape."""
        return QSize(600, 92)

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802 - Qt's name
        """Draw the episode, and the mark over it."""
        if self._picture is None:
            self._picture = self._drawn()
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._picture)
        if self._tape is not None:
            x = round(self.x_of(self._index)) + 0.5
            painter.setPen(QPen(QColor(appearance().palette.waiting), 2))
            painter.drawLine(QPointF(x, _TOP - 4), QPointF(x, self.height() - _BOTTOM + 4))
        painter.end()

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802 - Qt's name
        """Draw for the new size."""
        self._draw_anew()
        super().resizeEvent(event)

    def mousePressEvent(self, event: QMouseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Go where the mouse is."""
        if event is not None and event.button() == Qt.MouseButton.LeftButton:
            self._seek(event.position().x())

    def mouseMoveEvent(self, event: QMouseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Follow the mouse while its button is down."""
        if event is not None and event.buttons() & Qt.MouseButton.LeftButton:
            self._seek(event.position().x())

    def _seek(self, x: float) -> None:
        if self._tape is not None:
            share = (x - _LEFT) / max(1, self.width() - _LEFT - _RIGHT)
            last = len(self._tape) - 1
            self.sought.emit(max(0, min(last, round(share * last))))

    def _draw_anew(self) -> None:
        self._picture = None
        self.update()

    def _drawn(self) -> QPixmap:
        ratio = self.devicePixelRatioF()
        picture = QPixmap(self.size() * ratio)
        picture.setDevicePixelRatio(ratio)
        colours = appearance().palette
        picture.fill(QColor(colours.background))
        painter = QPainter(picture)
        painter.setFont(self.font())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(colours.outline), 1))
        painter.setBrush(QColor(colours.surface))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 5, 5)
        if self._tape is not None:
            self._draw_curves(painter, self._tape)
        painter.end()
        return picture

    def _draw_curves(self, painter: QPainter, tape: Tape) -> None:
        colours = appearance().palette
        faint, strong = QColor(colours.good), QColor(colours.accent)
        faint.setAlpha(150)
        words = QRectF(_LEFT, 5, self.width() - _LEFT - _RIGHT, 16)
        painter.setPen(strong)
        left = painter.boundingRect(words, Qt.AlignmentFlag.AlignLeft, "return so far")
        painter.drawText(words, Qt.AlignmentFlag.AlignLeft, "return so far")
        painter.setPen(QColor(colours.good))
        beside = words.adjusted(left.width() + 16, 0, 0, 0)
        painter.drawText(beside, Qt.AlignmentFlag.AlignLeft, "reward")
        painter.setPen(QColor(colours.quiet_text))
        span = f"return from {tape.total.min():.5g} to {tape.total.max():.5g}"
        painter.drawText(words, Qt.AlignmentFlag.AlignRight, span)
        painter.setPen(QPen(faint, 1))
        painter.drawPolyline(self._line(np.nan_to_num(tape.reward)))
        painter.setPen(QPen(strong, 2))
        painter.drawPolyline(self._line(tape.total))

    def _line(self, values: Floats) -> QPolygonF:
        """Return a curve over the whole strip: a low and a high for each column of pixels."""
        columns = max(2, self.width() - _LEFT - _RIGHT)
        places = np.arange(len(values), dtype=np.float64)
        if len(values) > 2 * columns:
            edges = np.linspace(0, len(values), columns, endpoint=False).astype(np.int64)
            lows, highs = np.minimum.reduceat(values, edges), np.maximum.reduceat(values, edges)
            places = np.repeat(edges.astype(np.float64), 2)
            # Up and down in turn, so that the line does not jump across each column.
            values = np.column_stack((lows, highs)).ravel()
        low, high = float(values.min()), float(values.max())
        if low == high:
            low, high = low - 1, high + 1
        steps = max(1.0, float(places[-1]))
        xs = _LEFT + (self.width() - _LEFT - _RIGHT) * places / steps
        ys = _TOP + (self.height() - _TOP - _BOTTOM) * (high - values) / (high - low)
        return QPolygonF([QPointF(x, y) for x, y in zip(xs, ys, strict=True)])
