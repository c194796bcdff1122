"""Which run, agent and episode is looked at."""

from __future__ import annotations

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QListView, QSizePolicy, QWidget

from lanekit.viewer.replay.episode_list import EpisodeList
from lanekit.viewer.replay.model import ReplayModel

_PLAYER_CHARACTERS = 14
_EPISODE_CHARACTERS = 34


class ChoiceBar(QWidget):
    """The run's name, its agents, and their episodes."""

    def __init__(self, model: ReplayModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self.title = QLabel(model.run_id, self)
        self.title.setTextFormat(Qt.TextFormat.PlainText)
        self.title.setToolTip(model.run_id)
        self.title.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        font = self.title.font()
        font.setBold(True)
        self.title.setFont(font)
        self.players = self._box("Agent")
        self.episodes = self._box("Episode (Page Up, Page Down)")
        self.listed = EpisodeList(self)
        self.episodes.setModel(self.listed)
        self.episodes.setMinimumContentsLength(_EPISODE_CHARACTERS)
        view = self.episodes.view()
        assert isinstance(view, QListView)
        view.setUniformItemSizes(True)
        self.players.activated.connect(self._choose_player)
        self.episodes.activated.connect(self._choose_episode)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.title, 1)
        layout.addWidget(self.players)
        layout.addWidget(self.episodes)
        model.contents_changed.connect(self._fill)
        model.tape_changed.connect(self._follow)
        self._fill()

    def _box(self, name: str) -> QComboBox:
        box = QComboBox(self)
        box.setAccessibleName(name)
        box.setToolTip(name)
        box.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        box.setMinimumContentsLength(_PLAYER_CHARACTERS)
        return box

    def _fill(self) -> None:
        players = self._model.players
        self.players.clear()
        self.players.addItems([player.title for player in players])
        self.players.setVisible(len(players) > 1)
        self.listed.set_entries(self._model.entries)
        self.episodes.setVisible(self.episodes.count() > 0)
        self._follow()

    def _follow(self) -> None:
        if self._model.player is not None:
            self.players.setCurrentIndex(self._model.players.index(self._model.player))
        self.episodes.setCurrentIndex(self.listed.row_of(self._model.episode))

    def _choose_player(self, index: int) -> None:
        self._model.choose_player(self._model.players[index])

    def _choose_episode(self, index: int) -> None:
        self._model.choose_episode(self.listed.number_at(index))
