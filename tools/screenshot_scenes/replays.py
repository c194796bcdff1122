"""A recorded episode, looked at again."""

from __future__ import annotations

from PyQt6.QtGui import QPixmap
from PyQt6.QtTest import QTest

from lanekit.viewer.human.stage import Pictures
from lanekit.viewer.replay.window import ReplayWindow
from screenshot_scenes.live_run import wait_until
from screenshot_scenes.recorded_games import home, record_lander, theme

RUN = "lander-heuristic-seed3"


def _replay(*, dark: bool, pictures: Pictures, share: float, playing: bool = False) -> QPixmap:
    with theme(dark=dark), home() as directory:
        path = directory / "runs.db"
        record_lander(path, RUN, pictures=pictures)
        window = ReplayWindow(RUN, path)
        window.show()
        model = window.model
        wait_until(lambda: model.tape is not None)
        model.seek(round(share * model.last))
        if pictures is not Pictures.NONE:
            wait_until(lambda: model.shown_index == model.index)
        if playing:
            model.set_speed(0.25)
            model.play()
        QTest.qWait(150)
        picture = window.grab()
        window.close()
        wait_until(lambda: not model.loader.is_alive)
        window.deleteLater()
        QTest.qWait(1)
        return picture


def dark() -> QPixmap:
    """In the middle of an episode, playing."""
    return _replay(dark=True, pictures=Pictures.FULL, share=0.55, playing=True)


def light() -> QPixmap:
    """The same in the light theme, standing still."""
    return _replay(dark=False, pictures=Pictures.FULL, share=0.3)


def numbers_only() -> QPixmap:
    """A run that recorded no pictures."""
    return _replay(dark=True, pictures=Pictures.NONE, share=0.7)


def numbers_only_light() -> QPixmap:
    """The same in the light theme."""
    return _replay(dark=False, pictures=Pictures.NONE, share=0.7)


SCENES = {
    "replay-dark": dark,
    "replay-light": light,
    "replay-without-frames": numbers_only,
    "replay-without-frames-light": numbers_only_light,
}
