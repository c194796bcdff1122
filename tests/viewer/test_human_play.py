"""A person plays: real keys, real environments, and the record compared with what was played."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from human_desk import (  # noqa: F401 - fixtures, too
    DOWN,
    LEFT,
    RIGHT,
    UP,
    close_and_wait,
    play,
    play_window,
    press_and_wait,
    state_of_its_own,
    steps_shown,
    wait,
)
from pictures import rgb_of
from PyQt6.QtCore import QEvent, Qt
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from lanekit.slow.store.run_store import RunStore
from lanekit.viewer.human.game_player import Pace
from lanekit.viewer.human.stage import SMALL, shrunk
from lanekit.viewer.human.window import HumanPlayWindow

pytestmark = [
    pytest.mark.pygame,
    pytest.mark.qt_log_ignore("This plugin does not support", extend=True),
]

FROZEN_ACTIONS = {LEFT: 0, DOWN: 1, RIGHT: 2, UP: 3}


# --- choosing -----------------------------------------------------------------------------------


def test_an_environment_is_searched_for_and_chosen_with_the_keyboard(
    qtbot: QtBot, window: HumanPlayWindow
) -> None:
    chooser = window.chooser
    window.setFocus()
    assert window.focusWidget() is chooser.search
    wait(qtbot, lambda: "can be played" in chooser.count.text())
    qtbot.keyClicks(chooser.search, "cartp")
    assert chooser.shown.index(0, 0).data() == "CartPole-v1"
    assert chooser.play.isEnabled()
    qtbot.keyClick(chooser.search, Qt.Key.Key_Return)
    assert window.pages.currentWidget() is window.page
    wait(qtbot, lambda: window.page.scene is not None)
    assert window.page.status.text() == "Press a key of the game to begin."
    assert window.focusWidget() is window.page.picture
    qtbot.keyClick(window, Qt.Key.Key_F2)
    assert window.pages.currentWidget() is chooser
    assert window.focusWidget() is chooser.search


def test_what_can_not_be_played_is_grey_with_the_reason_and_below_the_others(
    qtbot: QtBot, window: HumanPlayWindow
) -> None:
    chooser = window.chooser
    wait(qtbot, lambda: "can be played" in chooser.count.text())
    enabled = [
        bool(chooser.shown.index(row, 0).flags() & Qt.ItemFlag.ItemIsEnabled)
        for row in range(chooser.shown.rowCount())
    ]
    assert enabled == sorted(enabled, reverse=True)
    assert not all(enabled)
    assert chooser.shown.index(enabled.index(False), 2).data() != ""
    qtbot.keyClicks(chooser.search, "GymV21")
    assert chooser.shown.rowCount() == 1
    assert not chooser.play.isEnabled()
    qtbot.keyClick(chooser.search, Qt.Key.Key_Return)
    assert window.pages.currentWidget() is chooser


# --- playing ------------------------------------------------------------------------------------


def test_each_key_is_a_step_of_a_grid_world_and_the_record_is_what_was_played(
    qtbot: QtBot, window: HumanPlayWindow, state: Path
) -> None:
    play(qtbot, window, "FrozenLake-v1", seed=4)
    page = window.page
    assert page.settings.pace is Pace.TURNS
    assert "No daemon runs: recorded in" in page.where.text()
    played: list[Qt.Key] = []
    for key in (DOWN, RIGHT, LEFT, UP) * 20:
        if page.scene is not None and page.scene.over:
            break
        press_and_wait(qtbot, window, key)
        played.append(key)
    assert page.scene is not None
    assert page.scene.over
    shown = page.scene
    wait(qtbot, page.replay_button.isEnabled)
    assert page.place is not None
    run_id = page.place.run_id
    close_and_wait(qtbot, window)

    # The same environment, seed and actions, without any of lanekit.
    env = gymnasium.make("FrozenLake-v1", render_mode="rgb_array")
    env.reset(seed=4)
    with RunStore.open(state / "lanekit.db") as store:
        steps = list(store.steps(run_id))
        assert [step.action for step in steps] == [FROZEN_ACTIONS[key] for key in played]
        frames = store.frames(run_id)
        for step, frame in zip(steps, frames, strict=True):
            observation, reward, terminated, truncated, _ = env.step(step.action)
            assert (step.observation, step.reward) == (observation, reward)
            assert (step.terminated, step.truncated) == (terminated, truncated)
            np.testing.assert_array_equal(frame.pixels, shrunk(env.render(), SMALL))
        (episode,) = store.episodes(run_id)
        assert episode.length == len(played) == shown.steps
        assert episode.episode_return == shown.total == sum(step.reward for step in steps)
        assert episode.seed == 4
        assert store.run(run_id).state == "completed"
        started = store.events(run_id)[0]
        assert started.payload == {"human": True, "environment": "FrozenLake-v1"}
    env.close()


def test_a_held_key_plays_in_its_own_time_and_lights_up(
    qtbot: QtBot, window: HumanPlayWindow, state: Path
) -> None:
    play(qtbot, window, "CartPole-v1", seed=1)
    page = window.page
    assert page.settings.pace is Pace.HELD
    assert [cap.lit for cap in page.legend.caps] == [False] * 4
    qtbot.keyPress(page.picture, RIGHT)
    assert {cap.text(): cap.lit for cap in page.legend.caps} == {
        "←": False,
        "A": False,
        "→": True,
        "D": False,
    }
    for _ in range(30):  # what a keyboard sends meanwhile
        event = QKeyEvent(
            QEvent.Type.KeyPress, RIGHT.value, Qt.KeyboardModifier.NoModifier, "", True
        )
        QApplication.sendEvent(page.picture, event)
    wait(qtbot, lambda: page.scene is not None and page.scene.over)
    qtbot.keyRelease(page.picture, RIGHT)
    assert not any(cap.lit for cap in page.legend.caps)
    assert page.scene is not None
    assert f"return {page.scene.total:g} in {page.scene.steps} steps" in page.status.text()
    assert page.restart_button.text() == "Play again"
    wait(qtbot, page.replay_button.isEnabled)
    assert page.place is not None
    with RunStore.open(state / "lanekit.db") as store:
        steps = store.steps(page.place.run_id)
        assert steps.action == [1] * page.scene.steps
        assert steps.reward.sum() == page.scene.total
        # At most one step is made up for: no rush when the first key comes.
        assert np.ptp(steps.wall_time_ns) >= (page.scene.steps - 2) * 0.95e9 / 50


def test_a_game_that_has_an_idle_action_goes_on_without_keys_once_it_began(
    qtbot: QtBot, window: HumanPlayWindow, state: Path
) -> None:
    play(qtbot, window, "MountainCar-v0", seed=3)
    page = window.page
    assert page.settings.pace is Pace.REAL_TIME
    assert steps_shown(window) == 0
    qtbot.keyClick(page.picture, LEFT)
    wait(qtbot, lambda: steps_shown(window) >= 5)
    qtbot.keyClick(page.picture, Qt.Key.Key_Escape)
    assert page.paused
    assert page.status.text() == "Paused. Esc goes on."

    def stands_still() -> bool:
        shown = steps_shown(window)
        qtbot.wait(150)
        return steps_shown(window) == shown

    wait(qtbot, stands_still)  # after the step that was under way
    stood = steps_shown(window)
    qtbot.wait(150)
    assert steps_shown(window) == stood
    qtbot.keyClick(page.picture, Qt.Key.Key_Escape)
    wait(qtbot, lambda: steps_shown(window) > stood)
    assert page.place is not None
    run_id = page.place.run_id
    close_and_wait(qtbot, window)
    with RunStore.open(state / "lanekit.db") as store:
        actions = store.steps(run_id).action
        assert actions[0] == 0
        assert set(actions[1:]) == {1}
        (episode,) = store.episodes(run_id)
        assert (episode.terminated, episode.truncated) == (False, True)
        assert store.run(run_id).state == "completed"


def test_axes_are_recorded_as_they_were_pushed(
    qtbot: QtBot, window: HumanPlayWindow, state: Path
) -> None:
    play(qtbot, window, "Pendulum-v1")
    page = window.page
    qtbot.keyPress(page.picture, LEFT)
    wait(qtbot, lambda: steps_shown(window) >= 3)
    qtbot.keyRelease(page.picture, LEFT)
    then = steps_shown(window)
    wait(qtbot, lambda: steps_shown(window) >= then + 4)
    assert page.place is not None
    run_id = page.place.run_id
    close_and_wait(qtbot, window)
    with RunStore.open(state / "lanekit.db") as store:
        actions = store.steps(run_id).action
        assert actions[:3] == [[-2.0]] * 3
        assert actions[-1] == [0.0]


def test_enter_plays_again_and_a_seed_begins_the_same_game(
    qtbot: QtBot, window: HumanPlayWindow
) -> None:
    play(qtbot, window, "CartPole-v1", seed=11)
    page = window.page
    assert page.scene is not None
    first = rgb_of(page.scene.image)
    qtbot.keyPress(page.picture, LEFT)
    wait(qtbot, lambda: page.scene.over)
    qtbot.keyRelease(page.picture, LEFT)
    qtbot.keyClick(page.picture, Qt.Key.Key_Return)
    wait(qtbot, lambda: page.scene.episode == 1)
    assert page.scene.steps == 0
    np.testing.assert_array_equal(rgb_of(page.scene.image), first)
    assert page.picture.hasFocus()


def test_the_replay_button_opens_the_very_episode_with_its_pictures(
    qtbot: QtBot, window: HumanPlayWindow
) -> None:
    page = window.page
    page.settings.pictures_box.setCurrentText("full-size pictures")
    play(qtbot, window, "CartPole-v1", seed=2)
    for episode in (0, 1):  # the second one is what is replayed
        qtbot.keyPress(page.picture, RIGHT)
        wait(qtbot, lambda episode=episode: page.stored_episode == episode)
        qtbot.keyRelease(page.picture, RIGHT)
        if episode == 0:
            page.settings.seed_box.setText("9")
            qtbot.keyClick(page.picture, Qt.Key.Key_F5)
            wait(qtbot, lambda: page.scene.episode == 1)
    qtbot.mouseClick(page.replay_button, Qt.MouseButton.LeftButton)
    assert window.replay is not None
    model, picture = window.replay.model, window.replay.picture
    wait(qtbot, lambda: model.tape is not None)
    assert model.tape is not None
    assert page.scene is not None
    assert (model.tape.episode, len(model.tape)) == (1, page.scene.steps)
    assert model.tape.ending == "terminated"
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.reset(seed=9)
    for index in range(len(model.tape)):
        env.step(1)
        model.seek(index)
        wait(qtbot, lambda index=index: model.shown_index == index)
        assert picture.image is not None
        np.testing.assert_array_equal(rgb_of(picture.image), env.render())
    env.close()


def test_a_replay_stays_when_the_window_it_came_from_is_gone(
    qtbot: QtBot, window: HumanPlayWindow
) -> None:
    play(qtbot, window, "FrozenLake-v1", seed=0)
    while not window.page.scene.over:  # type: ignore[union-attr]
        press_and_wait(qtbot, window, LEFT if steps_shown(window) % 2 else DOWN)
    wait(qtbot, window.page.replay_button.isEnabled)
    window.page.request_replay()
    replay = window.replay
    assert replay is not None
    window.close()
    wait(qtbot, lambda: replay.model.tape is not None)
    assert replay.isVisible()


def test_moves_typed_while_paused_are_not_played(qtbot: QtBot, window: HumanPlayWindow) -> None:
    play(qtbot, window, "FrozenLake-v1", seed=4)
    page = window.page
    press_and_wait(qtbot, window, LEFT)
    qtbot.keyClick(page.picture, Qt.Key.Key_Escape)
    for _ in range(3):
        qtbot.keyClick(page.picture, LEFT)
    qtbot.keyClick(page.picture, Qt.Key.Key_Escape)
    press_and_wait(qtbot, window, LEFT)
    assert steps_shown(window) == 2


def test_pace_and_record_can_be_changed_while_playing(
    qtbot: QtBot, window: HumanPlayWindow, state: Path
) -> None:
    play(qtbot, window, "CartPole-v1", seed=4)
    page = window.page
    page.settings.pace_box.setCurrentText("a step for each key")
    page.settings.pictures_box.setCurrentText("no pictures")
    page.settings.pace_box.activated.emit(page.settings.pace_box.currentIndex())
    assert not page.settings.speed_box.isEnabled()
    assert page.picture.hasFocus()
    for key in (LEFT, RIGHT, LEFT):
        press_and_wait(qtbot, window, key)
    assert page.place is not None
    run_id = page.place.run_id
    close_and_wait(qtbot, window)
    with RunStore.open(state / "lanekit.db") as store:
        assert store.steps(run_id).action == [0, 1, 0]
        assert len(store.frames(run_id)) == 0
