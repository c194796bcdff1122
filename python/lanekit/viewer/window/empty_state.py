"""What stands where nothing is to be shown yet: how things are, and what to do next."""

from __future__ import annotations

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QAction
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

_WIDEST = 460


class EmptyState(QWidget):
    """A title, a sentence or two, and the buttons that lead on."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = self._label("title")
        self.detail = self._label("quiet")
        self.detail.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._buttons: list[QPushButton] = []
        self._button_row = QHBoxLayout()
        self._button_row.setSpacing(8)
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        layout.addStretch(3)
        for label in (self.title, self.detail):
            line = QHBoxLayout()
            line.addStretch()
            line.addWidget(label, 100)
            line.addStretch()
            layout.addLayout(line)
        layout.addSpacing(6)
        layout.addLayout(self._button_row)
        layout.addStretch(4)

    def tell(self, title: str, detail: str, *actions: QAction) -> None:
        """Say how things are; each action becomes a button."""
        self.title.setText(title)
        self.detail.setText(detail)
        for button in self._buttons:
            self._button_row.removeWidget(button)
            button.deleteLater()
        while self._button_row.takeAt(0) is not None:
            pass
        self._buttons = [self._button(action) for action in actions]
        self._button_row.addStretch()
        for button in self._buttons:
            self._button_row.addWidget(button)
        self._button_row.addStretch()

    @property
    def buttons(self) -> list[QPushButton]:
        """The buttons there are now."""
        return list(self._buttons)

    def _button(self, action: QAction) -> QPushButton:
        button = QPushButton(action.text().replace("…", "").strip(), self)
        button.setToolTip(action.toolTip())
        button.setEnabled(action.isEnabled())
        action.enabledChanged.connect(button.setEnabled)
        button.clicked.connect(action.trigger)
        return button

    def _label(self, name: str) -> QLabel:
        label = QLabel(self)
        label.setObjectName(name)
        label.setWordWrap(True)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        label.setMaximumWidth(_WIDEST)
        return label
