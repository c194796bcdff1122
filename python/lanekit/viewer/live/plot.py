"""A plot of curves that grow: axes, the lines as they are, their means, and a read-out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PyQt6.QtCore import QPointF, QRectF, QSize, Qt
from PyQt6.QtGui import (
    QColor,
    QEnterEvent,
    QFont,
    QFontMetricsF,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PyQt6.QtWidgets import QWidget

from lanekit.viewer.appearance import appearance
from lanekit.viewer.live.curve import Curve, Scale, colour_of, mean_points, raw_points
from lanekit.viewer.live.numbers import number_text, padded, tick_texts, ticks
from lanekit.viewer.live.painting import draw_line, painting
from lanekit.viewer.live.read_out import ReadOut, draw_read_out, read_out

GAP = 10
TITLE = 30
BOTTOM = 26
TICK_HEIGHT = 28
TICK_WIDTH = 90
FAINT = 80
"""How opaque the line is beneath its means, of 255."""
DENSE = 50
"""The same where it fills an area."""
FINE_CURVES = 8
"""With more curves than this, each has half as many columns."""


class CurvePlot(QWidget):
    """Draws curves when they change, and only then: a moving mouse costs a copy of the picture."""

    def __init__(
        self, title: str, axis: str, parent: QWidget | None = None, *, hint: str = "nothing yet"
    ) -> None:
        """`hint` is said while there is nothing to draw."""
        super().__init__(parent)
        self.title = title
        self._hint = hint
        self.axis = axis
        """What the places on the horizontal axis count."""
        self._curves: list[Curve] = []
        self._sizes: list[int] = []
        self._window = 1
        self._picture: QPixmap | None = None
        self._hover: float | None = None
        self.drawn = 0
        """How often the curves were drawn."""
        self.setAccessibleName(title)
        self.setMouseTracking(True)
        self.setMinimumSize(160, 96)
        font = QFont(self.font())
        font.setPixelSize(12)
        self.setFont(font)
        appearance().dark_changed.connect(self._draw_anew)

    @property
    def curves(self) -> Sequence[Curve]:
        """What is shown."""
        return self._curves

    @property
    def window_size(self) -> int:
        """Over how many numbers the mean goes; 1: there is none."""
        return self._window

    def set_curves(self, curves: Sequence[Curve]) -> None:
        """Show these; also to be called when their series may have grown."""
        sizes = [len(curve.series) for curve in curves]
        # Curves are equal when they have the same series, and a series only grows.
        if list(curves) != self._curves or sizes != self._sizes:
            self._curves, self._sizes = list(curves), sizes
            self._draw_anew()

    def set_window_size(self, window: int) -> None:
        """Lay the mean over so many numbers above each line; 1: the line alone."""
        self._window = max(1, window)
        self._draw_anew()

    def scale(self) -> Scale | None:
        """Return how numbers become pixels; None while there are no numbers."""
        filled = [curve for curve in self._curves if len(curve.series)]
        if not filled:
            return None
        lows = np.array([curve.series.low for curve in filled])
        highs = np.array([curve.series.high for curve in filled])
        low, high = padded(float(np.fmin.reduce(lows)), float(np.fmax.reduce(highs)))
        first = float(min(curve.start for curve in filled))
        last = float(max(curve.end for curve in filled))
        if first == last:
            first, last = first - 0.5, last + 0.5
        left = self._left(low, high)
        return Scale(
            *(first, last, low, high),
            *(left, TITLE, self.width() - left - GAP, self.height() - TITLE - BOTTOM),
        )

    def read_out(self) -> ReadOut | None:
        """Return what is told of the place where the mouse is."""
        scale = self.scale()
        if self._hover is None or scale is None or scale.width < 1:
            return None
        return read_out(self._curves, scale, self._hover, self._window, self.axis)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Enough to see a shape."""
        return QSize(420, 200)

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802 - Qt's name
        """Draw the picture, and the read-out over it."""
        if self._picture is None:
            self._picture = self._drawn_picture()
        with painting(self) as painter:
            painter.drawPixmap(0, 0, self._picture)
            if (told := self.read_out()) is not None:
                draw_read_out(
                    painter, told, QRectF(0, TITLE, self.width(), self.height() - TITLE - BOTTOM)
                )

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802 - Qt's name
        """Draw for the new size."""
        self._draw_anew()
        super().resizeEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Tell what is under the mouse."""
        if event is not None:
            self._hover_at(event.position().x())

    def enterEvent(self, event: QEnterEvent | None) -> None:  # noqa: N802 - Qt's name
        """Begin to tell."""
        if event is not None:
            self._hover_at(event.position().x())

    def leaveEvent(self, event: object) -> None:  # noqa: N802 - Qt's name
        """Tell nothing any more."""
        self._hover = None
        self.update()

    def _hover_at(self, x: float) -> None:
        self._hover = x
        self.update()

    def _draw_anew(self) -> None:
        self._picture = None
        self.update()

    def _left(self, low: float, high: float) -> float:
        metrics = QFontMetricsF(self.font())
        texts = tick_texts(ticks(low, high, self._most_ticks()))
        return GAP + max([metrics.horizontalAdvance(text) for text in texts] or [16.0]) + 8

    def _most_ticks(self) -> int:
        return max(2, (self.height() - TITLE - BOTTOM) // TICK_HEIGHT)

    def _drawn_picture(self) -> QPixmap:
        self.drawn += 1
        ratio = self.devicePixelRatioF()
        picture = QPixmap(self.size() * ratio)
        picture.setDevicePixelRatio(ratio)
        picture.fill(QColor(appearance().palette.background))
        with painting(picture) as painter:
            self._draw(painter, ratio)
        return picture

    def _draw(self, painter: QPainter, ratio: float) -> None:
        colours = appearance().palette
        painter.setPen(QPen(QColor(colours.outline), 1))
        painter.setBrush(QColor(colours.surface))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 5, 5)
        painter.setFont(self.font())
        scale = self.scale()
        self._draw_title(painter)
        if scale is None or scale.width < 8 or scale.height < 8:
            painter.setPen(QColor(colours.quiet_text))
            centred = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(self.rect().adjusted(GAP, TITLE, -GAP, -GAP), centred, self._hint)
        else:
            self._draw_axes(painter, scale)
            painter.setClipRect(
                QRectF(scale.left, scale.top - 1, scale.width + GAP, scale.height + 2)
            )
            self._draw_curves(painter, scale, ratio)

    def _draw_title(self, painter: QPainter) -> None:
        colours = appearance().palette
        area = QRectF(GAP, 4, self.width() - 2 * GAP, TITLE - 8)
        painter.setPen(QColor(colours.text))
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, self.title)
        if len(self._curves) != 1 or not len(self._curves[0].series):
            return
        series = self._curves[0].series
        end = np.array([len(series) - 1])
        text = f"last {number_text(float(series.values[-1]))}"
        if self._window > 1:
            mean = float(series.means(end, self._window)[0])
            text += f"   mean of {self._window:,}: {number_text(mean)}"
        painter.setPen(QColor(colours.quiet_text))
        right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        room = area.adjusted(QFontMetricsF(self.font()).horizontalAdvance(self.title) + 16, 0, 0, 0)
        painter.drawText(room, right, text)

    def _draw_axes(self, painter: QPainter, scale: Scale) -> None:
        colours = appearance().palette
        line, words = QColor(colours.outline), QColor(colours.quiet_text)
        bottom = scale.top + scale.height
        heights = ticks(scale.low, scale.high, self._most_ticks())
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for value, text in zip(heights, tick_texts(heights), strict=True):
            y = round(float(scale.y(value))) + 0.5
            painter.setPen(QPen(line, 1))
            painter.drawLine(QPointF(scale.left, y), QPointF(scale.left + scale.width, y))
            painter.setPen(words)
            painter.drawText(QRectF(0, y - 9, scale.left - 8, 18), right, text)
        metrics = QFontMetricsF(self.font())
        axis_room = metrics.horizontalAdvance(self.axis) + 8
        places = ticks(scale.first, scale.last, max(1, int(scale.width // TICK_WIDTH)), whole=True)
        for value, text in zip(places, tick_texts(places), strict=True):
            x = float(scale.x(value))
            half = metrics.horizontalAdvance(text) / 2
            x = min(max(x, half + 2), self.width() - half - 2)
            if x + half < self.width() - GAP - axis_room:
                painter.drawText(
                    QRectF(x - half - 2, bottom + 5, 2 * half + 4, 18),
                    Qt.AlignmentFlag.AlignCenter,
                    text,
                )
        painter.drawText(QRectF(0, bottom + 5, self.width() - GAP, 18), right, self.axis)

    def _draw_curves(self, painter: QPainter, scale: Scale, ratio: float) -> None:
        colours = appearance().palette
        share = 1.0 if len(self._curves) <= FINE_CURVES else 0.5
        columns = max(1, int(scale.width * ratio * share))
        filled = [curve for curve in self._curves if len(curve.series)]
        for curve in filled:
            colour = colour_of(curve.number, colours)
            # Lines closer than pixels need no smooth edges, and are drawn faster without.
            fine = len(curve.series) <= 2 * columns
            if self._window > 1:
                colour.setAlpha(FAINT if fine else DENSE)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, fine)
            painter.setPen(QPen(colour, 0))
            points = raw_points(curve, scale, columns)
            draw_line(painter, points, thick=fine and self._window == 1)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        for curve in filled if self._window > 1 else ():
            painter.setPen(QPen(colour_of(curve.number, colours), 0))
            draw_line(painter, mean_points(curve, scale, columns, self._window), thick=True)
