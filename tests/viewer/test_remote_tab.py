"""The desktop tab with a run of another machine: pixels, numbers and status over a real daemon."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from known_frames import known_rgb
from pictures import rgb_of
from PyQt6.QtTest import QTest
from pytestqt.qtbot import QtBot
from stored_runs import DaemonProcess, connect_to, running_daemon
from writers import StartWriter

from lanekit.fast.frame import inspect_frames
from lanekit.segments import segment_name
from lanekit.slow.remote_lane import RemoteLane
from lanekit.slow.watched_frames import Recipe
from lanekit.viewer.fastlane.tab import FastLaneTab


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    with running_daemon() as running:
        yield running


@pytest.fixture
def tab(qtbot: QtBot, daemon: DaemonProcess, run_id: str) -> Iterator[FastLaneTab]:
    """A tab of the run as it is fetched through the daemon, without loss."""
    with connect_to(daemon) as client, RemoteLane(client, run_id, recipe=Recipe("png")) as remote:
        tab = FastLaneTab(remote.local_id, "")
        tab.resize(640, 520)
        tab.show()
        yield tab
        tab.close()
        tab.deleteLater()
        QTest.qWait(1)


def test_the_tab_shows_the_far_workers_pixels_and_numbers(
    qtbot: QtBot, tab: FastLaneTab, start_writer: StartWriter
) -> None:
    assert tab.consumer.status == "fastlane-unavailable"
    start_writer(64, 48)
    qtbot.waitUntil(lambda: tab.shown is not None and tab.shown.image.width() == 64)
    assert tab.consumer.status == "connected"
    shown = tab.shown
    assert shown is not None
    number = int(shown.info.metrics.rolling_return)
    assert shown.info.metadata == b'{"step": %d}' % (10 * number)
    assert shown.hud_text.startswith("reward: 1.00\nreturn: ")
    np.testing.assert_array_equal(rgb_of(shown.image), known_rgb(64, 48, number % 2))


def test_the_tab_recovers_when_the_daemon_and_the_worker_come_back(
    qtbot: QtBot, daemon: DaemonProcess, tab: FastLaneTab, start_writer: StartWriter
) -> None:
    worker = start_writer(64, 48)
    qtbot.waitUntil(lambda: tab.consumer.status == "connected" and tab.shown is not None)
    daemon.kill()
    qtbot.waitUntil(lambda: tab.consumer.status == "reconnecting")
    daemon.start()
    qtbot.waitUntil(lambda: tab.consumer.status == "connected")
    worker.kill()
    qtbot.waitUntil(lambda: tab.consumer.status == "reconnecting")
    start_writer(32, 24)
    qtbot.waitUntil(lambda: tab.shown is not None and tab.shown.image.width() == 32)
    assert tab.consumer.status == "connected"


def test_a_hidden_tab_lets_the_far_worker_rest(
    qtbot: QtBot, tab: FastLaneTab, run_id: str, start_writer: StartWriter
) -> None:
    start_writer(64, 48)
    qtbot.waitUntil(lambda: tab.shown is not None)
    taken = inspect_frames(segment_name("frame", tab.run_id))
    assert taken.viewers == 1
    tab.hide()
    qtbot.waitUntil(lambda: not tab.consumer.attached)
    # Nobody here, so nothing is fetched: the copy stands still while the worker goes on.
    before = [-1]

    def stands_still() -> bool:
        now = inspect_frames(segment_name("frame", tab.run_id)).head
        still = now == before[-1]
        before.append(now)
        QTest.qWait(300)
        return still

    qtbot.waitUntil(stands_still)
    tab.show()
    qtbot.waitUntil(lambda: inspect_frames(segment_name("frame", tab.run_id)).head > before[-1] + 2)
