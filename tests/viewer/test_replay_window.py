"""A recorded episode, looked at again: with the keyboard, the mouse, and without frames."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from pictures import rgb_of
from PyQt6.QtCore import QModelIndex, QPoint, QPointF, Qt
from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QApplication, QComboBox
from pytestqt.qtbot import QtBot

sys.path.append(str(Path(__file__).resolve().parent.parent / "slow"))

from recorded_runs import BEGIN, SECOND, Recording, filmed_steps, open_store, picture

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.replay.tape import EpisodeEntry, read_pixels
from lanekit.slow.store.run_store import RunStore
from lanekit.viewer.replay import loader
from lanekit.viewer.replay import model as replay_model
from lanekit.viewer.replay.episode_list import EpisodeList
from lanekit.viewer.replay.window import ReplayWindow
from patience import patience, patience_ms

# Qt's platform without a screen has no window manager to tell sizes to.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)

OpenReplay = Callable[..., ReplayWindow]


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def open_replay(qtbot: QtBot, store_path: Path) -> Iterator[OpenReplay]:
    """Open windows; each has closed, and its thread ended, when the test is over."""
    windows: list[ReplayWindow] = []

    def open_window(run_id: str = "run", **more: int) -> ReplayWindow:
        window = ReplayWindow(run_id, store_path, **more)
        windows.append(window)
        qtbot.addWidget(window)
        window.show()
        window.activateWindow()
        qtbot.waitUntil(
            lambda: window.model.tape is not None or window.model.problem != "",
            timeout=patience_ms(20),
        )
        return window

    yield open_window
    for window in windows:
        window.close()
        qtbot.waitUntil(lambda w=window: not w.model.loader.is_alive, timeout=patience_ms(20))


def record(path: Path, *steps: list[pb.Step], run_id: str = "run") -> None:
    with open_store(path) as store:
        recording = Recording(store, run_id)
        for rows in steps:
            recording.steps(rows)


def wait_for_frame(qtbot: QtBot, window: ReplayWindow, index: int) -> None:
    def shown() -> bool:
        return window.model.index == index and window.model.shown_index == index

    qtbot.waitUntil(shown, timeout=patience_ms(20))


def shown_pixels(window: ReplayWindow) -> np.ndarray:
    assert window.picture.image is not None
    return rgb_of(window.picture.image)


def values(window: ReplayWindow) -> dict[str, str]:
    return {name: label.text() for name, label in window.numbers.values.items()}


def test_the_first_frame_and_its_numbers_are_shown_at_once(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    record(store_path, filmed_steps(1, 10))
    window = open_replay()
    wait_for_frame(qtbot, window, 0)
    np.testing.assert_array_equal(shown_pixels(window), picture(0))
    assert window.middle.currentWidget() is window.picture
    assert values(window) == {
        "step": "0 of 9",
        "reward": "1",
        "return": "1",
        "action": "1",
        "time": "0.00 of 0.18 s",
    }
    assert not window.model.playing


def test_the_frame_is_on_the_screen_crisp_and_in_its_aspect_ratio(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    record(store_path, filmed_steps(1, 200))
    window = open_replay()
    window.model.seek(150)
    wait_for_frame(qtbot, window, 150)
    qtbot.waitUntil(lambda: _on_screen(window)[-1, -1, 0] == 150, timeout=patience_ms(20))
    pixels = _on_screen(window)
    height, width = pixels.shape[:2]
    assert abs(width / height - 6 / 4) < 0.02
    scale = width // 6
    expected = picture(150).repeat(scale, axis=0).repeat(scale, axis=1)
    assert (pixels[: expected.shape[0] // 2, scale + 2 :] == 150).all()
    assert (pixels[2 : scale - 2, 2 : scale - 2] == 0).all()


def _on_screen(window: ReplayWindow) -> np.ndarray:
    stage = window.picture.zoom.stage.toRect()
    grabbed = rgb_of(window.picture)
    return grabbed[stage.top() : stage.bottom() + 1, stage.left() : stage.right() + 1]


def test_arrows_step_home_and_end_jump_and_shift_takes_ten(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    record(store_path, filmed_steps(1, 40))
    window = open_replay()
    for key, modifier, index in (
        (Qt.Key.Key_Right, Qt.KeyboardModifier.NoModifier, 1),
        (Qt.Key.Key_Right, Qt.KeyboardModifier.NoModifier, 2),
        (Qt.Key.Key_Left, Qt.KeyboardModifier.NoModifier, 1),
        (Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier, 11),
        (Qt.Key.Key_End, Qt.KeyboardModifier.NoModifier, 39),
        (Qt.Key.Key_Right, Qt.KeyboardModifier.NoModifier, 39),
        (Qt.Key.Key_Home, Qt.KeyboardModifier.NoModifier, 0),
        (Qt.Key.Key_Left, Qt.KeyboardModifier.NoModifier, 0),
    ):
        qtbot.keyClick(window, key, modifier)
        assert window.model.index == index
        assert window.controls.slider.value() == index
        wait_for_frame(qtbot, window, index)
        np.testing.assert_array_equal(shown_pixels(window), picture(index))
        assert values(window)["return"] == str((index + 1) * (index + 2) // 2)


def test_space_plays_to_the_end_and_then_from_the_beginning(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    record(store_path, filmed_steps(1, 30, interval_ns=SECOND // 100))
    window = open_replay()
    seen: list[int] = []
    window.model.moved.connect(lambda: seen.append(window.model.index))
    qtbot.keyClick(window, Qt.Key.Key_Space)
    assert window.model.playing
    qtbot.waitUntil(lambda: not window.model.playing, timeout=patience_ms(20))
    assert window.model.index == 29
    assert seen == sorted(seen)
    wait_for_frame(qtbot, window, 29)
    qtbot.keyClick(window, Qt.Key.Key_Space)
    assert window.model.index == 0
    assert window.model.playing
    qtbot.keyClick(window, Qt.Key.Key_Space)
    assert not window.model.playing


def test_a_loop_begins_again(qtbot: QtBot, open_replay: OpenReplay, store_path: Path) -> None:
    record(store_path, filmed_steps(1, 5, interval_ns=SECOND // 100))
    window = open_replay()
    qtbot.keyClick(window, Qt.Key.Key_L)
    assert window.controls.loop.isChecked()
    seen: list[int] = []
    window.model.moved.connect(lambda: seen.append(window.model.index))
    qtbot.keyClick(window, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: seen.count(0) >= 2, timeout=patience_ms(20))
    assert window.model.playing


def test_plus_and_minus_change_the_speed_within_its_bounds(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(store_path, filmed_steps(1, 1000, every=1000, interval_ns=SECOND // 10))
    window = open_replay()
    for _ in range(9):
        qtbot.keyClick(window, Qt.Key.Key_Plus)
    assert window.controls.speed.currentText() == "16×"
    now = [100.0]
    monkeypatch.setattr(replay_model.time, "monotonic", lambda: now[0])
    window.model.play()
    now[0] += 1.003
    qtbot.waitUntil(lambda: window.model.index == 160, timeout=patience_ms(20))
    for _ in range(9):
        qtbot.keyClick(window, Qt.Key.Key_Minus)
    assert window.controls.speed.currentText() == "0.25×"
    now[0] += 4.2
    qtbot.waitUntil(lambda: window.model.index == 170, timeout=patience_ms(20))


def test_the_mouse_seeks_on_the_slider_and_on_the_curve(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    record(store_path, filmed_steps(1, 101))
    window = open_replay()
    slider = window.controls.slider
    qtbot.mouseClick(
        slider, Qt.MouseButton.LeftButton, pos=QPoint(slider.width() // 2, slider.height() // 2)
    )
    assert abs(window.model.index - 50) <= 1
    strip = window.strip
    there = QPointF(strip.x_of(20), strip.height() / 2).toPoint()
    qtbot.mouseClick(strip, Qt.MouseButton.LeftButton, pos=there)
    assert window.model.index == 20
    QTest.mousePress(strip, Qt.MouseButton.LeftButton, pos=there)
    QTest.mouseMove(strip, QPointF(strip.x_of(90), 10).toPoint())
    QTest.mouseRelease(strip, Qt.MouseButton.LeftButton)
    wait_for_frame(qtbot, window, window.model.index)
    np.testing.assert_array_equal(shown_pixels(window), picture(window.model.index))


def test_episodes_and_agents_are_chosen_from_lists_and_by_key(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    record(store_path, filmed_steps(3, 4, agent="red"), filmed_steps(2, 6, agent="blue"))
    window = open_replay()
    choices = window.choices
    assert choices.players.count() == 2
    model = window.model
    choices.players.activated.emit(choices.players.findText("w0 · red"))
    qtbot.waitUntil(
        lambda: model.tape is not None and len(model.tape) == 4, timeout=patience_ms(20)
    )
    assert [choices.episodes.itemText(i) for i in range(choices.episodes.count())] == [
        f"episode {number}: return 10, 4 steps" for number in range(3)
    ]
    for key, episode in ((Qt.Key.Key_PageDown, 1), (Qt.Key.Key_PageDown, 2)):
        qtbot.keyClick(window, key)
        qtbot.waitUntil(
            lambda episode=episode: model.tape is not None and model.tape.episode == episode,
            timeout=patience_ms(20),
        )
        wait_for_frame(qtbot, window, 0)
        np.testing.assert_array_equal(shown_pixels(window), picture(4 * episode))
    qtbot.keyClick(window, Qt.Key.Key_PageDown)
    assert model.episode == 2
    choices.players.activated.emit(choices.players.findText("w0 · blue"))
    qtbot.waitUntil(
        lambda: model.tape is not None and len(model.tape) == 6, timeout=patience_ms(20)
    )
    assert model.episode == 0


def test_a_window_can_be_opened_at_an_episode(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    record(store_path, filmed_steps(3, 4))
    window = open_replay(episode=2)
    wait_for_frame(qtbot, window, 0)
    np.testing.assert_array_equal(shown_pixels(window), picture(8))


def test_steps_between_two_frames_show_the_one_before(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    record(store_path, filmed_steps(1, 12, every=5))
    window = open_replay()
    window.model.seek(9)
    wait_for_frame(qtbot, window, 9)
    np.testing.assert_array_equal(shown_pixels(window), picture(5))
    assert values(window)["step"] == "9 of 11"


def test_a_run_without_frames_says_so_and_its_numbers_can_be_looked_through(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    steps = filmed_steps(1, 20)
    for step in steps:
        step.ClearField("frame")
    steps[3].ClearField("reward")
    record(store_path, steps)
    window = open_replay()
    assert window.middle.currentWidget() is window.empty
    assert window.empty.title.text() == "No pictures were recorded"
    assert "emit.step(..., frame=pixels)" in window.empty.detail.text()
    qtbot.keyClick(window, Qt.Key.Key_End)
    assert values(window)["return"] == "206"
    window.model.seek(3)
    assert values(window)["reward"] == "none"
    assert window.choices.episodes.currentText() == "episode 0: return 206, 20 steps"


def test_an_episode_without_frames_among_others_is_marked_in_the_list(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    steps = filmed_steps(2, 4)
    for step in steps[4:]:
        step.ClearField("frame")
    record(store_path, steps)
    window = open_replay()
    wait_for_frame(qtbot, window, 0)
    qtbot.keyClick(window, Qt.Key.Key_PageDown)
    qtbot.waitUntil(lambda: window.empty.title.text().startswith("No pictures of"))
    assert window.choices.episodes.currentText() == "episode 1: return 10, 4 steps, no pictures"
    qtbot.keyClick(window, Qt.Key.Key_PageUp)
    wait_for_frame(qtbot, window, 0)
    assert window.middle.currentWidget() is window.picture


@pytest.mark.parametrize("kind", ["no store", "no such run", "no steps"])
def test_what_can_not_be_replayed_is_said_in_words(
    open_replay: OpenReplay, store_path: Path, kind: str
) -> None:
    if kind != "no store":
        record(store_path, filmed_steps(1, 3), run_id="another")
    if kind == "no steps":
        with open_store(store_path) as store:
            Recording(store, "run").event("run_started")
    window = open_replay()
    words = {
        "no store": "there is no store",
        "no such run": "is not known",
        "no steps": "no recorded steps",
    }
    assert words[kind] in window.empty.detail.text()
    assert not window.controls.play.isEnabled()


def test_a_reload_finds_what_was_recorded_meanwhile(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    window = open_replay()
    assert window.model.problem
    record(store_path, filmed_steps(2, 3))
    qtbot.keyClick(window, Qt.Key.Key_F5)
    wait_for_frame(qtbot, window, 0)
    assert window.middle.currentWidget() is window.picture
    assert window.choices.episodes.count() == 2


def test_scrubbing_quickly_ends_at_the_frame_under_the_mouse(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    record(store_path, filmed_steps(1, 240))
    window = open_replay()
    for index in (*range(0, 240, 3), 17):
        window.controls.slider.setValue(index)
    wait_for_frame(qtbot, window, 17)
    np.testing.assert_array_equal(shown_pixels(window), picture(17))


def test_a_clock_that_went_backwards_is_told_and_can_be_played(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path
) -> None:
    steps = filmed_steps(1, 6)
    steps[3].wall_time_ns = BEGIN - SECOND
    record(store_path, steps)
    window = open_replay()
    assert "went backwards" in window.remarks.text()
    window.model.set_speed(16.0)
    window.model.play()
    qtbot.waitUntil(lambda: window.model.index == 5, timeout=patience_ms(20))


def test_the_window_obeys_while_a_frame_is_being_read_and_shows_only_the_newest(
    qtbot: QtBot, open_replay: OpenReplay, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(store_path, filmed_steps(1, 50))
    window = open_replay()
    wait_for_frame(qtbot, window, 0)
    go_on, begun = threading.Event(), threading.Event()
    read: list[int] = []

    def slow_disk(store: RunStore, frame_id: int) -> np.ndarray:
        begun.set()
        read.append(frame_id)
        assert go_on.wait(patience(20))
        return read_pixels(store, frame_id)

    monkeypatch.setattr(loader, "read_pixels", slow_disk)
    qtbot.keyClick(window, Qt.Key.Key_Right)
    assert begun.wait(patience(20))
    for _ in range(30):
        qtbot.keyClick(window, Qt.Key.Key_Right)
    assert values(window)["step"] == "31 of 49"
    go_on.set()
    wait_for_frame(qtbot, window, 31)
    np.testing.assert_array_equal(shown_pixels(window), picture(31))
    assert len(read) == 2


def test_a_window_that_nobody_holds_stays_until_it_is_closed(
    qtbot: QtBot, store_path: Path
) -> None:
    record(store_path, filmed_steps(1, 3))
    ReplayWindow("run", store_path).show()
    gc.collect()

    def open_windows() -> list[ReplayWindow]:
        gc.collect()
        return [w for w in QApplication.topLevelWidgets() if isinstance(w, ReplayWindow)]

    assert len(open_windows()) == 1
    qtbot.waitUntil(lambda: open_windows()[0].model.tape is not None, timeout=patience_ms(20))
    reading = open_windows()[0].model.loader
    open_windows()[0].close()
    qtbot.waitUntil(lambda: not reading.is_alive, timeout=patience_ms(20))
    qtbot.waitUntil(lambda: not open_windows(), timeout=patience_ms(20))


def test_a_hundred_thousand_episodes_are_put_into_words_only_when_seen(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    words = EpisodeList.data

    def counted(self: EpisodeList, index: QModelIndex, role: int = 0) -> str | None:
        asked.append(index.row())
        return words(self, index, role)

    monkeypatch.setattr(EpisodeList, "data", counted)
    box = QComboBox()
    qtbot.addWidget(box)
    episodes = EpisodeList(box)
    box.setModel(episodes)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    episodes.set_entries([EpisodeEntry(number, 10, 1, 5.0) for number in range(100_000)])
    box.setCurrentIndex(episodes.row_of(77_777))
    box.show()
    assert box.currentText() == "episode 77,777: return 5, 10 steps"
    assert len(set(asked)) < 100
