"""A window that nobody needs to hold on to: it is there until it is closed."""

from __future__ import annotations

from PyQt6.QtCore import Qt, QTimer
from PyQt6.QtGui import QCloseEvent, QShowEvent
from PyQt6.QtWidgets import QWidget

_open: set[OwnWindow] = set()


class OwnWindow(QWidget):
    """Stays while it is shown; Python would take it away with the last reference to it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Window)

    def leave(self) -> None:
        """End what goes on behind the window; it is being closed."""

    def showEvent(self, event: QShowEvent | None) -> None:  # noqa: N802 - Qt's name
        """Stay from now on."""
        _open.add(self)
        super().showEvent(event)

    def closeEvent(self, event: QCloseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Leave, and let others decide how long the object lives."""
        self.leave()
        super().closeEvent(event)
        # Not now: it may be the last reference, and Qt still works with the window.
        QTimer.singleShot(0, lambda: _open.discard(self))
