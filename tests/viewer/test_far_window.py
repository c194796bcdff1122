"""The main window over the daemon of another machine: its lanes come through the daemon.

Both machines are this one here. The window reaches the daemon by a port, as it would another's, so
it must not look for the run in this machine's memory, although it would find it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from window_desk import WindowDesk, lone_desk
from writers import StartWriter

from lanekit.segments import segment_names
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.endpoint import parse_target
from lanekit.viewer.window.daemon_access import DaemonAccess
from lanekit.viewer.window.main_window import MainWindow
from lanekit.viewer.window.memory import WindowMemory
from lanekit.viewer.window.pages import RunGrid
from lanekit.viewer.window.picture_tabs import RemoteTab

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)

TOKEN = "a-token-for-the-far-machine"
Wait = Callable[[Callable[[], object]], None]


@pytest.fixture
def desk(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[WindowDesk]:
    with lone_desk(qapp, monkeypatch) as made:
        token = made.directory / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        made.daemon.options = (
            *("--listen", "127.0.0.1:0", "--insecure-loopback", "--token-file", str(token)),
        )
        made.daemon.start()
        yield made
        made.daemon.stop()  # the desk itself has no token to end runs with


@pytest.fixture
def access(desk: WindowDesk) -> DaemonAccess:
    address = desk.daemon.announcement.rpartition(" ")[2]
    return DaemonAccess(
        lambda: DaemonClient(address, token=TOKEN, insecure=True), parse_target(address)
    )


@pytest.fixture
def window(desk: WindowDesk, access: DaemonAccess) -> MainWindow:
    made = MainWindow(access, WindowMemory(desk.memory))
    desk.windows.append(made)
    made.show()
    return made


def copies(run_id: str) -> list[str]:
    return [name for name in segment_names() if run_id in name and "at-127" in name]


def test_a_run_of_the_far_machine_is_listed_shown_and_left(
    window: MainWindow, qtbot: QtBot, start_writer: StartWriter, run_id: str
) -> None:
    start_writer(64, 48)
    qtbot.waitUntil(lambda: window.runs.is_published(run_id))
    assert copies(run_id) == []
    window.opening.open_picture(run_id)
    window.opening.open_both(run_id)
    window.opening.open_grid([run_id])
    picture, both, grid = window.tabs.pages
    tab = picture.content
    assert isinstance(tab, RemoteTab)
    assert picture.key.title == run_id
    window.tabs.show_page(picture)
    qtbot.waitUntil(lambda: tab.shown is not None and tab.shown.image.width() == 64)
    assert tab.consumer.status == "connected"
    assert len(copies(run_id)) == 1, "tabs of one run share what is brought"
    window.tabs.show_page(grid)
    assert isinstance(grid.content, RunGrid)
    (cell,) = grid.content.cells
    qtbot.waitUntil(lambda: cell.tab.shown is not None and cell.tab.shown.image.width() == 64)
    window.tabs.close_page(picture)
    window.tabs.close_page(both)
    assert len(copies(run_id)) == 1
    window.tabs.close_page(grid)
    assert copies(run_id) == []
    window.opening.open_picture(run_id)
    again = window.tabs.pages[0].content
    assert isinstance(again, RemoteTab)
    qtbot.waitUntil(lambda: again.shown is not None and again.shown.image.width() == 64)


def test_the_picture_comes_back_with_the_far_daemon(
    desk: WindowDesk,
    window: MainWindow,
    qtbot: QtBot,
    start_writer: StartWriter,
    run_id: str,
) -> None:
    start_writer(64, 48)
    window.opening.open_picture(run_id)
    tab = window.tabs.pages[0].content
    assert isinstance(tab, RemoteTab)
    qtbot.waitUntil(lambda: tab.consumer.status == "connected" and tab.shown is not None)
    port = desk.daemon.announcement.rpartition(":")[2]
    desk.daemon.options = ("--listen", f"127.0.0.1:{port}", *desk.daemon.options[2:])
    desk.daemon.kill()
    qtbot.waitUntil(lambda: tab.consumer.status == "reconnecting")
    desk.daemon.start()
    qtbot.waitUntil(lambda: tab.consumer.status == "connected")


def test_replays_need_a_store_that_can_be_read_from_here(access: DaemonAccess) -> None:
    elsewhere = replace(access, target=parse_target("node7.lab:7070"))
    assert not elsewhere.can_read_store
    assert replace(elsewhere, store="postgresql://db.lab/lanekit").can_read_store
    assert access.can_read_store
