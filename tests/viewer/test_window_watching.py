"""What the main window hears of: runs, lanes, logs and answers, each from a thread of its own."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from window_desk import WindowDesk, lone_desk
from writers import StartWriter

from lanekit.errors import TelemetryError
from lanekit.integrations.showing.lanes import slot_lane_of, state_lane_of
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.viewer.window.background import Background
from lanekit.viewer.window.daemon_watch import DaemonWatch
from lanekit.viewer.window.lane_watch import live_lanes
from lanekit.viewer.window.log_feed import LONGEST_LINE, LogFeed, event_line, new_lines, readable
from lanekit.viewer.window.log_pane import LogPane
from lanekit.viewer.window.run_row import RunRow

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)


@pytest.fixture
def desk(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[WindowDesk]:
    """A desk of its own for each test."""
    with lone_desk(qapp, monkeypatch) as made:
        yield made


class Heard:
    """Keeps what a watch says."""

    def __init__(self, watch: DaemonWatch) -> None:
        self.daemon: list[tuple[bool, str]] = []
        self.listed: list[list[str]] = []
        self.changed: list[str] = []
        watch.daemon_changed.connect(lambda answers, reason: self.daemon.append((answers, reason)))
        watch.runs_listed.connect(lambda runs: self.listed.append([run.run_id for run in runs]))
        watch.runs_changed.connect(lambda runs: self.changed.extend(run.run_id for run in runs))


def test_a_daemon_is_found_lost_and_found_again(desk: WindowDesk, qtbot: QtBot) -> None:
    watch = DaemonWatch(desk.access().connect)
    heard = Heard(watch)
    watch.start()
    qtbot.waitUntil(lambda: len(heard.daemon) == 1)
    answers, reason = heard.daemon[0]
    assert not answers
    assert "`lanekit daemon` starts one" in reason
    desk.daemon.start()
    qtbot.waitUntil(lambda: heard.listed == [[]])
    desk.submit("r", total_steps=5)
    qtbot.waitUntil(lambda: "r" in heard.changed)
    desk.daemon.kill()
    qtbot.waitUntil(lambda: not heard.daemon[-1][0])
    desk.daemon.start()
    qtbot.waitUntil(lambda: heard.listed == [[], ["r"]])
    watch.stop()
    # Why there is none may be told in several words: it has just ended, its socket is gone.
    turns = [answers for answers, _ in itertools.groupby(answers for answers, _ in heard.daemon)]
    assert turns == [False, True, False, True]


def test_a_token_file_that_vanishes_is_a_reason_and_no_end(qtbot: QtBot) -> None:
    def connect() -> DaemonClient:
        raise TelemetryError("token file t can not be read")

    watch = DaemonWatch(connect)
    heard = Heard(watch)
    watch.start()
    qtbot.waitUntil(lambda: heard.daemon == [(False, "token file t can not be read")])
    watch.stop()


def test_a_watch_that_never_began_can_be_stopped(qapp: QApplication) -> None:
    DaemonWatch(lambda: DaemonClient("unix:/nowhere")).stop()


def test_a_daemon_that_is_silent_holds_nothing_up(desk: WindowDesk, qtbot: QtBot) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(desk.daemon.socket))
        deaf.listen()
        window = desk.open()
        window.opening.open_numbers("some")
        window.background.ask(lambda client: client.run("some"), print, print)
        turned: list[None] = []
        window.background.run(lambda: None, turned.append, print)
        qtbot.waitUntil(lambda: turned == [None])
        desk.close_windows()  # the desk sees to it that no thread is left


def test_only_lanes_with_pictures_are_told(start_writer: StartWriter, run_id: str) -> None:
    lanes = [run_id, state_lane_of(run_id), slot_lane_of(run_id, 0)]
    writers = [start_writer(run=lane) for lane in lanes]
    found = {lane for lane in live_lanes() if lane.startswith(run_id)}
    assert found == {run_id}
    writers[0].leave()
    found = {lane for lane in live_lanes() if lane.startswith(run_id)}
    assert slot_lane_of(run_id, 0) in found
    for writer in writers[1:]:
        writer.leave()
    assert not {lane for lane in live_lanes() if lane.startswith(run_id)}


def test_answers_and_failures_come_back_to_the_windows_thread(qtbot: QtBot) -> None:
    background = Background(lambda: DaemonClient("unix:/nowhere"))
    told: list[tuple[Any, threading.Thread]] = []

    def tell(answer: Any) -> None:
        told.append((answer, threading.current_thread()))

    background.run(lambda: 1 + 1, tell, tell)
    background.run(lambda: 1 // 0, tell, tell)
    qtbot.waitUntil(lambda: len(told) == 2)
    assert {answer for answer, _ in told} == {2, "integer division or modulo by zero"}
    assert {thread for _, thread in told} == {threading.main_thread()}
    background.close()
    background.run(lambda: 3, tell, tell)
    assert not background.busy


def test_closing_ends_a_question_that_is_being_asked(qtbot: QtBot) -> None:
    asked = threading.Event()
    closed = threading.Event()

    class SlowClient:
        """Answers only when it is closed."""

        def close(self) -> None:
            closed.set()

    def question(client: Any) -> None:
        asked.set()
        closed.wait()

    background = Background(lambda: SlowClient())  # type: ignore[arg-type, return-value]
    told: list[Any] = []
    background.ask(question, told.append, told.append)
    asked.wait()
    background.close()
    assert not background.busy
    assert told == []


def test_a_log_shows_what_was_and_what_comes(desk: WindowDesk, qtbot: QtBot) -> None:
    desk.daemon.start()
    desk.submit("talker", total_steps=10**6, pause=0.01)
    lines: list[str] = []
    feed = LogFeed("talker", desk.access().connect, ())
    feed.lines_ready.connect(lambda new: lines.extend(line.text for line in new))
    feed.start()
    qtbot.waitUntil(lambda: any("run_started" in line for line in lines))
    with DaemonClient(desk.daemon.target) as client:
        client.control_run("talker", "stop")
    qtbot.waitUntil(lambda: any("worker_exited" in line for line in lines))
    feed.leave()
    feed.join()
    assert feed.over
    assert not any("heartbeat" in line for line in lines)


def test_a_run_whose_lane_was_seen_first_has_its_log_all_the_same(
    desk: WindowDesk, qtbot: QtBot
) -> None:
    desk.daemon.start()
    desk.submit("early", total_steps=10)
    pane = LogPane(desk.access().connect)
    qtbot.addWidget(pane)
    pane.show_run(RunRow("early", "live", 0, on_daemon=False))
    assert "no daemon knows it" in pane.about.text()
    pane.show_run(RunRow("early", "running", 0))
    qtbot.waitUntil(lambda: "run_started" in pane.text.toPlainText())
    pane.close_feeds()


def test_a_file_is_followed_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "worker.err"
    places: dict[str, int] = {}
    assert new_lines(str(path), places) == []
    path.write_bytes(b"one\n10%\r20%\r30%\nhalf a li")
    texts = [line.text for line in new_lines(str(path), places)]
    assert texts == [f"stderr, {path}:", "  one", "  30%"]
    assert new_lines(str(path), places) == []
    with path.open("ab") as file:
        file.write(b"ne\n\xff\n")
    assert [line.text for line in new_lines(str(path), places)] == ["  half a line", "  �"]
    path.write_bytes(b"anew\n")
    assert [line.text for line in new_lines(str(path), places)] == ["  anew"]


def test_a_line_without_an_end_is_shown_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "worker.err"
    path.write_bytes(b"x" * 10_000)
    places: dict[str, int] = {}
    assert new_lines(str(path), places)[-1].text.endswith("x…")
    assert new_lines(str(path), places) == []


def test_what_would_disturb_is_left_out_of_a_line() -> None:
    assert readable("\x1b[31mred\x1b[0m\tand\nmore") == "red and more"
    assert len(readable("a" * 10_000)) == LONGEST_LINE + 1


@pytest.mark.parametrize(
    ("name", "payload", "tone"),
    [
        ("run_failed", b'{"error": "no"}', "bad"),
        ("run_started", b"{}", "good"),
        ("worker_exited", b'{"status": 0}', "quiet"),
        ("worker_exited", b'{"status": -9}', "bad"),
        ("anything", b"not json", "plain"),
    ],
)
def test_events_have_the_colour_of_what_they_mean(name: str, payload: bytes, tone: str) -> None:
    line = event_line(pb.RunEvent(name=name, payload_json=payload))
    assert line.tone == tone
    assert name in line.text
