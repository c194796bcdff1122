"""Tabs of runs: opened, closed, torn off and brought back, and several side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from known_frames import BLUE, GREEN, RED, WHITE
from pictures import rgb_of
from PyQt6 import sip
from PyQt6.QtCore import QObject, QPoint, Qt, pyqtSignal
from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QMainWindow, QToolButton
from pytestqt.qtbot import QtBot
from writers import StartWriter

from lanekit import segment_name
from lanekit.slow.daemon_client import DaemonClient
from lanekit.viewer.fastlane.tab import FastLaneTab
from lanekit.viewer.live.controller import ALL_AGENTS
from lanekit.viewer.window.page_opening import PageOpening
from lanekit.viewer.window.pages import Page, PageKey, RunGrid
from lanekit.viewer.window.run_tabs import RunTabs

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)


@pytest.fixture
def tabs(qtbot: QtBot) -> Iterator[RunTabs]:
    """Tabs in a window."""
    window = QMainWindow()
    qtbot.addWidget(window)
    made = RunTabs(window)
    window.setCentralWidget(made)
    window.resize(800, 600)
    window.show()
    yield made
    made.close_all()


@pytest.fixture
def opening(tabs: RunTabs, tmp_path: Path) -> Iterator[PageOpening]:
    """Opens pages; no daemon answers."""
    made = PageOpening(tabs, lambda: DaemonClient(f"unix:{tmp_path}/d.sock"), tabs)
    yield made
    made.close()


def picture(page: Page) -> FastLaneTab:
    assert isinstance(page.content, FastLaneTab)
    return page.content


def is_mapped(run_id: str) -> bool:
    return segment_name("frame", run_id) in Path("/proc/self/maps").read_text()


def colours_of(widget: Any) -> set[tuple[int, ...]]:
    pixels = rgb_of(widget)
    return {tuple(pixel) for pixel in pixels[::4, ::4].reshape(-1, 3).tolist()}


def test_a_run_has_one_picture_however_often_it_is_opened(
    tabs: RunTabs, opening: PageOpening, run_id: str
) -> None:
    opening.open_picture(run_id)
    opening.open_picture("another")
    opening.open_picture(run_id)
    assert [page.key.title for page in tabs.pages] == [run_id, "another"]
    assert tabs.currentIndex() == 0


def test_closing_a_tab_lets_the_runs_memory_go(
    tabs: RunTabs, opening: PageOpening, start_writer: StartWriter, run_id: str, qtbot: QtBot
) -> None:
    start_writer()
    opening.open_picture(run_id)
    qtbot.waitUntil(lambda: picture(tabs.pages[0]).shown is not None)
    assert is_mapped(run_id)
    bar = tabs.tabBar()
    assert bar is not None
    button = bar.tabButton(0, bar.ButtonPosition.RightSide)
    assert isinstance(button, QToolButton)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert tabs.pages == []
    assert not is_mapped(run_id)


def test_a_closed_picture_keeps_no_frame_in_memory(
    tabs: RunTabs, opening: PageOpening, start_writer: StartWriter, run_id: str, qtbot: QtBot
) -> None:
    start_writer()
    opening.open_picture(run_id)
    qtbot.waitUntil(lambda: picture(tabs.pages[0]).shown is not None)
    item = picture(tabs.pages[0]).frame
    assert vars(item)
    tabs.close_all()
    qtbot.waitUntil(lambda: sip.isdeleted(item))
    assert vars(item) == {}


def test_frames_with_an_unused_byte_hide_what_is_behind_them(
    tabs: RunTabs, opening: PageOpening, start_writer: StartWriter, run_id: str, qtbot: QtBot
) -> None:
    start_writer(pixel_format="BGRX")
    opening.open_picture(run_id)
    qtbot.waitUntil(lambda: {RED, GREEN, BLUE, WHITE} <= colours_of(tabs))


def test_a_double_click_gives_a_tab_a_window_and_closing_that_brings_it_back(
    tabs: RunTabs, opening: PageOpening, start_writer: StartWriter, run_id: str, qtbot: QtBot
) -> None:
    start_writer()
    opening.open_picture(run_id)
    page = tabs.pages[0]
    qtbot.waitUntil(lambda: picture(page).shown is not None)
    bar = tabs.tabBar()
    assert bar is not None
    QTest.mouseDClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(0).center())
    assert tabs.count() == 0
    (window,) = tabs.windows
    assert window.page is page
    assert window.windowTitle() == run_id
    qtbot.waitUntil(lambda: {RED, GREEN, BLUE, WHITE} <= colours_of(window))
    window.close()
    assert tabs.windows == []
    assert tabs.widget(0) is page
    qtbot.waitUntil(lambda: {RED, GREEN, BLUE, WHITE} <= colours_of(tabs))


def test_a_tab_that_is_dragged_out_of_the_bar_becomes_a_window(
    tabs: RunTabs, opening: PageOpening, qtbot: QtBot
) -> None:
    opening.open_picture("a")
    opening.open_picture("b")
    bar = tabs.tabBar()
    assert bar is not None
    start = bar.tabRect(1).center()
    QTest.mousePress(bar, Qt.MouseButton.LeftButton, pos=start)
    QTest.mouseRelease(bar, Qt.MouseButton.LeftButton, pos=start + QPoint(5, 10))
    assert tabs.windows == []
    QTest.mousePress(bar, Qt.MouseButton.LeftButton, pos=start)
    QTest.mouseRelease(bar, Qt.MouseButton.LeftButton, pos=start + QPoint(0, 200))
    assert [window.page.key.title for window in tabs.windows] == ["b"]
    opening.open_picture("b")  # comes to the front, and no second one
    assert [page.key.title for page in tabs.pages] == ["a", "b"]


def test_several_runs_are_watched_side_by_side(
    tabs: RunTabs, opening: PageOpening, start_writer: StartWriter, run_id: str, qtbot: QtBot
) -> None:
    start_writer()
    opening.open_grid([run_id, "b", "c", "d"])
    grid = tabs.pages[0].content
    assert isinstance(grid, RunGrid)
    assert tabs.tabText(0) == "4 runs"
    places = [cell.geometry().topLeft() for cell in grid.cells]
    assert places[0].y() == places[1].y() < places[2].y() == places[3].y()
    assert places[0].x() == places[2].x() < places[1].x() == places[3].x()
    first = grid.cells[0]
    qtbot.waitUntil(lambda: {RED, GREEN, BLUE, WHITE} <= colours_of(first))
    assert is_mapped(run_id)
    for cell in list(grid.cells):
        cell.closed.emit(cell)
    assert tabs.pages == []
    assert not is_mapped(run_id)


def test_a_numbers_tab_is_followed_until_it_is_closed(tabs: RunTabs, opening: PageOpening) -> None:
    opening.open_numbers("r")
    assert opening.controller.subscribed == {"r"}
    assert tabs.tabText(0) == "r · numbers"
    tabs.close_at(0)
    assert opening.controller.subscribed == frozenset()


@pytest.mark.parametrize(
    "make",
    [
        lambda: PageKey("picture", ("run & co",)),
        lambda: PageKey("numbers", ("r",), ALL_AGENTS),
        lambda: PageKey("both", ("r",), ALL_AGENTS),
        lambda: PageKey("grid", ("a", "b")),
    ],
)
def test_a_page_is_remembered_by_its_key(make: Callable[[], PageKey]) -> None:
    assert PageKey.from_json(make().to_json()) == make()


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1, 2]", '["film", ["a"], ""]', '["grid", [], ""]', '["grid", [1], ""]', "null"],
)
def test_what_is_no_page_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        PageKey.from_json(text)


class Asker(QObject):
    """Asks the event loop for its attention, as a key or a click does."""

    asked = pyqtSignal()


def test_of_eight_live_runs_all_are_painted_and_the_loop_answers_between_two_pictures(
    qtbot: QtBot, tabs: RunTabs, opening: PageOpening, run_id: str, start_writer: StartWriter
) -> None:
    runs = [f"{run_id}-{number}" for number in range(8)]
    writers = [start_writer(run=run) for run in runs]
    opening.open_grid(runs)
    grid = tabs.pages[0].content
    assert isinstance(grid, RunGrid)
    # Before that, a window paints several at once.
    qtbot.waitUntil(lambda: all(cell.tab.shown is not None for cell in grid.cells))
    QTest.qWait(200)
    asker = Asker()
    seen: list[str] = []
    answer = "the loop"
    queued = Qt.ConnectionType.QueuedConnection
    asker.asked.connect(lambda: seen.append(answer), type=queued)
    for cell in grid.cells:
        cell.tab.frame.painted.connect(lambda run=cell.tab.run_id: seen.append(run))
        cell.tab.frame.painted.connect(asker.asked)
    qtbot.waitUntil(lambda: all(seen.count(run) >= 30 for run in runs))
    assert seen[1::2] == [answer] * (len(seen) // 2)
    for writer in writers:
        writer.leave()
