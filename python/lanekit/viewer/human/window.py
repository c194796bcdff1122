"""The window in which a person plays."""

from __future__ import annotations

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from lanekit.viewer.human.chooser import Chooser
from lanekit.viewer.human.environments import Game
from lanekit.viewer.human.game_player import RecordPlace
from lanekit.viewer.human.play_page import PlayPage
from lanekit.viewer.replay.own_window import OwnWindow
from lanekit.viewer.replay.window import ReplayWindow


class HumanPlayWindow(OwnWindow):
    """Choose a Gymnasium environment and play it with the keyboard; every step is recorded."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Play")
        self.chooser = Chooser(self)
        self.page = PlayPage(self)
        self.replay: ReplayWindow | None = None
        """The one opened last."""
        self.pages = QStackedWidget(self)
        self.pages.addWidget(self.chooser)
        self.pages.addWidget(self.page)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.pages)
        self.resize(940, 640)
        self.chooser.chosen.connect(self.play)
        self.page.left.connect(self.choose)
        self.page.replay_requested.connect(self._open_replay)
        self.choose()

    def play(self, game: Game) -> None:
        """Play a game."""
        self.pages.setCurrentWidget(self.page)
        self.setFocusProxy(self.page.picture)
        self.page.begin(game)
        self.setWindowTitle(f"Play - {game.env_id}")

    def choose(self) -> None:
        """Leave the game, and choose another."""
        self.page.end()
        self.pages.setCurrentWidget(self.chooser)
        self.setFocusProxy(self.chooser.search)
        self.setFocus()
        self.setWindowTitle("Play")

    def leave(self) -> None:
        """Leave the game; what is still to be recorded is, without the window."""
        self.page.end()
        self.chooser.scan.leave()

    def _open_replay(self, place: RecordPlace, episode: int) -> None:
        self.replay = ReplayWindow(place.run_id, place.store_path, episode=episode)
        self.replay.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.replay.show()
