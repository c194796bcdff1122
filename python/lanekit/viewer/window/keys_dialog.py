"""The list of keys."""

from __future__ import annotations

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QDialog, QDialogButtonBox, QGridLayout, QLabel, QVBoxLayout, QWidget

from lanekit.viewer.fastlane.actions import ACTIONS, MOUSE
from lanekit.viewer.window.commands import COMMANDS

_LIST = (("Enter", "Open the selected run"), ("Double click", "Open a run, or tear a tab off"))


class KeysDialog(QDialog):
    """Shows which key does what: in the window, and on a picture."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keys")
        own = [(command.key, command.tip) for command in COMMANDS if command.key]
        picture = [(" or ".join(action.keys), action.label) for action in ACTIONS]
        grid = QGridLayout()
        grid.setHorizontalSpacing(18)
        grid.setVerticalSpacing(5)
        grid.setColumnMinimumWidth(2, 24)
        for column, title, rows in (
            (0, "Window", [*own, *_LIST]),
            (3, "Picture", [*picture, *MOUSE]),
        ):
            heading = QLabel(title, self)
            heading.setObjectName("section")
            heading.setIndent(0)
            grid.addWidget(heading, 0, column, 1, 2)
            for line, (key, label) in enumerate(rows, 1):
                keys = QLabel(key, self)
                keys.setObjectName("quiet")
                grid.addWidget(keys, line, column, Qt.AlignmentFlag.AlignLeft)
                grid.addWidget(QLabel(label, self), line, column + 1, Qt.AlignmentFlag.AlignLeft)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 12, 20, 16)
        layout.setSpacing(14)
        layout.addLayout(grid)
        layout.addWidget(buttons)
