"""Which colour is which agent."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import QPointF, QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QFont, QFontMetricsF, QPaintEvent
from PyQt6.QtWidgets import QSizePolicy, QWidget

from lanekit.viewer.appearance import appearance
from lanekit.viewer.live.curve import Curve, colour_of
from lanekit.viewer.live.painting import painting

WIDEST_NAME = 140
DOT = 16
GAP = 14


class Legend(QWidget):
    """A line of dots and names, as many as there is room for."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._curves: list[Curve] = []
        self._left_out = 0
        font = QFont(self.font())
        font.setPixelSize(12)
        self.setFont(font)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        appearance().dark_changed.connect(self._follow_theme)

    def set_curves(self, curves: Sequence[Curve], left_out: int = 0) -> None:
        """Name these; tell how many more there are that are not drawn."""
        names = [(curve.name, curve.number) for curve in curves]
        known = [(curve.name, curve.number) for curve in self._curves]
        if (names, left_out) != (known, self._left_out):
            self._curves, self._left_out = list(curves), left_out
            lines = [curve.name for curve in curves]
            if left_out:
                lines.append(f"{left_out:,} more are not drawn: choose one to see it")
            self.setToolTip("\n".join(lines))
            self.update()

    def entries(self) -> list[tuple[int, str, float]]:
        """Return the names that fit, with their numbers and places; the last may count the rest."""
        metrics = QFontMetricsF(self.font())
        found: list[tuple[int, str, float]] = []
        x = 0.0
        for place, curve in enumerate(self._curves):
            name = metrics.elidedText(curve.name, Qt.TextElideMode.ElideMiddle, WIDEST_NAME)
            rest = len(self._curves) - place - 1 + self._left_out
            more = metrics.horizontalAdvance(f"and {rest} more") if rest else 0.0
            width = DOT + metrics.horizontalAdvance(name) + GAP
            if x + width + more > self.width():
                found.append((-1, f"and {rest + 1} more", x))
                break
            found.append((curve.number, name, x))
            x += width
        else:
            if self._left_out:
                found.append((-1, f"and {self._left_out} more", x))
        return found

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """One line."""
        return QSize(200, 20)

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802 - Qt's name
        """Draw dots and names."""
        colours = appearance().palette
        with painting(self) as painter:
            middle = self.height() / 2
            for number, name, x in self.entries():
                if number >= 0:
                    painter.setPen(Qt.PenStyle.NoPen)
                    painter.setBrush(colour_of(number, colours))
                    painter.drawEllipse(QPointF(x + 5, middle), 4.5, 4.5)
                painter.setPen(QColor(colours.text if number >= 0 else colours.quiet_text))
                left = x + (DOT if number >= 0 else 0)
                area = QRectF(left, 0, self.width() - left, self.height())
                painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, name)

    def _follow_theme(self) -> None:
        self.update()
