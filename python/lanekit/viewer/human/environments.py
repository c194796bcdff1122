"""Which environments a person can play here, and why not the others."""

from __future__ import annotations

from dataclasses import dataclass

from PyQt6.QtCore import pyqtSignal

from lanekit.integrations.playing.environments import (
    USUAL_RATE,
    NotPlayable,
    look_at,
    newest_env_ids,
)
from lanekit.integrations.playing.quiet_engines import quiet_engines
from lanekit.viewer.human.families import key_map_for
from lanekit.viewer.human.key_map import KeyMap
from lanekit.viewer.replay.own_thread import OwnThread

_MOST_CAPS = 8


@dataclass(frozen=True)
class Game:
    """An environment, with its keys if it can be played."""

    env_id: str
    keys: KeyMap | None = None
    reason: str = ""
    """Why it can not be played."""
    rate: float = USUAL_RATE
    """Steps a second, as the environment's makers meant it."""

    @property
    def caps(self) -> str:
        """Its keys, as written on them."""
        bindings = () if self.keys is None else self.keys.bindings
        return " ".join(item.caps[0] for item in bindings[:_MOST_CAPS]) + (
            " …" if len(bindings) > _MOST_CAPS else ""
        )

    @property
    def how(self) -> str:
        """How it goes, or why it does not."""
        if self.keys is None:
            return self.reason
        if self.keys.turns:
            return "a step for each key"
        if self.keys.idle is None:
            return f"{self.rate:g} steps a second, while a key is held"
        return f"{self.rate:g} steps a second"


class GameScan(OwnThread):
    """Looks at every registered environment, in a thread: some take a while to load."""

    found = pyqtSignal(object)
    finished = pyqtSignal()

    def __init__(self) -> None:
        super().__init__("lanekit-game-scan")

    def run(self) -> None:
        """Tell of each one as soon as it is known."""
        quiet_engines()
        for env_id in newest_env_ids():
            if self._left:
                return
            self.found.emit(examine(env_id))
        self.finished.emit()


def examine(env_id: str) -> Game:
    """Find out how an environment is played."""
    try:
        found = look_at(env_id)
        return Game(env_id, key_map_for(found.name, found.actions), rate=found.rate)
    except NotPlayable as error:
        return Game(env_id, reason=str(error))
