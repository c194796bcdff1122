"""What keys and buttons do with a replay, by name."""

from __future__ import annotations

from PyQt6.QtCore import QObject, pyqtSlot

from lanekit.viewer.replay.model import ReplayModel

_SHIFT_STEPS = 10
KEYS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("play", ("Space",)),
    ("next", ("Right", ".")),
    ("previous", ("Left", ",")),
    ("far_next", ("Shift+Right",)),
    ("far_previous", ("Shift+Left",)),
    ("first", ("Home",)),
    ("last", ("End",)),
    ("next_episode", ("PgDown",)),
    ("previous_episode", ("PgUp",)),
    ("faster", ("+", "=")),
    ("slower", ("-",)),
    ("loop", ("L",)),
    ("reload", ("F5",)),
)
_STEPS = {"next": 1, "previous": -1, "far_next": _SHIFT_STEPS, "far_previous": -_SHIFT_STEPS}
_EPISODES = {"next_episode": 1, "previous_episode": -1}
_SPEEDS = {"faster": 1, "slower": -1}


class ReplayActions(QObject):
    """Does what the model can; goes with it."""

    def __init__(self, model: ReplayModel) -> None:
        super().__init__(model)
        self._model = model

    @pyqtSlot(str)
    def act(self, name: str) -> None:
        """Do what a key or a button stands for."""
        model = self._model
        if name in _STEPS:
            model.step_by(_STEPS[name])
        elif name in _EPISODES:
            model.episode_by(_EPISODES[name])
        elif name in _SPEEDS:
            model.change_speed(_SPEEDS[name])
        elif name == "play":
            model.toggle_play()
        elif name == "first":
            model.seek(0)
        elif name == "last":
            model.seek(model.last)
        elif name == "loop":
            model.set_loop(not model.loop)
        else:
            assert name == "reload"
            model.reload()
