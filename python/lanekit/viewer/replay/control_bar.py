"""The buttons and the slider that move a replay."""

from __future__ import annotations

from PyQt6.QtCore import QSize, Qt
from PyQt6.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QToolButton, QWidget

from lanekit.viewer.appearance import appearance
from lanekit.viewer.named_key import NamedButton
from lanekit.viewer.replay.actions import ReplayActions
from lanekit.viewer.replay.icons import icon
from lanekit.viewer.replay.model import SPEEDS, ReplayModel
from lanekit.viewer.replay.time_slider import TimeSlider


class ControlBar(QWidget):
    """Each button's tooltip tells its key; none of them takes the keyboard."""

    def __init__(
        self, model: ReplayModel, actions: ReplayActions, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._model = model
        self._actions = actions
        self._icons: dict[QToolButton, str] = {}
        self.first = self._button("first", "To the beginning (Home)")
        self.previous = self._button("previous", "One step back (Left; ten with Shift)")
        self.play = self._button("play", "Play or pause (Space)")
        self.next = self._button("next", "One step on (Right; ten with Shift)")
        self.last = self._button("last", "To the end (End)")
        self.slider = TimeSlider(self)
        self.slider.valueChanged.connect(self._seek)
        self.speed = QComboBox(self)
        self.speed.setAccessibleName("Speed")
        self.speed.setToolTip("Speed (+ and -)")
        self.speed.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        for speed in SPEEDS:
            self.speed.addItem(f"{speed:g}×", speed)
        self.speed.activated.connect(self._set_speed)
        self.loop = QCheckBox("Loop", self)
        self.loop.setToolTip("Begin again at the end (L)")
        self.loop.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.loop.toggled.connect(model.set_loop)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        for button in self._icons:
            layout.addWidget(button)
        layout.addSpacing(6)
        layout.addWidget(self.slider, 1)
        layout.addSpacing(6)
        layout.addWidget(self.speed)
        layout.addSpacing(6)
        layout.addWidget(self.loop)
        model.tape_changed.connect(self._follow)
        model.changed.connect(self._follow)
        model.moved.connect(self._follow_position)
        appearance().dark_changed.connect(self._paint_icons)
        self._follow()

    def _button(self, name: str, tooltip: str) -> QToolButton:
        button = NamedButton(name, self)
        button.setToolTip(tooltip)
        button.setAccessibleName(tooltip)
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        button.setIconSize(QSize(20, 20))
        button.setAutoRaise(True)
        button.chosen.connect(self._actions.act)
        self._icons[button] = name
        return button

    def _paint_icons(self) -> None:
        for button, name in self._icons.items():
            button.setIcon(icon(name))

    def _follow(self) -> None:
        there = self._model.tape is not None
        for widget in (*self._icons, self.slider):
            widget.setEnabled(there)
        self._icons[self.play] = "pause" if self._model.playing else "play"
        self._paint_icons()
        self.speed.setCurrentIndex(SPEEDS.index(self._model.speed))
        self.loop.setChecked(self._model.loop)
        self._follow_position()

    def _follow_position(self) -> None:
        # Not a wish of the user's: nothing must be sought for it.
        self.slider.blockSignals(True)
        self.slider.setMaximum(max(1, self._model.last))
        self.slider.setValue(self._model.index)
        self.slider.blockSignals(False)

    def _set_speed(self, index: int) -> None:
        self._model.set_speed(SPEEDS[index])

    def _seek(self, index: int) -> None:
        if index != self._model.index:
            self._model.seek(index)
