"""How the daemon is, in the status bar, and the button that starts one."""

from __future__ import annotations

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QAction, QColor, QPainter, QPaintEvent
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from lanekit.viewer.appearance import appearance

_WIDEST = 560


class DaemonStatus(QWidget):
    """A dot, a sentence, and the button while it helps."""

    def __init__(self, target: str, start: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._target = target
        self._dot = _Dot(self)
        self.text = QLabel(self)
        self.text.setTextFormat(Qt.TextFormat.PlainText)
        self.start = QPushButton(start.text(), self)
        self.start.setObjectName("small")
        self.start.setToolTip(start.toolTip())
        self.start.clicked.connect(start.trigger)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 2, 8, 2)
        layout.setSpacing(7)
        layout.addWidget(self._dot)
        layout.addWidget(self.text)
        layout.addWidget(self.start)
        self._show(f"looking for the daemon at {target}", "waiting", False)

    def tell(self, answers: bool, reason: str, *, can_start: bool) -> None:
        """Show whether it answers, and if not, or if it cannot store anything, why."""
        if answers and reason:
            self._show(f"the daemon cannot store events: {reason}", "bad", False)
        elif answers:
            self._show(f"daemon at {self._target}", "good", False)
        else:
            self._show(reason or f"the daemon at {self._target} has ended", "bad", can_start)

    def tell_starting(self) -> None:
        """Show that one is being started."""
        self._show("starting a daemon …", "waiting", False)

    def _show(self, text: str, tone: str, can_start: bool) -> None:
        self._dot.set_tone(tone)
        metrics = self.text.fontMetrics()
        # The button stands for the advice.
        words = text.partition("; `lanekit daemon`")[0] if can_start else text
        self.text.setText(metrics.elidedText(words, Qt.TextElideMode.ElideRight, _WIDEST))
        self.text.setToolTip(text)
        self.start.setVisible(can_start)


class _Dot(QWidget):
    """A filled circle in one of the theme's colours."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._tone = "waiting"
        self.setFixedSize(9, 9)

    def set_tone(self, tone: str) -> None:
        """Choose the colour by its meaning."""
        self._tone = tone
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802 - Qt's name
        """Paint it."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(getattr(appearance().palette, self._tone)))
        painter.drawEllipse(self.rect())
