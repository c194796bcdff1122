"""The main window as a person uses it: a real daemon, real workers, keys and clicks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import psutil
import pytest
from PyQt6.QtCore import QPoint, Qt
from PyQt6.QtWidgets import QApplication, QMenu, QMessageBox, QPushButton, QWidget
from pytestqt.qtbot import QtBot
from window_desk import WindowDesk, choose_worker, lone_desk, obeying_permissions, publish_steps
from writers import StartWriter

from lanekit.slow.local_daemon import somebody_listens
from lanekit.viewer.fastlane.tab import FastLaneTab
from lanekit.viewer.live.tab import LiveTelemetryTab
from lanekit.viewer.replay.window import ReplayWindow
from lanekit.viewer.window.main_window import MainWindow
from patience import patience

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)

CHECK_MARK = QPoint(8, 8)


@pytest.fixture
def desk(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[WindowDesk]:
    """A desk of its own for each test."""
    with lone_desk(qapp, monkeypatch) as made:
        yield made


Wait = Callable[[Callable[[], bool]], None]


@pytest.fixture
def wait(qtbot: QtBot) -> Wait:
    """Let Qt work until something is so."""
    return qtbot.waitUntil


def state(window: MainWindow, run_id: str) -> str:
    row = window.runs.row(run_id)
    return "" if row is None else row.state


def enabled(window: MainWindow) -> set[str]:
    names = ("pause", "resume", "stop", "cancel", "archive", "unarchive")
    return {name for name in names if window.actions_by_name[name].isEnabled()}


def click(window: MainWindow, qtbot: QtBot, name: str) -> None:
    """Click a command's button in the toolbar."""
    button = window.bar.widgetForAction(window.actions_by_name[name])
    assert button is not None
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def click_run(window: MainWindow, qtbot: QtBot, run_id: str, *, twice: bool = False) -> None:
    """Click a run in the list."""
    place = window.runs.place_of(run_id)
    assert place is not None
    table = window.list.table
    at = table.visualRect(window.runs.index(place, 0)).center()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=at)
    if twice:
        qtbot.mouseDClick(table.viewport(), Qt.MouseButton.LeftButton, pos=at)


def test_a_newcomer_is_told_what_to_do_and_starts_a_daemon_with_a_click(
    desk: WindowDesk, qtbot: QtBot, wait: Wait
) -> None:
    window = desk.open(may_start=True)
    wait(lambda: window.empty.title.text() == "No daemon runs")
    assert "no daemon answers" in window.daemon_status.text.text()
    assert window.log.about.text() == "Select a run to read what it reports."
    start = window.empty.buttons[0]
    assert start.text() == "Start a daemon"
    assert window.daemon_status.start.isVisible()
    try:
        qtbot.mouseClick(start, Qt.MouseButton.LeftButton)
        wait(lambda: window.empty.title.text() == "No runs yet")
        assert window.daemon_status.text.text() == f"daemon at {desk.daemon.target}"
        assert not window.daemon_status.start.isVisible()
        assert somebody_listens(str(desk.daemon.socket))
    finally:
        end_daemon_of(desk.directory)


def test_the_status_bar_says_that_the_store_cannot_be_written(desk: WindowDesk, wait: Wait) -> None:
    desk.daemon.start()
    desk.daemon.stop()
    desk.daemon.store.chmod(0o400)
    desk.daemon.prefix = obeying_permissions()
    desk.daemon.start()
    window = desk.open()
    wait(lambda: "cannot store events" in window.daemon_status.text.toolTip())
    assert str(desk.daemon.store) in window.daemon_status.text.toolTip()
    desk.daemon.store.chmod(0o600)
    wait(lambda: window.daemon_status.text.text() == f"daemon at {desk.daemon.target}")


def test_the_status_bar_says_why_a_named_daemon_does_not_answer(
    desk: WindowDesk, wait: Wait
) -> None:
    window = desk.open()
    wait(lambda: window.empty.title.text() == "No daemon answers")
    assert str(desk.daemon.socket) in window.daemon_status.text.toolTip()
    assert not window.daemon_status.start.isVisible()
    desk.daemon.start()
    wait(lambda: window.empty.title.text() == "No runs yet")
    desk.daemon.stop()
    wait(lambda: window.empty.title.text() == "No daemon answers")


def test_a_run_is_paused_resumed_stopped_and_archived_by_buttons(
    desk: WindowDesk, qtbot: QtBot, wait: Wait
) -> None:
    desk.daemon.start()
    window = desk.open()
    desk.submit("steady", total_steps=10**6, pause=0.01)
    wait(lambda: state(window, "steady") == "running")
    assert enabled(window) == set()
    click_run(window, qtbot, "steady")
    assert enabled(window) == {"pause", "stop", "cancel"}
    click(window, qtbot, "pause")
    wait(lambda: state(window, "steady") == "paused")
    assert enabled(window) == {"resume", "stop", "cancel"}
    click(window, qtbot, "resume")
    wait(lambda: state(window, "steady") == "running")
    click(window, qtbot, "stop")
    wait(lambda: state(window, "steady") == "completed")
    assert enabled(window) == {"archive"}
    click(window, qtbot, "archive")
    wait(lambda: window.runs.rowCount() == 0)
    assert window.runs.total == 1
    qtbot.mouseClick(window.list.archived, Qt.MouseButton.LeftButton, pos=CHECK_MARK)
    assert window.runs.rowCount() == 1
    assert enabled(window) == {"unarchive"}


def test_a_run_is_cancelled_only_after_a_question(
    desk: WindowDesk, qtbot: QtBot, wait: Wait
) -> None:
    desk.daemon.start()
    window = desk.open()
    desk.submit("long", total_steps=10**6, pause=0.01)
    wait(lambda: state(window, "long") == "running")
    click_run(window, qtbot, "long")
    for answer in ("Let them run", "Cancel runs"):
        window.actions_by_name["cancel"].trigger()
        question = window.findChild(QMessageBox)
        assert isinstance(question, QMessageBox)
        buttons = {button.text(): button for button in question.findChildren(QPushButton)}
        assert state(window, "long") == "running"
        qtbot.mouseClick(buttons[answer], Qt.MouseButton.LeftButton)
        wait(lambda: window.findChild(QMessageBox) is None)
    wait(lambda: state(window, "long") == "cancelled")


def test_a_command_is_for_all_selected_runs_that_can_follow_it(
    desk: WindowDesk, qtbot: QtBot, wait: Wait
) -> None:
    desk.daemon.start()
    window = desk.open()
    ended = [f"short-{number}" for number in range(4)]
    for run_id in ended:
        desk.submit(run_id, total_steps=1)
    desk.submit("live", total_steps=10**6, pause=0.01)
    wait(lambda: state(window, "live") == "running")
    wait(lambda: {state(window, run_id) for run_id in ended} == {"completed"})
    window.list.table.setFocus()
    window.list.table.selectAll()
    assert enabled(window) == {"pause", "stop", "cancel", "archive"}
    click(window, qtbot, "archive")
    wait(lambda: window.runs.rowCount() == 1)
    assert state(window, "live") == "running"
    assert [row.run_id for row in window.list.selected] == ["live"]


def test_a_failed_runs_log_tells_why(desk: WindowDesk, qtbot: QtBot, wait: Wait) -> None:
    desk.daemon.start()
    window = desk.open()
    desk.submit("doomed", total_steps=50, fail_at=20)
    wait(lambda: state(window, "doomed") == "failed")
    click_run(window, qtbot, "doomed")
    wait(lambda: "Traceback" in window.log.text.toPlainText())
    wait(lambda: "run_failed" in window.log.text.toPlainText())
    text = window.log.text.toPlainText()
    assert "run_started" in text
    assert "RuntimeError: the pole is broken" in text
    assert "heartbeat" not in text
    assert "\x1b" not in text
    assert "doomed · failed · RuntimeError: the pole is broken" in window.log.about.text()


def test_a_double_click_opens_the_picture_of_a_live_run_and_the_numbers_of_an_ended_one(
    desk: WindowDesk, run_id: str, qtbot: QtBot, wait: Wait
) -> None:
    desk.daemon.start()
    window = desk.open()
    desk.submit(run_id, pictures=True, total_steps=10**6, pause=0.02)
    wait(lambda: state(window, run_id) == "running")
    click_run(window, qtbot, run_id, twice=True)
    (page,) = window.tabs.pages
    assert isinstance(page.content, FastLaneTab)
    content = page.content
    wait(lambda: content.shown is not None)
    assert window.middle.currentWidget() is window.tabs
    click(window, qtbot, "stop")
    wait(lambda: state(window, run_id) == "completed")
    click_run(window, qtbot, run_id, twice=True)
    assert [page.key.kind for page in window.tabs.pages] == ["picture", "numbers"]


def test_the_window_can_open_on_one_run_with_its_numbers_below_its_picture(
    desk: WindowDesk, run_id: str, wait: Wait
) -> None:
    desk.daemon.start()
    desk.submit(run_id, pictures=True, total_steps=10**6, pause=0.02)
    window = desk.open()
    window.open_run(run_id)
    (page,) = window.tabs.pages
    assert page.key.title == run_id
    picture, numbers = page.findChild(FastLaneTab), page.findChild(LiveTelemetryTab)
    assert picture is not None
    assert numbers is not None
    wait(lambda: picture.shown is not None)
    wait(lambda: numbers.steps.rowCount() > 0)
    wait(lambda: [row.run_id for row in window.list.selected] == [run_id])
    window.control("stop")
    wait(lambda: state(window, run_id) == "completed")
    window.tabs.close_all()
    assert window.opening.controller.subscribed == frozenset()


def test_each_agent_can_have_a_tab_of_its_own(desk: WindowDesk, wait: Wait) -> None:
    desk.daemon.start()
    with desk.daemon.connect() as stub:
        publish_steps(stub, "two", 10, "s1", "left")
        publish_steps(stub, "two", 10, "s2", "right")
    window = desk.open()
    window.opening.open_numbers("two")
    controller = window.opening.controller
    wait(lambda: sorted(controller.history("two").agent_names) == ["left", "right"])
    menu = QMenu(window)
    window.tabs.menu_opening.emit(window.tabs.pages[0], menu)
    agents = menu.findChild(QMenu)
    assert isinstance(agents, QMenu)
    next(action for action in agents.actions() if action.text() == "right").trigger()
    titles = [page.key.title for page in window.tabs.pages]
    assert titles == ["two · numbers", "two · right · numbers"]
    assert controller.subscribed == {"two"}
    window.tabs.close_all()
    assert controller.subscribed == frozenset()


def test_a_run_is_started_from_the_form_and_watched_at_once(
    desk: WindowDesk, run_id: str, qtbot: QtBot, wait: Wait
) -> None:
    desk.daemon.start()
    window = desk.open()
    qtbot.keyClick(window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    form = window.form
    assert form is not None
    choose_worker(form, qtbot, "stepping")
    wait(lambda: "pause" in form.options.entries)
    for name, text in (("total_steps", "100000"), ("pause", "0.02"), ("run_id", run_id)):
        widget = form.options.entries[name].widget
        assert hasattr(widget, "clear")
        widget.clear()
        qtbot.keyClicks(widget, text)
    wait(lambda: form.start.isEnabled())
    qtbot.mouseClick(form.start, Qt.MouseButton.LeftButton)
    wait(lambda: state(window, run_id) == "running")
    assert window.form is None
    assert [row.run_id for row in window.list.selected] == [run_id]
    assert [page.key.title for page in window.tabs.pages] == [run_id]
    assert enabled(window) == {"pause", "stop", "cancel"}
    click(window, qtbot, "stop")
    wait(lambda: state(window, run_id) == "completed")


def test_a_run_without_a_daemon_is_listed_and_watched(
    desk: WindowDesk, start_writer: StartWriter, run_id: str, qtbot: QtBot, wait: Wait
) -> None:
    writer = start_writer()
    window = desk.open()
    wait(lambda: state(window, run_id) == "live")
    click_run(window, qtbot, run_id, twice=True)
    (page,) = window.tabs.pages
    assert isinstance(page.content, FastLaneTab)
    content = page.content
    wait(lambda: content.shown is not None)
    assert enabled(window) == set()
    wait(lambda: "no daemon knows it" in window.log.about.text())
    writer.leave()
    wait(lambda: window.runs.rowCount() == 0)


def test_stored_episodes_are_replayed_in_a_window_that_goes_with_the_main_one(
    desk: WindowDesk, qtbot: QtBot, wait: Wait
) -> None:
    desk.daemon.start()
    window = desk.open()
    desk.submit("stored", total_steps=60, seed=1)
    wait(lambda: state(window, "stored") == "completed")
    assert not window.actions_by_name["replay"].isEnabled()
    click_run(window, qtbot, "stored")
    window.actions_by_name["replay"].trigger()
    (replay,) = window.others.shown
    assert isinstance(replay, ReplayWindow)
    assert "stored" in replay.windowTitle()
    desk.close_windows()
    assert not replay.isVisible()


def test_a_game_opens_in_a_window_that_goes_with_the_main_one(
    desk: WindowDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The real one imports every environment there is; it has tests of its own.
    stand_in = ModuleType("lanekit.viewer.human.window")
    stand_in.HumanPlayWindow = QWidget  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    window = desk.open()
    window.actions_by_name["play"].trigger()
    (game,) = window.others.shown
    desk.close_windows()
    assert not game.isVisible()


def test_without_environments_the_window_says_what_playing_needs(
    desk: WindowDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lanekit.viewer.human.window", None)
    window = desk.open()
    window.actions_by_name["play"].trigger()
    bar = window.statusBar()
    assert bar is not None
    assert "pip install 'lanekit[rl]'" in bar.currentMessage()


def end_daemon_of(directory: Path) -> None:
    """End the daemon that the window has started."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "daemon" in words and any(str(directory) in word for word in words):
            process.terminate()
            process.wait(patience(30))
