"""A window to play in, with a state directory of its own, and the hands that play."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engines  # noqa: F401 - before any environment
import pytest
from PyQt6.QtCore import Qt
from pytestqt.qtbot import QtBot

from lanekit.viewer.human.environments import examine
from lanekit.viewer.human.window import HumanPlayWindow
from patience import patience_ms

LEFT, RIGHT, UP, DOWN = Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down
OUR_THREADS = ("lanekit-game", "lanekit-game-scan", "lanekit-replay-loader", "lanekit-db-sink")


@pytest.fixture(name="state")
def state_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory of this test's own, with paths short enough for sockets."""
    directory = Path(tempfile.mkdtemp(prefix="lk-"))
    monkeypatch.setenv("LANEKIT_STATE", str(directory))
    monkeypatch.setenv("LANEKIT_DAEMON", f"unix:{directory / 'd.sock'}")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(name="window")
def play_window(qtbot: QtBot, state: Path) -> Iterator[HumanPlayWindow]:
    """The window; nothing of it is left when the test is over."""
    window = HumanPlayWindow()
    qtbot.addWidget(window)
    window.show()
    window.activateWindow()
    yield window
    if window.replay is not None:
        window.replay.close()
    window.close()
    qtbot.waitUntil(lambda: not our_threads(), timeout=patience_ms(30))


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name in OUR_THREADS]


def wait(qtbot: QtBot, condition: Any) -> None:
    qtbot.waitUntil(condition, timeout=patience_ms(30))


def play(qtbot: QtBot, window: HumanPlayWindow, env_id: str, seed: int | None = None) -> None:
    """Begin a game, as the list does when it is chosen from."""
    page = window.page
    if seed is not None:
        page.settings.seed_box.setText(str(seed))
    game = examine(env_id)
    assert game.reason == ""
    window.play(game)
    wait(qtbot, lambda: page.scene is not None and page.place is not None)


def close_and_wait(qtbot: QtBot, window: HumanPlayWindow) -> None:
    window.close()
    wait(qtbot, lambda: not our_threads())


def steps_shown(window: HumanPlayWindow) -> int:
    return -1 if window.page.scene is None else window.page.scene.steps


def press_and_wait(qtbot: QtBot, window: HumanPlayWindow, key: Qt.Key) -> None:
    """One move of a game that waits for each."""
    before = steps_shown(window)
    qtbot.keyClick(window.page.picture, key)
    wait(qtbot, lambda: steps_shown(window) == before + 1)
