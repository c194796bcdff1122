"""Keys and buttons that tell the name of what they stand for.

No connection of the viewer goes to a lambda or a partial. Qt ends a connection to a method of a
``QObject`` with that object; a closure would be called with an object that is gone. And PyQt frees
a closure together with the sender's Python part, which Qt's part may outlive: its last signals
would then call what is freed.
"""

from __future__ import annotations

from PyQt6.QtCore import pyqtSignal
from PyQt6.QtGui import QKeySequence, QShortcut
from PyQt6.QtWidgets import QToolButton, QWidget


class NamedKey(QShortcut):
    """A key of a widget."""

    pressed = pyqtSignal(str)

    def __init__(self, key: str, name: str, parent: QWidget) -> None:
        super().__init__(QKeySequence(key), parent)
        self._name = name
        self.activated.connect(self._tell)

    def _tell(self) -> None:
        self.pressed.emit(self._name)


class NamedButton(QToolButton):
    """A button of a widget."""

    chosen = pyqtSignal(str)

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.name = name
        self.clicked.connect(self._tell)

    def _tell(self) -> None:
        self.chosen.emit(self.name)
