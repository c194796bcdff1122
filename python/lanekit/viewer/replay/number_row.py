"""Numbers side by side, each below its name."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget


class NumberRow(QWidget):
    """Values that change often at places that do not."""

    def __init__(self, names: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.values = {name: QLabel("–", self) for name in names}
        layout = QGridLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setHorizontalSpacing(16)
        layout.setVerticalSpacing(2)
        for column, (name, value) in enumerate(self.values.items()):
            title = QLabel(name, self)
            title.setObjectName("quiet")
            value.setTextFormat(Qt.TextFormat.PlainText)
            font = value.font()
            font.setPixelSize(15)
            value.setFont(font)
            # A long value is cut, and does not push the others about.
            value.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            layout.addWidget(title, 0, column)
            layout.addWidget(value, 1, column)
            layout.setColumnStretch(column, 1)

    def show_values(self, *values: str) -> None:
        """Show one value for each name."""
        for label, value in zip(self.values.values(), values, strict=True):
            label.setText(value)
            label.setToolTip(value if len(value) > 20 else "")
