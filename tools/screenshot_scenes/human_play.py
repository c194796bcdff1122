"""A person at the controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QPixmap
from PyQt6.QtTest import QTest

from lanekit.viewer.human.environments import examine
from lanekit.viewer.human.window import HumanPlayWindow
from screenshot_scenes.live_run import wait_until
from screenshot_scenes.recorded_games import home, theme


@contextmanager
def _window(*, dark: bool) -> Iterator[HumanPlayWindow]:
    with theme(dark=dark), home():
        window = HumanPlayWindow()
        window.show()
        window.activateWindow()
        wait_until(lambda: "can be played" in window.chooser.count.text())
        try:
            yield window
        finally:
            player = window.page.player
            window.close()
            wait_until(lambda: player is None or not player.is_alive)
            window.deleteLater()
            QTest.qWait(1)


def _game(env_id: str, then: Callable[[HumanPlayWindow], None], *, dark: bool = True) -> QPixmap:
    with _window(dark=dark) as window:
        window.page.settings.seed_box.setText("7")
        window.play(examine(env_id))
        wait_until(lambda: window.page.scene is not None and window.page.place is not None)
        then(window)
        QTest.qWait(120)
        return window.grab()


def _steps(window: HumanPlayWindow) -> int:
    return 0 if window.page.scene is None else window.page.scene.steps


def _balance(window: HumanPlayWindow) -> None:
    """Push to one side and the other, and stand still while a key is held."""
    picture = window.page.picture
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Right) * 4:
        before = _steps(window)
        QTest.keyPress(picture, key)
        wait_until(lambda before=before: _steps(window) > before)
        QTest.keyRelease(picture, key)
    window.page.player.set_paused(True)  # type: ignore[union-attr] - the picture, not the window
    QTest.keyPress(picture, Qt.Key.Key_Right)


def _crash(window: HumanPlayWindow) -> None:
    """Land as people do at first."""
    page = window.page
    page.settings.speed_box.setCurrentIndex(4)
    page.settings.changed.emit()
    QTest.keyClick(page.picture, Qt.Key.Key_Up)
    wait_until(lambda: page.replay_button.isEnabled())


def _walk(window: HumanPlayWindow) -> None:
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Up):
        before = _steps(window)
        QTest.keyClick(window.page.picture, key)
        wait_until(lambda before=before: _steps(window) > before)


def _choose(*, dark: bool) -> QPixmap:
    with _window(dark=dark) as window:
        window.resize(940, 720)
        window.chooser.select("LunarLander-v3")
        QTest.qWait(50)
        bar = window.chooser.table.verticalScrollBar()
        assert bar is not None
        bar.setValue(5)  # from the selected one to those that can not be played
        QTest.qWait(50)
        return window.grab()


SCENES = {
    "play-choose": lambda: _choose(dark=True),
    "play-choose-light": lambda: _choose(dark=False),
    "play-cartpole": lambda: _game("CartPole-v1", _balance),
    "play-cartpole-light": lambda: _game("CartPole-v1", _balance, dark=False),
    "play-episode-over": lambda: _game("LunarLander-v3", _crash),
    "play-taxi": lambda: _game("Taxi-v4", _walk),
}
