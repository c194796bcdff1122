"""The tab as a person meets it: what is on the screen, and what keys and mouse do."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from known_frames import BLUE, GREEN, RED, WHITE, config_of, known_rgb
from numpy.typing import NDArray
from pictures import rgb_of
from PyQt6 import sip
from PyQt6.QtCore import QEvent, QPoint, QPointF, Qt
from PyQt6.QtGui import QImage, QMouseEvent, QWheelEvent
from PyQt6.QtQuick import QQuickItem
from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QApplication, QTabWidget, QWidget
from pytestqt.qtbot import QtBot
from writers import StartWriter

from lanekit import FastLaneMetrics, FastLaneWriter, segment_name
from lanekit.viewer.appearance import appearance
from lanekit.viewer.fastlane.tab import FastLaneTab

MakeTab = Callable[..., FastLaneTab]
BAR = 42


@pytest.fixture
def make_tab(qtbot: QtBot, run_id: str, tmp_path: Path) -> Iterator[MakeTab]:
    """Make tabs of the test's run that end with it."""
    made: list[FastLaneTab] = []

    def make(**options: object) -> FastLaneTab:
        tab = FastLaneTab(run_id, "agent-0", capture_directory=tmp_path, **options)  # type: ignore[arg-type]
        tab.resize(640, 480 + BAR)
        tab.show()
        activate(qtbot, tab)
        made.append(tab)
        return tab

    yield make
    for tab in made:
        if not sip.isdeleted(tab):  # with the window it was put into
            tab.close()
            tab.deleteLater()
    QTest.qWait(1)


def activate(qtbot: QtBot, widget: QWidget) -> None:
    """Give it the keyboard, as a person's click on it does."""
    widget.activateWindow()
    qtbot.waitUntil(widget.isActiveWindow)
    widget.setFocus()


def item(tab: FastLaneTab, name: str) -> QQuickItem:
    root = tab.quick.rootObject()
    assert root is not None
    found = root.findChild(QQuickItem, name)
    assert found is not None, name
    return found


def text(tab: FastLaneTab, name: str) -> str:
    return str(item(tab, name).property("text"))


def shown_number(tab: FastLaneTab) -> int:
    return 0 if tab.shown is None else tab.shown.info.seq


def beside_the_numbers(tab: FastLaneTab) -> NDArray[np.uint8]:
    """Return the parts of the picture, the moving mark among them, that the numbers leave free."""
    picture = rgb_of(tab.quick)
    return np.concatenate([picture[:6], picture[200:480]])


def click(tab: FastLaneTab, name: str) -> None:
    button = item(tab, name)
    middle = button.mapToScene(QPointF(button.width() / 2, button.height() / 2))
    QTest.mouseClick(tab.quick, Qt.MouseButton.LeftButton, pos=middle.toPoint())


def test_the_pixels_of_a_known_frame_are_at_their_place_after_scaling(
    qtbot: QtBot, run_id: str, make_tab: MakeTab
) -> None:
    frame = known_rgb(64, 48, 9)
    with FastLaneWriter.create(run_id, config_of(64, 48)) as writer:
        tab = make_tab()
        tab.model.toggle_hud()
        writer.publish(frame)
        qtbot.waitUntil(lambda: shown_number(tab) == 1)
        enlarged = frame.repeat(10, axis=0).repeat(10, axis=1)
        qtbot.waitUntil(lambda: np.array_equal(rgb_of(tab.quick)[:480], enlarged))
        tab.resize(900, 480 + BAR)  # wider than the frame: it stays in the middle
        qtbot.waitUntil(lambda: np.array_equal(rgb_of(tab.quick)[:480, 130:770], enlarged))


def test_a_frame_larger_than_the_window_is_shrunk_into_it(
    qtbot: QtBot, run_id: str, make_tab: MakeTab
) -> None:
    with FastLaneWriter.create(run_id, config_of(1920, 1440)) as writer:
        tab = make_tab()
        tab.model.toggle_hud()
        writer.publish(known_rgb(1920, 1440))
        qtbot.waitUntil(lambda: shown_number(tab) == 1)

        def fields() -> list[tuple[int, ...]]:
            picture = rgb_of(tab.quick)
            return [tuple(picture[y, x]) for y in (120, 360) for x in (160, 480)]

        qtbot.waitUntil(lambda: fields() == [RED, GREEN, BLUE, WHITE])


def test_the_numbers_beside_the_picture(qtbot: QtBot, run_id: str, make_tab: MakeTab) -> None:
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        tab = make_tab()
        assert text(tab, "hint") != ""
        for number in range(3):
            writer.publish(known_rgb(8, 8), metrics=FastLaneMetrics(0.25, float(number), 59.94))
            qtbot.waitUntil(lambda number=number: shown_number(tab) == number + 1)
        qtbot.waitUntil(
            lambda: text(tab, "hudText") == "reward: 0.25\nreturn: 2.00\nstep/sec: 59.9"
        )
        assert text(tab, "hint") == ""
        QTest.keyClick(tab.quick, Qt.Key.Key_H)
        assert not item(tab, "hud").isVisible()
        click(tab, "hudButton")
        assert item(tab, "hud").isVisible()


def test_a_frame_is_painted_once(qtbot: QtBot, run_id: str, make_tab: MakeTab) -> None:
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        tab = make_tab()
        paints: list[int] = []
        tab.frame.painted.connect(lambda: paints.append(shown_number(tab)))
        writer.publish(known_rgb(8, 8))
        qtbot.waitUntil(lambda: paints == [1])
        for width in (500, 600, 700):  # painted anew, but from the same texture
            tab.resize(width, 400)
            rgb_of(tab)
        assert paints == [1]


def test_a_frame_is_drawn_in_the_turn_in_which_it_was_read(
    qtbot: QtBot, run_id: str, make_tab: MakeTab
) -> None:
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        tab = make_tab()
        paints: list[int] = []
        tab.frame.painted.connect(lambda: paints.append(shown_number(tab)))
        writer.publish(known_rgb(8, 8))
        qtbot.waitUntil(lambda: paints == [1])
        tab.consumer._timer.stop()  # who looks now is this test
        for number in range(2, 5):
            writer.publish(known_rgb(8, 8))
            tab.consumer.tick()
            assert paints[-1] == number


def test_the_numbers_change_with_a_frame_and_the_last_ones_are_shown(
    qtbot: QtBot, run_id: str, make_tab: MakeTab
) -> None:
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        tab = make_tab()
        for number in range(1, 31):
            writer.publish(known_rgb(8, 8), metrics=FastLaneMetrics(float(number), 0.0, 0.0))
            qtbot.waitUntil(lambda number=number: shown_number(tab) == number)
        qtbot.waitUntil(lambda: text(tab, "hudText").startswith("reward: 30.00"))


def test_pause_keeps_the_picture_while_training_goes_on(
    qtbot: QtBot, run_id: str, make_tab: MakeTab
) -> None:
    with FastLaneWriter.create(run_id, config_of(64, 48)) as writer:
        tab = make_tab()
        writer.publish(known_rgb(64, 48, 1))
        qtbot.waitUntil(lambda: shown_number(tab) == 1)
        QTest.keyClick(tab.quick, Qt.Key.Key_Space)
        assert item(tab, "pausedText").isVisible()
        qtbot.waitUntil(lambda: tuple(rgb_of(tab.quick)[400, 5]) == BLUE)
        standing = beside_the_numbers(tab)
        for number in range(2, 8):
            writer.publish(known_rgb(64, 48, number))
            QTest.qWait(25)
        assert np.array_equal(beside_the_numbers(tab), standing)
        assert np.array_equal(rgb_of(tab.picture() or QImage()), known_rgb(64, 48, 1))
        qtbot.waitUntil(lambda: not writer.watched)  # nobody needs to draw meanwhile
        click(tab, "pauseButton")
        qtbot.waitUntil(lambda: shown_number(tab) == 7)


def test_a_killed_worker_leaves_a_faded_picture_and_its_successor_is_shown(
    qtbot: QtBot, run_id: str, make_tab: MakeTab, start_writer: StartWriter
) -> None:
    first = start_writer(64, 48)
    tab = make_tab()
    qtbot.waitUntil(lambda: shown_number(tab) > 0)
    first.kill()
    qtbot.waitUntil(lambda: tab.model.status == "reconnecting")
    assert tab.model.stale
    assert item(tab, "frame").opacity() < 1
    start_writer(32, 96, "BGRX")
    qtbot.waitUntil(lambda: item(tab, "frame").property("frameHeight") == 96)
    qtbot.waitUntil(lambda: not tab.model.stale)
    assert (item(tab, "stage").width(), item(tab, "stage").height()) == (160, 480)


def test_a_hidden_tab_stops_the_drawing_and_a_shown_one_resumes_it(
    qtbot: QtBot, run_id: str, make_tab: MakeTab
) -> None:
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        tab = make_tab()
        tabs = QTabWidget()
        qtbot.addWidget(tabs)
        tabs.addTab(tab, "picture")
        tabs.addTab(QTabWidget(), "other")
        tabs.show()
        qtbot.waitUntil(lambda: writer.watched)
        tabs.setCurrentIndex(1)
        qtbot.waitUntil(lambda: not writer.watched)
        tabs.setCurrentIndex(0)
        qtbot.waitUntil(lambda: writer.watched)
        tabs.showMinimized()
        qtbot.waitUntil(lambda: not writer.watched)


def test_the_wheel_enlarges_what_is_under_the_mouse(
    qtbot: QtBot, run_id: str, make_tab: MakeTab
) -> None:
    with FastLaneWriter.create(run_id, config_of(64, 48)) as writer:
        tab = make_tab()
        tab.model.toggle_hud()
        writer.publish(known_rgb(64, 48, 40))
        qtbot.waitUntil(lambda: shown_number(tab) == 1)
        for _ in range(12):
            turn_wheel(tab, QPoint(405, 5), 120)
        assert tab.model.zoom.zoom == pytest.approx(1.25**12)
        stage = item(tab, "stage")
        pixel = stage.mapFromScene(QPointF(405, 5)).x() / stage.width() * 64
        assert 40 <= pixel < 41
        qtbot.waitUntil(lambda: tuple(rgb_of(tab.quick)[5, 405]) == WHITE)
        QTest.keyClick(tab.quick, Qt.Key.Key_0)
        assert (stage.x(), stage.y(), stage.width(), stage.height()) == (0, 0, 640, 480)


def turn_wheel(tab: FastLaneTab, at: QPoint, angle: int) -> None:
    event = QWheelEvent(
        QPointF(at),
        tab.quick.mapToGlobal(QPointF(at)),
        QPoint(),
        QPoint(0, angle),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(tab.quick, event)


def test_dragging_moves_the_enlarged_picture_but_not_out_of_sight(
    qtbot: QtBot, run_id: str, make_tab: MakeTab
) -> None:
    with FastLaneWriter.create(run_id, config_of(64, 48)) as writer:
        tab = make_tab()
        writer.publish(known_rgb(64, 48))
        qtbot.waitUntil(lambda: shown_number(tab) == 1)
        for _ in range(4):
            QTest.keyClick(tab.quick, Qt.Key.Key_Plus)
        stage = item(tab, "stage")
        before = stage.x()
        drag(tab, QPoint(400, 300), QPoint(440, 300))
        assert before < stage.x() <= before + 40
        drag(tab, QPoint(100, 100), QPoint(600, 450))
        drag(tab, QPoint(100, 100), QPoint(600, 450))
        assert (stage.x(), stage.y()) == (0, 0)
        double_click(tab, QPointF(320, 240))
        qtbot.waitUntil(lambda: stage.width() == 640)


def double_click(tab: FastLaneTab, at: QPointF) -> None:
    left = Qt.MouseButton.LeftButton
    for kind in (
        QEvent.Type.MouseButtonPress,
        QEvent.Type.MouseButtonRelease,
        QEvent.Type.MouseButtonDblClick,
        QEvent.Type.MouseButtonRelease,
    ):
        held = Qt.MouseButton.NoButton if kind == QEvent.Type.MouseButtonRelease else left
        place = tab.quick.mapToGlobal(at)
        event = QMouseEvent(kind, at, at, place, left, held, Qt.KeyboardModifier.NoModifier)
        QApplication.sendEvent(tab.quick, event)


def drag(tab: FastLaneTab, start: QPoint, end: QPoint) -> None:
    QTest.mousePress(tab.quick, Qt.MouseButton.LeftButton, pos=start)
    for share in range(1, 11):
        QTest.mouseMove(tab.quick, start + (end - start) * share / 10)
    QTest.mouseRelease(tab.quick, Qt.MouseButton.LeftButton, pos=end)


def test_full_screen_from_inside_a_tab_widget_and_back(
    qtbot: QtBot, run_id: str, make_tab: MakeTab
) -> None:
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        tab = make_tab()
        tabs = QTabWidget()
        qtbot.addWidget(tabs)
        tabs.addTab(tab, "picture")
        tabs.resize(500, 400)
        tabs.show()
        activate(qtbot, tab)
        writer.publish(known_rgb(8, 8))
        qtbot.waitUntil(lambda: shown_number(tab) == 1)
        QTest.keyClick(tab.quick, Qt.Key.Key_F11)
        screen = tab.quick.window()
        assert screen is not None
        assert screen.isFullScreen()
        qtbot.waitUntil(screen.isActiveWindow)
        assert tabs.currentWidget() is tab
        writer.publish(known_rgb(8, 8, 1))
        qtbot.waitUntil(lambda: shown_number(tab) == 2)
        QTest.keyClick(tab.quick, Qt.Key.Key_Escape)
        assert tab.quick.window() is tabs
        assert not tab.model.fullScreen
        writer.publish(known_rgb(8, 8, 2))
        qtbot.waitUntil(lambda: shown_number(tab) == 3)
        tab.toggle_full_screen()
        window = tab.quick.window()
        assert window is not None
        window.close()  # as the window manager would
        assert tab.quick.window() is tabs


def test_help_lists_every_key(qtbot: QtBot, make_tab: MakeTab) -> None:
    tab = make_tab()
    QTest.keyClick(tab.quick, "?")
    assert item(tab, "help").isVisible()
    assert {"Space", "F11", "R"} <= {row["keys"] for row in tab.model.shortcuts}
    QTest.keyClick(tab.quick, Qt.Key.Key_Escape)
    assert not item(tab, "help").isVisible()


def test_closing_a_tab_frees_its_mapping(
    qtbot: QtBot, run_id: str, make_tab: MakeTab, start_writer: StartWriter
) -> None:
    start_writer()
    name = segment_name("frame", run_id).lstrip("/")
    tab = make_tab()
    qtbot.waitUntil(lambda: shown_number(tab) > 0)
    assert name in Path("/proc/self/maps").read_text(encoding="utf-8")
    tab.close()
    assert name not in Path("/proc/self/maps").read_text(encoding="utf-8")


def test_a_tab_that_is_deleted_unclosed_lets_go_too(
    qtbot: QtBot, run_id: str, start_writer: StartWriter, tmp_path: Path
) -> None:
    start_writer()
    name = segment_name("frame", run_id).lstrip("/")
    tab = FastLaneTab(run_id, "agent-0", run_mode="policy_eval", capture_directory=tmp_path)
    tab.show()
    qtbot.waitUntil(lambda: shown_number(tab) > 0)
    tab.model.act("record")
    tab.deleteLater()
    qtbot.waitUntil(lambda: sip.isdeleted(tab))
    assert name not in Path("/proc/self/maps").read_text(encoding="utf-8")
    busy = {"eval-summary", "recording"}
    qtbot.waitUntil(lambda: not busy & {thread.name for thread in threading.enumerate()})


def test_painting_thousands_of_frames_takes_no_more_memory(
    qtbot: QtBot, run_id: str, make_tab: MakeTab
) -> None:
    process = psutil.Process()
    sizes = []
    with FastLaneWriter.create(run_id, config_of(320, 240)) as writer:
        tab = make_tab()
        paints: list[int] = []
        tab.frame.painted.connect(lambda: paints.append(1))
        frame = known_rgb(320, 240)
        for number in range(1200):
            writer.publish(frame, metrics=FastLaneMetrics(1.0, float(number), 60.0))
            tab.consumer.tick()
            tab.quick.grabFramebuffer()  # paints now, not at the next turn
            if number % 100 == 99:
                QApplication.processEvents()
                sizes.append(process.memory_info().rss)
    assert len(paints) > 1000
    assert sizes[-1] - sizes[3] < 8 << 20  # one frame is 0.3 MB


def test_opening_and_closing_many_tabs_leaves_nothing_behind(
    qtbot: QtBot, run_id: str, start_writer: StartWriter
) -> None:
    start_writer()
    process = psutil.Process()
    sizes = []
    for number in range(24):
        tab = FastLaneTab(run_id, "agent-0")
        tab.show()
        qtbot.waitUntil(lambda tab=tab: shown_number(tab) > 0)
        tab.close()
        tab.deleteLater()
        qtbot.waitUntil(lambda: True)
        QTest.qWait(1)
        if number >= 11:
            sizes.append((process.num_fds(), process.num_threads(), process.memory_info().rss))
    assert sizes[-1][0] <= sizes[0][0]
    assert sizes[-1][1] <= sizes[0][1]
    assert sizes[-1][2] - sizes[0][2] < 12 << 20


def test_an_evaluation_shows_what_it_found_and_survives_any_file(
    qtbot: QtBot, make_tab: MakeTab, tmp_path: Path
) -> None:
    summary = tmp_path / "eval_summary.json"
    tab = make_tab(run_mode="policy_eval", eval_directory=tmp_path)
    whole = json.dumps(
        {"batches": 2, "episodes": 10, "avg_return": 1.5, "min_return": -1, "max_return": 4}
    )
    summary.write_text(whole[: len(whole) // 2], encoding="utf-8")
    tab_text = lambda: text(tab, "evalText")  # noqa: E731
    assert tab_text() == ""
    summary.write_text(whole, encoding="utf-8")
    qtbot.waitUntil(lambda: "avg return" in tab_text())
    assert [line.split()[-1] for line in tab_text().splitlines()] == [
        *("2", "10", "1.50", "-1.00", "4.00")
    ]
    before = tab_text()
    for damage in ("", "[1]", '{"batches": NaN, "episodes": true}', "[" * 100_000, "\udcff"):
        summary.write_text(damage, encoding="utf-8", errors="surrogateescape")
        stamp = time.monotonic()
        qtbot.waitUntil(lambda stamp=stamp: time.monotonic() > stamp + 0.1)
    summary.unlink()
    summary.mkdir()  # not even a file
    assert tab_text() == before
    summary.rmdir()
    summary.write_text('{"batches": 3, "avg_return": 1e400}', encoding="utf-8")
    qtbot.waitUntil(lambda: tab_text().split() == ["batches", "3"])


def test_the_scene_follows_the_theme(qtbot: QtBot, make_tab: MakeTab) -> None:
    tab = make_tab()
    dark = rgb_of(tab.quick)[240, 5].mean()
    appearance().set_dark(False)
    qtbot.waitUntil(lambda: rgb_of(tab.quick)[240, 5].mean() > dark + 100)


def test_an_unknown_mode_is_refused(qtbot: QtBot, run_id: str) -> None:
    with pytest.raises(ValueError, match="policy_eval"):
        FastLaneTab(run_id, "agent-0", run_mode="eval")  # type: ignore[arg-type]


def test_a_screenshot_is_the_frame_as_published(
    qtbot: QtBot, run_id: str, make_tab: MakeTab, tmp_path: Path
) -> None:
    frame = known_rgb(64, 48, 7)
    with FastLaneWriter.create(run_id, config_of(64, 48)) as writer:
        tab = make_tab()
        QTest.keyClick(tab.quick, Qt.Key.Key_S)
        assert "no picture" in text(tab, "noticeText")
        writer.publish(frame, metadata=b'{"step": 1200}')
        qtbot.waitUntil(lambda: shown_number(tab) == 1)
        for suffix in ("", "-2"):
            click(tab, "screenshotButton")
            path = tmp_path / f"{run_id}-step1200{suffix}.png"
            qtbot.waitUntil(lambda path=path: text(tab, "noticeText") == f"Saved {path}")
            assert np.array_equal(rgb_of(QImage(str(path))), frame)


def test_a_screenshot_that_can_not_be_written_says_why(
    qtbot: QtBot, run_id: str, make_tab: MakeTab, tmp_path: Path
) -> None:
    with FastLaneWriter.create(run_id, config_of(64, 48)) as writer:
        tab = make_tab()
        writer.publish(known_rgb(64, 48))
        qtbot.waitUntil(lambda: shown_number(tab) == 1)
        os.symlink("/dev/full", tmp_path / "full.png")
        tab.captures._writer.save(tab.picture() or QImage(), tmp_path / "full.png")
        qtbot.waitUntil(lambda: "not saved" in text(tab, "noticeText"))
        assert item(tab, "notice").property("bad")
