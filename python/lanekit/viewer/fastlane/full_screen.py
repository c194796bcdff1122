"""A window that borrows a widget, shows it on the whole screen, and gives it back."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QCloseEvent
from PyQt6.QtWidgets import QLayout, QVBoxLayout, QWidget


class FullScreen(QWidget):
    """Holds one widget while it fills the screen.

    Moving the widget leaves the tab it came from in its place, which a tab that becomes a window
    itself would not.
    """

    def __init__(self, guest: QWidget, home: QLayout, when_left: Callable[[], None]) -> None:
        super().__init__(None, Qt.WindowType.Window)
        self._guest = guest
        self._home: QLayout | None = home
        self._when_left = when_left
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(guest)

    def leave(self) -> None:
        """Give the widget back and go away."""
        if self._home is not None:
            home, self._home = self._home, None
            home.addWidget(self._guest)
            self._guest.setFocus()
            self._when_left()
            self.hide()
            self.deleteLater()

    def closeEvent(self, event: QCloseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Closing the window is another way back."""
        self.leave()
        super().closeEvent(event)
