"""One game on the screen: its picture, its keys, and how it goes."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QKeySequence, QPalette, QShortcut
from PyQt6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from lanekit.viewer.human.environments import Game
from lanekit.viewer.human.game_player import GamePlayer, Pace, RecordPlace, Scene
from lanekit.viewer.human.input_controller import HumanInputController
from lanekit.viewer.human.legend import Legend
from lanekit.viewer.human.settings_panel import SettingsPanel
from lanekit.viewer.replay.number_row import NumberRow
from lanekit.viewer.replay.picture_view import PictureView

_SIDE = 260


class PlayPage(QWidget):
    """Plays one game after another; each is a run of its own."""

    left = pyqtSignal()
    replay_requested = pyqtSignal(object, int)
    """A RecordPlace, and an episode of it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.game: Game | None = None
        self.player: GamePlayer | None = None
        self.place: RecordPlace | None = None
        self.scene: Scene | None = None
        self.paused = False
        self.stored_episode: int | None = None
        self._problem = ""
        self.keyboard = HumanInputController(self)
        self.picture = PictureView(self)
        self.picture.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.picture.installEventFilter(self.keyboard)
        self.legend = Legend(self.keyboard, self)
        self.settings = SettingsPanel(self)
        self.numbers = NumberRow(("episode", "steps", "reward", "return"), self)
        self.title = _label("title", self)
        self.status = _label("", self)
        font = self.status.font()
        font.setPixelSize(15)
        self.status.setFont(font)
        self.where = _label("quiet", self)
        self.pause_button = self._button("Pause", "Esc", self.toggle_pause)
        self.restart_button = self._button("Restart", "F5", self.restart)
        self.replay_button = self._button("Replay", "F6", self.request_replay)
        self.change_button = self._button("Other game", "F2", self.left)
        again = QShortcut(QKeySequence("Return"), self)
        again.activated.connect(self._play_again)
        self._lay_out()
        self.keyboard.pressed.connect(self._hear_key)
        self.settings.changed.connect(self._take_settings)

    # --- what people do --------------------------------------------------------------------------

    def begin(self, game: Game) -> None:
        """Play a game, instead of the one before."""
        assert game.keys is not None
        self.end()
        self.game, self.paused, self._problem = game, False, ""
        self.keyboard.set_key_map(game.keys)
        self.legend.show_keys()
        self.settings.begin(game)
        self.title.setText(game.env_id)
        self.where.setText("")
        player = GamePlayer(
            game, self.keyboard, seed=self.settings.seed, pictures=self.settings.pictures
        )
        player.opened.connect(self._take_place)
        player.scene_ready.connect(self._take_scene)
        player.stored.connect(self._take_stored)
        player.failed.connect(self._take_problem)
        self.player = player
        self.destroyed.connect(player.leave)
        player.start()
        self.picture.setFocus()
        self._tell()

    def end(self) -> None:
        """Leave the game; its record is finished in the background."""
        if self.player is not None:
            for signal in (
                self.player.opened,
                self.player.scene_ready,
                self.player.stored,
                self.player.failed,
            ):
                signal.disconnect()
            self.player.leave()
        self.player = self.place = self.scene = self.stored_episode = None

    def toggle_pause(self) -> None:
        """Stand still, or go on."""
        if self.player is not None:
            self.paused = not self.paused
            self.player.set_paused(self.paused)
            self._tell()

    def restart(self) -> None:
        """Begin another episode; the one under way counts as cut short."""
        if self.player is not None:
            self.paused = False
            self.player.set_paused(False)
            self.player.restart(self.settings.seed)
            self.picture.setFocus()

    def request_replay(self) -> None:
        """Look at the last finished episode again."""
        if self.place is not None and self.stored_episode is not None:
            self.replay_requested.emit(self.place, self.stored_episode)

    def _play_again(self) -> None:
        if self.scene is not None and self.scene.over:
            self.restart()

    def _hear_key(self) -> None:
        if self.player is not None:
            self.player.poke()
            self._tell()

    def _take_settings(self) -> None:
        if self.player is not None:
            self.player.set_pace(self.settings.pace)
            self.player.set_rate(self.settings.rate)
            self.player.set_pictures(self.settings.pictures)
        self.settings.enable()
        self.picture.setFocus()
        self._tell()

    # --- what the player tells -------------------------------------------------------------------

    def _take_place(self, place: RecordPlace) -> None:
        self.place = place
        self.where.setText(place.where)

    def _take_scene(self) -> None:
        scene = None if self.player is None else self.player.take_scene()
        if scene is None:
            return
        before, self.scene = self.scene, scene
        self.picture.show_image(scene.image)
        self.numbers.show_values(
            str(scene.episode),
            f"{scene.steps:,}",
            "–" if scene.reward is None else f"{scene.reward:.4g}",
            f"{scene.total:.6g}",
        )
        if before is None or _phase(before) != _phase(scene):
            self._tell()

    def _take_stored(self, episode: int) -> None:
        self.stored_episode = episode
        self._tell()

    def _take_problem(self, problem: str) -> None:
        self._problem = problem
        self._tell()

    def _tell(self) -> None:
        """Say how things are, and what to do next."""
        self.pause_button.setText("Go on" if self.paused else "Pause")
        self.replay_button.setEnabled(self.stored_episode is not None)
        over = self.scene is not None and self.scene.over
        self.pause_button.setEnabled(not over)
        self.restart_button.setText("Play again" if over else "Restart")
        self.restart_button.setDefault(over)
        self.status.setText(self._status())

    def _status(self) -> str:
        scene = self.scene
        if self._problem:
            return self._problem
        if scene is None:
            return "Getting ready …"
        if scene.over:
            steps = "1 step" if scene.steps == 1 else f"{scene.steps:,} steps"
            return (
                f"Episode over ({scene.ending}): return {scene.total:.6g} in {steps}. "
                "Enter plays again."
            )
        if self.paused:
            return "Paused. Esc goes on."
        if scene.steps == 0:
            return "Press a key of the game to begin."
        return {
            Pace.REAL_TIME: "Playing. Esc pauses.",
            Pace.HELD: "Playing: time passes while a key is held.",
            Pace.TURNS: "Your turn.",
        }[self.settings.pace]

    # --- how it is put together ------------------------------------------------------------------

    def _button(self, text: str, key: str, act: Any) -> QPushButton:
        """Make a button that calls one of this page's methods, or emits one of its signals."""
        button = QPushButton(text, self)
        button.setToolTip(f"{text} ({key})")
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        button.clicked.connect(act)
        shortcut = QShortcut(QKeySequence(key), self)
        shortcut.activated.connect(button.click)
        return button

    def _lay_out(self) -> None:
        self.numbers.setMinimumHeight(40)
        side = QWidget(self)
        side.setFixedWidth(_SIDE)
        column = QVBoxLayout(side)
        column.setContentsMargins(14, 14, 14, 14)
        column.setSpacing(10)
        column.addWidget(self.title)
        column.addWidget(_section("Keys", self))
        column.addWidget(self.legend)
        column.addWidget(_section("Game", self))
        column.addWidget(self.settings)
        column.addStretch()
        column.addWidget(self.where)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        for button in (self.pause_button, self.restart_button, self.replay_button):
            buttons.addWidget(button)
        buttons.addStretch()
        buttons.addWidget(self.change_button)
        below = QVBoxLayout()
        below.setContentsMargins(14, 10, 14, 14)
        below.setSpacing(10)
        below.addWidget(self.status)
        below.addWidget(self.numbers)
        below.addLayout(buttons)
        main = QVBoxLayout()
        main.setSpacing(0)
        main.addWidget(self.picture, 1)
        main.addLayout(below)
        line = QWidget(self)
        line.setFixedWidth(1)
        line.setAutoFillBackground(True)
        line.setBackgroundRole(QPalette.ColorRole.Mid)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(main, 1)
        layout.addWidget(line)
        layout.addWidget(side)


def _phase(scene: Scene) -> tuple[int, bool, bool]:
    return scene.episode, scene.steps == 0, scene.over


def _label(name: str, parent: QWidget) -> QLabel:
    label = QLabel(parent)
    label.setObjectName(name)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
    return label


def _section(text: str, parent: QWidget) -> QLabel:
    label = QLabel(text, parent)
    label.setObjectName("section")
    label.setIndent(0)
    return label
