"""Where a game is recorded, and what is left when an environment fails or a window closes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import registry
from human_desk import (  # noqa: F401 - fixtures, too
    DOWN,
    LEFT,
    close_and_wait,
    our_threads,
    play,
    play_window,
    press_and_wait,
    state_of_its_own,
    steps_shown,
    wait,
)
from PyQt6 import sip
from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

sys.path.append(str(Path(__file__).resolve().parent.parent / "slow"))

from daemon_process import DaemonProcess

from lanekit.slow.store.run_store import RunStore
from lanekit.viewer.human.window import HumanPlayWindow
from patience import patience

pytestmark = [
    pytest.mark.pygame,
    pytest.mark.qt_log_ignore("This plugin does not support", extend=True),
]


def test_a_daemon_that_answers_records_the_game(
    qtbot: QtBot, state: Path, window: HumanPlayWindow
) -> None:
    daemon = DaemonProcess(state).start()
    try:
        play(qtbot, window, "FrozenLake-v1", seed=5)
        page = window.page
        assert page.where.text().startswith("Recorded by the daemon as human-frozenlake-v1-")
        while not page.scene.over:  # type: ignore[union-attr]
            press_and_wait(qtbot, window, DOWN)
        wait(qtbot, page.replay_button.isEnabled)
        page.request_replay()
        assert window.replay is not None
        model = window.replay.model
        wait(qtbot, lambda: model.tape is not None and model.shown_index == 0)
        assert model.tape is not None
        assert page.scene is not None
        assert len(model.tape) == page.scene.steps
        assert model.tape.total[-1] == page.scene.total
        assert page.place is not None
        run_id = page.place.run_id
        window.replay.close()
        window.replay = None
        close_and_wait(qtbot, window)
        with RunStore.open(state / "lanekit.db") as store:
            assert set(store.steps(run_id).action) == {1}
            assert store.run(run_id).state == "completed"
    finally:
        daemon.close()


def test_a_game_without_a_place_for_its_record_can_be_played_and_says_so(
    qtbot: QtBot, state: Path, window: HumanPlayWindow
) -> None:
    (state / "lanekit.db").write_text("not a database at all, but long enough to be looked at")
    play(qtbot, window, "FrozenLake-v1", seed=5)
    assert window.page.where.text().startswith("Not recorded: ")
    while not window.page.scene.over:  # type: ignore[union-attr]
        press_and_wait(qtbot, window, DOWN)
    qtbot.keyClick(window.page.picture, Qt.Key.Key_F6)
    assert window.replay is None


GO_ON = threading.Event()


class Breaking(gymnasium.Env[int, int]):
    """Fails at its third step; takes as long for each as the test wants."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - Gymnasium's
    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.steps = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.steps = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        assert GO_ON.wait(patience(20))
        if self.steps == 3:
            raise RuntimeError("the wheels came off")
        return 1, 1.0, False, False, {}

    def render(self) -> Any:
        return np.full((40, 60, 3), self.steps * 50, np.uint8)


@pytest.fixture
def breaking() -> Iterator[str]:
    GO_ON.set()
    gymnasium.register("Breaking-v0", entry_point=lambda **more: Breaking(**more))
    yield "Breaking-v0"
    registry.pop("Breaking-v0")


def test_an_environment_that_fails_says_so_and_its_run_has_failed(
    qtbot: QtBot, state: Path, window: HumanPlayWindow, breaking: str
) -> None:
    play(qtbot, window, breaking)
    page = window.page
    press_and_wait(qtbot, window, Qt.Key.Key_0)
    press_and_wait(qtbot, window, Qt.Key.Key_1)
    qtbot.keyClick(page.picture, Qt.Key.Key_1)
    wait(qtbot, lambda: "the wheels came off" in page.status.text())
    assert page.place is not None
    wait(qtbot, lambda: "lanekit-game" not in our_threads())
    with RunStore.open(state / "lanekit.db") as store:
        run = store.run(page.place.run_id)
        assert (run.state, run.steps) == ("failed", 2)
        assert store.steps(page.place.run_id).action == [0, 1]


def test_the_window_obeys_and_closes_while_the_environment_takes_its_time(
    qtbot: QtBot, state: Path, window: HumanPlayWindow, breaking: str
) -> None:
    play(qtbot, window, breaking)
    page = window.page
    assert page.place is not None
    GO_ON.clear()
    qtbot.keyPress(page.picture, Qt.Key.Key_1)
    qtbot.keyRelease(page.picture, Qt.Key.Key_1)
    qtbot.keyClick(page.picture, Qt.Key.Key_Escape)
    assert page.paused
    run_id = page.place.run_id
    window.close()
    assert not window.isVisible()
    assert "lanekit-game" in our_threads()
    GO_ON.set()
    wait(qtbot, lambda: not our_threads())
    with RunStore.open(state / "lanekit.db") as store:
        assert store.steps(run_id).action in ([], [1])  # paused before, or while, it stepped
        assert store.run(run_id).state == "completed"


@pytest.mark.parametrize("when", ["while environments are looked at", "in a game"])
def test_a_window_that_is_deleted_when_closed_leaves_nothing_behind(
    qtbot: QtBot, state: Path, when: str
) -> None:
    window = HumanPlayWindow()
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    window.show()
    if when == "in a game":
        play(qtbot, window, "MountainCar-v0")
        qtbot.keyClick(window.page.picture, LEFT)
        wait(qtbot, lambda: steps_shown(window) > 2)
    window.close()
    wait(qtbot, lambda: not our_threads())
    wait(qtbot, lambda: sip.isdeleted(window))
    assert not any(isinstance(w, HumanPlayWindow) for w in QApplication.topLevelWidgets())
