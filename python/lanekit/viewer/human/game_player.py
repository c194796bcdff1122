"""The thread that plays: it asks the keyboard, steps the environment, and records."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from PyQt6.QtCore import pyqtSignal
from PyQt6.QtGui import QImage

from lanekit.slow.human.session_controller import SessionController
from lanekit.slow.store.records import StepRecord
from lanekit.viewer.human.environments import Game
from lanekit.viewer.human.input_controller import HumanInputController
from lanekit.viewer.human.record import GameRecord, open_record
from lanekit.viewer.human.stage import Pictures, Stage
from lanekit.viewer.replay.own_thread import OwnThread
from lanekit.viewer.replay.picture_view import image_of

FLUSH_SECONDS = 10.0
_RESTART = object()


class Pace(Enum):
    """What makes the game go on; the value is how to say it."""

    REAL_TIME = "in real time"
    HELD = "while a key is held"
    TURNS = "a step for each key"


@dataclass(frozen=True)
class RecordPlace:
    """Where the game is recorded."""

    run_id: str
    where: str
    store_path: Path | None


@dataclass(frozen=True)
class Scene:
    """What is to be shown after a step."""

    image: QImage
    episode: int
    steps: int
    reward: float | None
    total: float
    over: bool = False
    ending: str = ""


def usual_pace(game: Game) -> Pace:
    """Return how a game is best played."""
    if game.keys is not None and game.keys.turns:
        return Pace.TURNS
    return Pace.HELD if game.keys is None or game.keys.idle is None else Pace.REAL_TIME


class GamePlayer(OwnThread):
    """Plays one environment, episode after episode, as one recorded run."""

    opened = pyqtSignal(object)
    """A RecordPlace."""
    scene_ready = pyqtSignal()
    """There is something to show: `take_scene`."""
    stored = pyqtSignal(int)
    """This episode can be read back."""
    failed = pyqtSignal(str)

    def __init__(
        self,
        game: Game,
        keyboard: HumanInputController,
        *,
        seed: int | None = None,
        pace: Pace | None = None,
        pictures: Pictures = Pictures.SMALL,
    ) -> None:
        super().__init__("lanekit-game")
        self._game = game
        self._keyboard = keyboard
        self._pictures = pictures
        self._seed = seed
        self._pace = pace or usual_pace(game)
        self._rate = game.rate
        self._paused = False
        self._restart = True
        self._due = 0.0
        self._last_action: Any = None
        self._scene: Scene | None = None
        self.run_id = _run_id(game.env_id)

    # --- from the window -------------------------------------------------------------------------

    def poke(self) -> None:
        """Look at the keyboard now."""
        with self._changed:
            self._changed.notify_all()

    def restart(self, seed: int | None) -> None:
        """Begin another episode."""
        with self._changed:
            self._seed, self._restart = seed, True
            self._changed.notify_all()

    def set_paused(self, paused: bool) -> None:
        """Stand still, or go on; what is typed meanwhile is not played."""
        self._keyboard.forget_presses()
        with self._changed:
            self._paused = paused
            self._changed.notify_all()

    def set_pace(self, pace: Pace) -> None:
        """Let something else make the game go on."""
        with self._changed:
            self._pace = pace
            self._changed.notify_all()

    def set_rate(self, rate: float) -> None:
        """Take so many steps a second."""
        with self._changed:
            self._rate = rate
            self._changed.notify_all()

    def take_scene(self) -> Scene | None:
        """Return what is to be shown now: a slow screen skips what came before."""
        with self._changed:
            scene, self._scene = self._scene, None
            return scene

    def set_pictures(self, pictures: Pictures) -> None:
        """Record pictures of another size, or none, from the next step on."""
        self._pictures = pictures

    # --- the thread ------------------------------------------------------------------------------

    def run(self) -> None:
        """Play until left."""
        try:
            stage = Stage(self._game.env_id)
        except Exception as error:  # the environment's, of anybody's making
            self.failed.emit(f"{self._game.env_id} can not be made: {error}")
            return
        try:
            self._play(stage)
        except Exception as error:  # as above; the record says so, too
            self.failed.emit(f"{self._game.env_id} failed: {type(error).__name__}: {error}")
        finally:
            stage.close()

    def _play(self, stage: Stage) -> None:
        record = open_record(self.run_id)
        try:
            self.opened.emit(RecordPlace(self.run_id, record.where, record.store_path))
            with SessionController(
                stage,
                record.telemetry,
                run_id=self.run_id,
                record_frames=True,
            ) as session:
                while (action := self._wait_for_action(session)) is not None:
                    stage.pictures = self._pictures
                    if action is _RESTART:
                        self._begin(session, stage)
                    else:
                        self._act(session, stage, record, action)
        finally:
            record.close()

    def _begin(self, session: SessionController, stage: Stage) -> None:
        self._keyboard.clear()
        self._last_action = None
        session.begin_episode(seed=self._seed)
        self._show(session, stage, None)

    def _act(
        self, session: SessionController, stage: Stage, record: GameRecord, action: Any
    ) -> None:
        self._show(session, stage, session.act(action))
        if session.episode_over and record.flush(FLUSH_SECONDS):
            self.stored.emit(session.episode)

    def _show(self, session: SessionController, stage: Stage, step: StepRecord | None) -> None:
        assert stage.picture is not None
        ending = ""
        if step is not None and session.episode_over:
            ending = "terminated" if step.terminated else "out of time"
        scene = Scene(
            image=image_of(stage.picture),
            episode=session.episode,
            steps=session.steps,
            reward=None if step is None else step.reward,
            total=session.episode_return,
            over=session.episode_over,
            ending=ending,
        )
        with self._changed:
            is_awaited = self._scene is None
            self._scene = scene
        if is_awaited:
            self.scene_ready.emit()

    def _wait_for_action(self, session: SessionController) -> Any:
        """Return the next action, or _RESTART; None when it is over."""
        with self._changed:
            while not self._left:
                if self._restart:
                    self._restart = False
                    return _RESTART
                delay: float | None = None
                if not self._paused and not session.episode_over:
                    delay = self._due - time.monotonic() if self._pace is not Pace.TURNS else 0.0
                    if delay <= 0:
                        action = self._next_action()
                        if action is not None:
                            self._set_next_due()
                            self._last_action = action
                            return action
                        delay = None
                self._changed.wait(delay)
            return None

    def _set_next_due(self) -> None:
        """Keep the rate; what was missed by more than a step is not made up for in a rush."""
        interval, now = 1 / self._rate, time.monotonic()
        self._due = (self._due if now - self._due < interval else now) + interval

    def _next_action(self) -> Any:
        if self._pace is Pace.TURNS:
            return self._keyboard.next_turn()
        if not self._keyboard.touched:
            return None  # nobody wants to lose before the first key
        if self._pace is Pace.HELD:
            return self._keyboard.current_held()
        action = self._keyboard.current()
        return self._last_action if action is None else action


def _run_id(env_id: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", env_id.lower()).strip("-")
    now = time.time()
    moment = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    return f"human-{name}-{moment}-{int(now % 1 * 1000):03}"
