"""How a game goes: what makes it step, how fast, from which seed, and what is recorded."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QIntValidator
from PyQt6.QtWidgets import QComboBox, QGridLayout, QLabel, QLineEdit, QWidget

from lanekit.viewer.human.environments import Game
from lanekit.viewer.human.game_player import Pace, usual_pace
from lanekit.viewer.human.stage import Pictures

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0)


class SettingsPanel(QWidget):
    """Each change counts at once; the seed with the next episode."""

    changed = pyqtSignal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rate = 1.0
        self.pace_box = QComboBox(self)
        for pace in Pace:
            self.pace_box.addItem(pace.value, pace)
        self.speed_box = QComboBox(self)
        self.seed_box = QLineEdit(self)
        self.seed_box.setPlaceholderText("another each time")
        self.seed_box.setValidator(QIntValidator(0, 2**31 - 1, self))
        self.seed_box.setToolTip("The next episode begins with it")
        self.pictures_box = QComboBox(self)
        self.pictures_box.setToolTip("Pictures in the record: small ones take less of the disk")
        for pictures in Pictures:
            self.pictures_box.addItem(pictures.value, pictures)
        layout = QGridLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setHorizontalSpacing(10)
        layout.setColumnStretch(1, 1)
        for row, (name, box) in enumerate(
            (
                ("Steps", self.pace_box),
                ("Speed", self.speed_box),
                ("Seed", self.seed_box),
                ("Record", self.pictures_box),
            )
        ):
            # The arrow keys belong to the game.
            box.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
            label = QLabel(name, self)
            label.setObjectName("quiet")
            layout.addWidget(label, row, 0)
            layout.addWidget(box, row, 1)
        self.pace_box.activated.connect(self.changed)
        self.speed_box.activated.connect(self.changed)
        self.pictures_box.activated.connect(self.changed)
        self.seed_box.editingFinished.connect(self.changed)

    def begin(self, game: Game) -> None:
        """Begin with what suits a game."""
        self._rate = game.rate
        self.pace_box.setCurrentIndex(self.pace_box.findData(usual_pace(game)))
        self.speed_box.clear()
        for speed in SPEEDS:
            self.speed_box.addItem(f"{speed:g}×  ({game.rate * speed:g} steps/s)", speed)
        self.speed_box.setCurrentIndex(SPEEDS.index(1.0))
        self.enable()

    def enable(self) -> None:
        """Speed means nothing where each step waits for a key."""
        self.speed_box.setEnabled(self.pace is not Pace.TURNS)

    @property
    def pace(self) -> Pace:
        """What makes the game go on."""
        pace: Pace = self.pace_box.currentData()
        return pace

    @property
    def rate(self) -> float:
        """Steps a second."""
        return self._rate * SPEEDS[max(0, self.speed_box.currentIndex())]

    @property
    def seed(self) -> int | None:
        """The next episode's."""
        return int(self.seed_box.text()) if self.seed_box.hasAcceptableInput() else None

    @property
    def pictures(self) -> Pictures:
        """What is recorded of each picture."""
        pictures: Pictures = self.pictures_box.currentData()
        return pictures
