"""Windows go when they are let go, and nothing is called that belongs to one that has gone."""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PyQt6 import sip
from PyQt6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot
from writers import StartWriter

from lanekit.slow.daemon_client import DaemonClient
from lanekit.viewer.fastlane.tab import FastLaneTab
from lanekit.viewer.live.controller import ALL_AGENTS, LiveTelemetryController
from lanekit.viewer.live.tab import LiveTelemetryTab
from lanekit.viewer.replay.window import ReplayWindow
from lanekit.viewer.window.pages import PageKey, picture_page
from lanekit.viewer.window.run_tabs import RunTabs

# The plug-in for no screen says of itself that it can not tell a window its sizes.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


HELD_OTHERWISE = {
    "appearance.py": "the follower is in a set until then",
    "application.py": "the notifier is a local of who waits for the end",
    "frame_item.py": "PyQt keeps the Python part of what QML makes",
}
"""Closures whose sender's Python part is known to be there as long as Qt's."""


def _connected_closures(tree: ast.AST) -> Iterator[int]:
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        for slot in call.args if call.func.attr == "connect" else ():
            is_partial = isinstance(slot, ast.Call) and ast.unparse(slot.func).endswith("partial")
            if isinstance(slot, ast.Lambda) or is_partial:
                yield slot.lineno


def test_no_connection_goes_to_a_closure(root: Path) -> None:
    """Why not is told in ``named_key.py``."""
    found = {
        path.name: list(_connected_closures(ast.parse(path.read_text(encoding="utf-8"))))
        for path in sorted((root / "python/lanekit/viewer").rglob("*.py"))
    }
    assert {name for name, lines in found.items() if lines} == set(HELD_OTHERWISE)
    bad = ast.parse("timer.timeout.connect(lambda: self.say())\na.b.connect(partial(self.f, 1))")
    assert list(_connected_closures(bad)) == [1, 2]


@contextmanager
def no_collector() -> Iterator[None]:
    """What goes here goes because nobody holds it, in the thread that let it go."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _no_daemon() -> DaemonClient:
    return DaemonClient("unix:/nowhere/lanekit.sock")


def _numbers() -> QWidget:
    controller = LiveTelemetryController(_no_daemon)
    tab = LiveTelemetryTab("no-such-run", ALL_AGENTS, controller)
    tab.leave()
    controller.close()
    return tab


def _replay() -> QWidget:
    window = ReplayWindow("no-such-run", "/nowhere/lanekit.db")
    window.leave()
    return window


MAKERS: dict[str, Callable[[], QWidget]] = {
    "picture": lambda: FastLaneTab("no-such-run", ""),
    "numbers": _numbers,
    "replay": _replay,
    "tabs": RunTabs,
}


@pytest.mark.parametrize("kind", list(MAKERS))
def test_a_window_that_nobody_holds_goes_at_once(qtbot: QtBot, kind: str) -> None:
    """One that is held by its own connections would stay for ever."""
    gone: list[str] = []
    window = MAKERS[kind]()
    window.destroyed.connect(lambda: gone.append(kind))
    with no_collector():
        del window
        assert gone == [kind]


def test_a_torn_off_tab_can_be_closed_after_its_home_has_gone(qtbot: QtBot, run_id: str) -> None:
    tabs = RunTabs()
    page = picture_page(PageKey("picture", (run_id,)))
    tabs.add(page)
    tabs.tear_off(0)
    (window,) = tabs.windows
    sip.delete(tabs)
    window.close()
    page.leave()
    sip.delete(window)


def test_a_controller_that_is_deleted_unclosed_ends_its_threads(qtbot: QtBot) -> None:
    controller = LiveTelemetryController(_no_daemon)
    controller.subscribe_to_run("no-such-run")
    feed = controller._runs["no-such-run"].feed
    assert feed.running
    sip.delete(controller)
    qtbot.waitUntil(lambda: not feed.running)


def test_a_tab_of_numbers_can_be_left_after_its_controller_has_gone(qtbot: QtBot) -> None:
    controller = LiveTelemetryController(_no_daemon)
    tab = LiveTelemetryTab("no-such-run", ALL_AGENTS, controller)
    feed = controller._runs["no-such-run"].feed
    sip.delete(controller)
    tab.close()
    sip.delete(tab)
    qtbot.waitUntil(lambda: not feed.running)


def test_a_full_screen_goes_with_the_tab_that_it_came_from(
    qtbot: QtBot, run_id: str, start_writer: StartWriter
) -> None:
    start_writer()
    tab = FastLaneTab(run_id, "")
    tab.show()
    qtbot.waitUntil(lambda: tab.shown is not None)
    tab.toggle_full_screen()
    screen, quick = tab._full_screen, tab.quick
    assert screen is not None
    sip.delete(tab)
    qtbot.waitUntil(lambda: sip.isdeleted(screen))
    assert sip.isdeleted(quick)
