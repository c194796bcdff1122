"""The tab's state as people see it: a coloured dot with words, and why nothing comes."""

from __future__ import annotations

from PyQt6.QtCore import QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QPaintEvent
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from lanekit.viewer.appearance import appearance
from lanekit.viewer.live.painting import painting
from lanekit.viewer.live.status import LiveStatus, State
from lanekit.viewer.palette import Palette


def colour_of_state(state: State, colours: Palette) -> QColor:
    """Return the colour that stands for a state."""
    return QColor(
        {
            "waiting": colours.quiet_text,
            "live": colours.good,
            "sampling": colours.waiting,
            "away": colours.bad,
            "ended": colours.accent,
            "failed": colours.bad,
        }[state]
    )


class _Dot(QWidget):
    """The state as a colour."""

    def __init__(self, status: LiveStatus, parent: QWidget) -> None:
        super().__init__(parent)
        self._status = status
        self.setFixedSize(QSize(10, 10))

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802 - Qt's name
        with painting(self) as painter:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour_of_state(self._status.state, appearance().palette))
            painter.drawEllipse(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))


class StatusLine(QWidget):
    """One line at the tab's foot."""

    def __init__(self, status: LiveStatus, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._status = status
        self._dot = _Dot(status, self)
        self.state_label = QLabel(self)
        self.missed_label = QLabel(self)
        self.missed_label.setObjectName("quiet")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(2, 0, 2, 0)
        layout.setSpacing(8)
        layout.addWidget(self._dot)
        layout.addWidget(self.state_label)
        layout.addStretch(1)
        layout.addWidget(self.missed_label)
        for label in (self.state_label, self.missed_label):
            label.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
            label.setMinimumWidth(20)
        status.changed.connect(self._tell)
        appearance().dark_changed.connect(self._tell)
        self._tell()

    def _tell(self) -> None:
        self.state_label.setText(self._status.text)
        self.missed_label.setText(self._status.missedText)
        self._dot.update()


class ProblemBanner(QLabel):
    """Why nothing comes, across the tab; gone when all is well."""

    def __init__(self, status: LiveStatus, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._status = status
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setContentsMargins(14, 8, 12, 8)
        status.changed.connect(self._tell)
        appearance().dark_changed.connect(self._tell)
        self._tell()

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802 - Qt's name
        """Draw the words on a strip with a bar in the colour of trouble."""
        colours = appearance().palette
        with painting(self) as painter:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colours.raised))
            painter.drawRoundedRect(QRectF(self.rect()), 5, 5)
            painter.setBrush(QColor(colours.bad))
            painter.drawRoundedRect(QRectF(0, 0, 4, self.height()), 2, 2)
        super().paintEvent(event)

    def _tell(self) -> None:
        self.setText(self._status.problem)
        self.setVisible(bool(self._status.problem))
        self.update()
