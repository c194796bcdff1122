"""The keys of a game and what they do; those that are held light up."""

from __future__ import annotations

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QWidget

from lanekit.viewer.appearance import appearance
from lanekit.viewer.human.input_controller import HumanInputController


class KeyCap(QLabel):
    """A key as it looks on a keyboard."""

    def __init__(self, text: str, code: int, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.code = code
        self.lit = False
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setMinimumSize(30, 28)
        self.paint()

    def light(self, lit: bool) -> None:
        """Show whether the key is held."""
        if lit != self.lit:
            self.lit = lit
            self.paint()

    def paint(self) -> None:
        """Take over the theme's colours."""
        colours = appearance().palette
        face = colours.accent if self.lit else colours.raised
        ink = colours.background if self.lit else colours.text
        edge = colours.accent if self.lit else colours.outline
        self.setStyleSheet(
            f"background: {face}; color: {ink}; border: 1px solid {edge};"
            f" border-bottom: {1 if self.lit else 3}px solid {edge};"
            " border-radius: 5px; padding: 1px 6px;"
        )


class Legend(QWidget):
    """One line for each thing that keys can do."""

    def __init__(self, keyboard: HumanInputController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._keyboard = keyboard
        self._layout = QGridLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setHorizontalSpacing(10)
        self._layout.setVerticalSpacing(5)
        self._layout.setColumnStretch(1, 1)
        self.caps: list[KeyCap] = []
        keyboard.held_changed.connect(self._light)
        appearance().dark_changed.connect(self._paint)

    def show_keys(self) -> None:
        """Show the keys that the keyboard listens to now."""
        while (item := self._layout.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.setParent(None)
                old.deleteLater()
        self.caps = []
        for row, binding in enumerate(self._keyboard.key_map.bindings):
            line = QWidget(self)
            keys = QHBoxLayout(line)
            keys.setContentsMargins(0, 0, 0, 0)
            keys.setSpacing(4)
            for text, code in zip(binding.caps, binding.codes, strict=True):
                self.caps.append(KeyCap(text, code, line))
                keys.addWidget(self.caps[-1])
            keys.addStretch()
            self._layout.addWidget(line, row, 0)
            self._layout.addWidget(QLabel(binding.label, self), row, 1)
        self._light()

    def _light(self) -> None:
        held = self._keyboard.held_codes
        for cap in self.caps:
            cap.light(cap.code in held)

    def _paint(self) -> None:
        for cap in self.caps:
            cap.paint()
