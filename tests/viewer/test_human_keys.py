"""Keys of the games, and what pressing them means."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import engines  # noqa: F401 - before any environment
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from PyQt6.QtCore import QEvent, Qt
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import QApplication, QLineEdit, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from lanekit.integrations.playing.environments import NotPlayable, actions_of, newest_env_ids
from lanekit.integrations.playing.quiet_engines import quiet_engines
from lanekit.viewer.human.environments import Game, examine
from lanekit.viewer.human.families import key_map_for
from lanekit.viewer.human.input_controller import MOST_TURNS, HumanInputController
from lanekit.viewer.human.key_map import KeyMap

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)

LEFT, RIGHT, UP = Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up


# --- maps ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def games() -> list[Game]:
    specs = map(gymnasium.spec, newest_env_ids())
    return [examine(spec.id) for spec in specs if "mujoco" not in str(spec.entry_point)]


def test_every_key_of_every_game_is_an_action_of_its_space(games: list[Game]) -> None:
    playable = {game.env_id: game.keys for game in games if game.keys is not None}
    assert {"CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1"} <= playable.keys()
    for env_id, keys in playable.items():
        with gymnasium.make(env_id) as env:
            space = env.action_space
        actions = [keys.action([binding]) for binding in keys.bindings]
        assert all(space.contains(action) for action in actions), env_id
        assert keys.idle is None or space.contains(keys.idle), env_id
        codes = [code for binding in keys.bindings for code in binding.codes]
        assert len(codes) == len(set(codes)), f"{env_id}: a key has two meanings"
        if isinstance(space, spaces.Discrete):
            idle = set() if keys.idle is None else {keys.idle}
            all_of_them = set(range(int(space.start), int(space.start + space.n)))
            assert {*actions, *idle} == all_of_them, f"{env_id}: an action has no key"


def test_what_can_not_be_played_says_why(games: list[Game]) -> None:
    for game in games:
        assert (game.keys is None) == bool(game.reason)
    reasons = {game.env_id: game.reason for game in games}
    if reasons.get("phys2d/CartPole-v1"):
        assert "jax" in reasons["phys2d/CartPole-v1"]


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (spaces.Discrete(37), "37 actions; there are keys for 36"),
        (spaces.Box(-1, 1, (7,)), "7 axes; there are keys for 6"),
        (spaces.Box(-1, 1, (2, 2)), "arrays of shape"),
        (spaces.Box(0, 9, (2,), np.int64), "int64"),
        (spaces.MultiDiscrete([2, 2]), "MultiDiscrete actions have no keys"),
        (spaces.Dict(a=spaces.Discrete(2)), "Dict actions have no keys"),
    ],
)
def test_action_spaces_without_keys_are_refused_with_the_reason(
    space: spaces.Space, reason: str
) -> None:
    with pytest.raises(NotPlayable, match=reason):
        key_map_for("Anything", actions_of(space))


def test_an_unknown_game_gets_number_keys_from_its_first_action_on() -> None:
    keys = key_map_for("Unheard", actions_of(spaces.Discrete(12, start=3)))
    assert [binding.keys[0] for binding in keys.bindings] == [*"0123456789AB"]
    assert [keys.action([binding]) for binding in keys.bindings] == list(range(3, 15))
    assert keys.turns


def test_a_known_name_with_another_action_space_gets_no_wrong_keys() -> None:
    keys = key_map_for("CartPole", actions_of(spaces.Discrete(3)))
    assert [binding.label for binding in keys.bindings] == ["action 0", "action 1", "action 2"]


def test_axes_go_to_their_ends_and_the_newest_key_of_an_axis_wins() -> None:
    space = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, np.inf], np.float32))
    keys = key_map_for("Unheard", actions_of(space))
    left, right, down, up = keys.bindings
    np.testing.assert_array_equal(keys.idle, [0, 0])
    np.testing.assert_array_equal(keys.action([left, up]), [-2, 1])
    np.testing.assert_array_equal(keys.action([left, right]), [2, 0])
    np.testing.assert_array_equal(keys.action([up, down]), [0, 0])


def test_words_for_actions_become_arrows_and_keys_held_together() -> None:
    words = ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]
    keys = key_map_for("SpaceInvaders", actions_of(spaces.Discrete(6), words))
    fire, right, left = keys.bindings
    assert keys.idle == 0
    assert keys.action([right]) == 2
    assert keys.action([fire, right]) == keys.action([right, fire]) == 4
    assert keys.action([left, fire]) == 5


def test_looking_at_mujoco_environments_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    game = examine("HalfCheetah-v5")  # whose model is out of date, and says so
    assert game.keys is not None
    assert len(game.keys.bindings) == 12
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_another_thread_is_importing_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", ModuleType("mujoco"))  # nothing in it yet
    quiet_engines()
    assert examine("CartPole-v1").reason == ""


# --- the keyboard -------------------------------------------------------------------------------


class Desk(QWidget):
    """A widget that the controller listens to, and another that can have the keyboard."""

    def __init__(self, keys: KeyMap) -> None:
        super().__init__()
        self.keyboard = HumanInputController(self)
        self.keyboard.set_key_map(keys)
        self.game = QWidget(self)
        self.game.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.game.installEventFilter(self.keyboard)
        self.other = QLineEdit(self)
        layout = QVBoxLayout(self)
        layout.addWidget(self.game)
        layout.addWidget(self.other)


def desk_for(qtbot: QtBot, name: str, space: spaces.Space) -> Desk:
    desk = Desk(key_map_for(name, actions_of(space)))
    qtbot.addWidget(desk)
    desk.show()
    desk.activateWindow()
    desk.game.setFocus()
    qtbot.waitUntil(desk.game.hasFocus)
    return desk


@pytest.fixture
def lander(qtbot: QtBot) -> Desk:
    return desk_for(qtbot, "LunarLander", spaces.Discrete(4))


def repeat(widget: QWidget, key: Qt.Key) -> None:
    """What a keyboard sends while a key is held."""
    for kind in (QEvent.Type.KeyRelease, QEvent.Type.KeyPress):
        event = QKeyEvent(kind, key.value, Qt.KeyboardModifier.NoModifier, "", True)
        QApplication.sendEvent(widget, event)


def test_a_held_key_acts_until_it_is_let_go(qtbot: QtBot, lander: Desk) -> None:
    keyboard = lander.keyboard
    assert keyboard.current() == 0
    qtbot.keyPress(lander.game, UP)
    assert [keyboard.current() for _ in range(3)] == [2, 2, 2]
    qtbot.keyRelease(lander.game, UP)
    assert keyboard.current() == 0


def test_the_newest_of_two_keys_acts_and_then_the_older_again(qtbot: QtBot, lander: Desk) -> None:
    qtbot.keyPress(lander.game, LEFT)
    qtbot.keyPress(lander.game, UP)
    assert lander.keyboard.current() == 2
    qtbot.keyRelease(lander.game, UP)
    assert lander.keyboard.current() == 1


def test_a_tap_between_two_steps_counts_once(qtbot: QtBot, lander: Desk) -> None:
    qtbot.keyClick(lander.game, RIGHT)
    assert [lander.keyboard.current() for _ in range(2)] == [3, 0]
    assert lander.keyboard.current_held() is None


def test_a_key_that_repeats_itself_is_one_press(qtbot: QtBot, lander: Desk) -> None:
    qtbot.keyPress(lander.game, UP)
    for _ in range(5):
        repeat(lander.game, UP)
    assert lander.keyboard.current() == 2
    assert lander.keyboard.next_turn() == 2
    assert lander.keyboard.next_turn() is None
    qtbot.keyRelease(lander.game, UP)
    assert lander.keyboard.current() == 0


def test_keys_are_let_go_when_the_keyboard_goes_elsewhere(qtbot: QtBot, lander: Desk) -> None:
    qtbot.keyPress(lander.game, UP)
    lander.other.setFocus()
    qtbot.waitUntil(lander.other.hasFocus)
    assert lander.keyboard.held == []
    assert lander.keyboard.current() == 0
    qtbot.keyClicks(lander.other, "wad")
    assert lander.other.text() == "wad"
    assert lander.keyboard.next_turn() == 2  # pressed while it was the game's
    assert lander.keyboard.next_turn() is None


def test_moves_typed_ahead_come_in_order_and_are_bounded(qtbot: QtBot) -> None:
    desk = desk_for(qtbot, "FrozenLake", spaces.Discrete(4))
    for key in (LEFT, UP, RIGHT):
        qtbot.keyClick(desk.game, key)
    assert [desk.keyboard.next_turn() for _ in range(4)] == [0, 3, 2, None]
    for _ in range(50):
        qtbot.keyClick(desk.game, LEFT)
    turns = 0
    while desk.keyboard.next_turn() is not None:
        turns += 1
    assert turns == MOST_TURNS


def test_other_keys_are_left_to_the_window(qtbot: QtBot, lander: Desk) -> None:
    assert not lander.keyboard.press(Qt.Key.Key_F5.value)
    qtbot.keyClick(lander.game, Qt.Key.Key_X)
    assert lander.keyboard.next_turn() is None
    assert not lander.keyboard.touched
