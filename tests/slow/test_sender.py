"""The sender against a daemon that refuses, delays, forgets and goes away."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from recording_daemon import RecordingDaemon, Relay, actions, step_line

from lanekit.slow.endpoint import open_channel
from lanekit.slow.limits import MAX_MESSAGE_BYTES, SEND_BATCH_BYTES, SEND_BATCH_ROWS
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.sending import daemon_link
from lanekit.slow.sending.sender import Outcome, Sender, report_to_stderr
from lanekit.slow.sending.spool import Spool
from patience import until


class Rig:
    """A spool with a sender that can be stopped and started like a process."""

    def __init__(self, directory: Path, target: str, **options: Any) -> None:
        self.directory = directory
        self.target = target
        self.options = options
        self.said: list[str] = []
        self.open()

    def open(self) -> None:
        self.spool = Spool.create(self.directory / "spool", "r")
        self.channel = open_channel(self.target)
        self.sender = Sender(self.spool, self.channel, report=self.said.append, **self.options)
        self.sender.start()

    def write(self, *lines: bytes) -> None:
        self.spool.journal.append_patiently(b"".join(lines))
        self.sender.notify()

    def close(self, drain_timeout: float = 60) -> Outcome:
        outcome = self.sender.close(drain_timeout)
        self.spool.close()
        return outcome


@pytest.fixture
def make_rig(short_directory: Path, recorder: RecordingDaemon) -> Callable[..., Rig]:
    return lambda target=None, **options: Rig(short_directory, target or recorder.target, **options)


def test_batches_are_full_under_load_and_small_ones_do_not_wait_long(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon
) -> None:
    rig = make_rig()
    rig.write(step_line(0))
    recorder.wait_for("steps", 1)
    rig.write(*map(step_line, range(1, 20_000)))
    assert rig.close().complete
    assert actions(recorder) == list(range(20_000))
    assert 20 <= recorder.batches <= 60
    assert rig.said == []


def test_every_field_arrives_as_it_was_written(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon
) -> None:
    begun = time.time_ns()
    rig = make_rig()
    rig.write(
        b'{"event_type":"step","episode_index":-1,"step_index":9223372036854775807,'
        b'"action":{"a":[1, 2.50]},"observation":"\xc3\xa9","reward":-0.5,"terminated":true,'
        b'"truncated":true,"info":null,"render_hint":{"z":1},"seed":-7,"time_ns":5,'
        b'"worker_id":"w","agent_id":"a","frame":{"width":1,"height":1,"channels":3,'
        b'"pixels":"AAEC"},"mine":[1.0]}\n',
        b'{"event_type":"step","episode_index":0,"step_index":0}\n',
        b'{"event_type":"episode","episode_index":4,"return":2,"length":9,"truncated":true,'
        b'"seed":1,"info":{},"agent_id":"b","time_ns":6,"x":null}\n',
        b'{"event":"saved","payload":{"p":1},"worker_id":"v","timestamp":2.5,"y":"z"}\n',
    )
    assert rig.close().complete
    first, second = recorder.rows()
    assert first == pb.Step(
        run_id="r",
        worker_id="w",
        agent_id="a",
        episode=-1,
        step=2**63 - 1,
        action_json=b'{"a":[1, 2.50]}',
        observation_json='"é"'.encode(),
        reward=-0.5,
        terminated=True,
        truncated=True,
        info_json=b"null",
        render_hint_json=b'{"z":1}',
        seed=-7,
        wall_time_ns=5,
        frame=pb.Frame(width=1, height=1, channels=3, pixels=b"\0\1\2"),
        extra_json=b'{"mine":[1.0]}',
    )
    assert not second.HasField("reward")
    assert not second.HasField("seed")
    assert (second.agent_id, second.worker_id) == ("", "")
    assert begun <= second.wall_time_ns <= time.time_ns()  # stamped where it was read
    (episode,) = recorder.rows("episodes")
    assert episode == pb.Episode(
        agent_id="b",
        episode=4,
        episode_return=2.0,
        length=9,
        truncated=True,
        seed=1,
        wall_time_ns=6,
        info_json=b"{}",
        extra_json=b'{"x":null}',
    )
    (event,) = recorder.rows("events")
    assert event == pb.RunEvent(
        worker_id="v",
        name="saved",
        wall_time_ns=2_500_000_000,
        payload_json=b'{"p":1}',
        extra_json=b'{"y":"z"}',
    )


def test_no_more_than_a_window_is_ahead_of_its_acknowledgement(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = 12
    monkeypatch.setattr(daemon_link, "SEND_WINDOW", window)
    recorder.hold_acknowledgements = True
    rig = make_rig()
    rig.write(*map(step_line, range(20_000)))
    until(lambda: recorder.batches >= window)
    time.sleep(0.3)
    # The window is looked at before a read, which makes two batches of steps.
    assert recorder.batches <= window + 1
    assert recorder.count() <= (window + 1) * SEND_BATCH_ROWS
    recorder.hold_acknowledgements = False
    recorder.restart()
    assert rig.close().complete
    assert actions(recorder) == list(range(20_000))


def test_large_lines_make_small_batches(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon
) -> None:
    rig = make_rig()
    for i in range(0, 100, 2):
        rig.write(step_line(i, info="x" * 2_000_000))
        rig.write(step_line(i + 1, info="y" * 100_000))
    rig.write(*[b'{"event":"e","payload":{"p":"%s"}}\n' % (b"z" * n) for n in (9, 10**7, 9, 9)])
    rig.write(
        *[
            b'{"event_type":"episode","episode_index":0,"info":"%s"}\n' % (b"z" * n)
            for n in (9, 10**7, 9, 9)
        ]
    )
    assert rig.close().complete
    assert actions(recorder) == list(range(100))
    assert [len(step.info_json) for step in recorder.rows()] == [2_000_002, 100_002] * 50
    for kind in ("events", "episodes"):
        assert recorder.count(kind) == 4
    assert max(nbytes for _, nbytes in recorder.sizes) < 10_100_000 < MAX_MESSAGE_BYTES
    assert max(nbytes for rows, nbytes in recorder.sizes if rows > 1) < SEND_BATCH_BYTES + 10_000


def test_batches_that_a_daemon_took_and_lost_are_sent_again(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon
) -> None:
    recorder.forget = True
    rig = make_rig()
    rig.write(*map(step_line, range(5_000)))
    time.sleep(0.3)
    recorder.forget = False
    recorder.restart()
    assert rig.close().complete
    assert actions(recorder) == list(range(5_000))


def test_what_was_committed_but_not_acknowledged_is_not_committed_twice(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon
) -> None:
    recorder.hold_acknowledgements = True
    rig = make_rig()
    rig.write(*map(step_line, range(3_000)))
    recorder.wait_for("steps", 3_000)
    assert not rig.close(0).complete
    recorder.hold_acknowledgements = False
    rig.open()
    rig.write(*map(step_line, range(3_000, 3_100)))
    assert rig.close().complete
    assert actions(recorder) == list(range(3_100))


@pytest.mark.once
def test_a_sender_restarted_at_any_point_goes_on_where_the_journal_stood(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon, short_directory: Path
) -> None:
    rig = make_rig()
    total = b""
    for turn in range(25):
        parts = []
        for i in range(turn * 100, turn * 100 + 100):
            parts += [step_line(i), b"print %d\n" % i, b'{"bad %d\n' % i]
        data = b"".join(parts)
        total += data
        rig.write(data[: len(data) // 2])
        if turn % 3:
            time.sleep(0.01 * (turn % 5))
        rig.sender.close(0)
        rig.spool.close()
        rig.open()
        rig.write(data[len(data) // 2 :])
    assert rig.close().complete
    assert actions(recorder) == list(range(2_500))
    log = (short_directory / "spool" / "worker.log").read_bytes()
    assert log == b"".join(b"print %d\n" % i for i in range(2_500))
    rejects = (short_directory / "spool" / "rejects.jsonl").read_bytes().splitlines()
    offsets = [json.loads(line)["offset"] for line in rejects]
    assert len(offsets) == len(set(offsets)) == 2_500
    assert [total[at : at + 6] for at in offsets] == [b'{"bad '] * 2_500


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    ],
)
def test_a_refusal_stops_the_sending_keeps_the_spool_and_says_what_to_do(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon, code: grpc.StatusCode
) -> None:
    recorder.refuse = (code, "this is not for me")
    rig = make_rig()
    rig.write(*map(step_line, range(100)))
    until(lambda: rig.sender.refused)
    rig.write(*map(step_line, range(100, 200)))  # the worker goes on
    outcome = rig.close()
    assert not outcome.complete
    assert outcome.refused is not None
    assert "this is not for me" in outcome.refused
    assert "lanekit proxy --adopt" in rig.said[-1]
    recorder.refuse = None
    rig.open()
    assert rig.close().complete
    assert actions(recorder) == list(range(200))


def test_a_run_that_must_exist_and_does_not_is_a_refusal(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon
) -> None:
    recorder.refuse_registration = (grpc.StatusCode.NOT_FOUND, "no run 'r'")
    rig = make_rig(require_run=True)
    until(lambda: rig.sender.refused)
    assert "no run 'r'" in (rig.close().refused or "")


def test_a_wrong_token_is_retried_and_a_right_one_sent_with_each_call(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon
) -> None:
    recorder.refuse_registration = (grpc.StatusCode.UNAUTHENTICATED, "wrong token")
    rig = make_rig(token="s3cret")
    rig.write(step_line(0))
    until(lambda: rig.said)
    assert "wrong token" in rig.said[0]
    recorder.refuse_registration = None
    assert rig.close().complete
    assert ("authorization", "Bearer s3cret") in recorder.metadata


def test_a_daemon_that_has_less_than_it_acknowledged_is_not_filled_with_holes(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon
) -> None:
    rig = make_rig()
    rig.write(*map(step_line, range(100)))
    recorder.wait_for("steps", 100)
    until(lambda: rig.spool.checkpoint.next_seq["steps"] == 101)
    with recorder.lock:
        recorder.only_stream().rows["steps"].clear()
    recorder.restart()
    until(lambda: any("had acknowledged 100" in said for said in rig.said))
    rig.write(step_line(100))
    assert "had acknowledged 100" in (rig.close().refused or "")
    assert f"lanekit proxy --adopt {rig.spool.directory} --new-stream" in rig.said[-1]
    assert recorder.count() == 0


def test_a_daemon_that_had_another_store_for_a_while_gets_everything_in_the_end(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_link, "_BEHIND_INTERVAL", 0.2)
    rig = make_rig()
    rig.write(*map(step_line, range(100)))
    until(lambda: rig.spool.checkpoint.next_seq["steps"] == 101)
    right, wrong = recorder.streams, type(recorder.streams)(recorder.streams.default_factory)
    recorder.stop()
    recorder.streams = wrong
    recorder.start()
    until(lambda: wrong and len(recorder.only_stream().registered) >= 3)
    rig.write(*map(step_line, range(100, 200)))
    assert rig.sender.refused is None
    assert recorder.count() == 0
    recorder.stop()
    recorder.streams = right
    recorder.start()
    assert rig.close().complete
    assert actions(recorder) == list(range(200))
    assert len([said for said in rig.said if "had acknowledged" in said]) == 1
    assert rig.said[-1] == "the daemon is there again"


@pytest.mark.once
def test_a_connection_cut_after_any_number_of_bytes_loses_and_repeats_nothing(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon, short_directory: Path
) -> None:
    with Relay(short_directory, recorder.path) as relay:
        rig = make_rig(relay.target)
        sent = 0
        for budget in (1, 30, 100, 500, 900, 1500, 4000, 20_000, 70_000, 150_000):
            relay.budget = budget
            for _ in range(4):
                rig.write(*map(step_line, range(sent, sent + 400)))
                sent += 400
                time.sleep(0.02)
            until(lambda: relay.budget is None)
        assert rig.close().complete
        assert relay.cuts >= 10
    assert actions(recorder) == list(range(sent))


def test_commands_and_vital_signs_travel_over_the_heartbeat(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon
) -> None:
    taken: list[tuple[int, str]] = []
    recorder.commands += [(1, pb.CONTROL_ACTION_PAUSE), (2, pb.CONTROL_ACTION_STOP)]

    def take(command: tuple[int, str]) -> bool:
        taken.append(command)
        return True

    rig = make_rig(on_command=take)
    until(lambda: len(taken) == 2)
    rig.write(b'{"broken\n', step_line(0))
    recorder.wait_for("steps", 1)
    recorder.restart()  # the new heartbeat says what is delivered, so nothing comes again
    until(
        lambda: (last := recorder.heartbeats[-1]).delivered_command_id == 2
        and last.rejected_lines == 1
    )
    assert rig.close().rejected_lines == 1
    assert taken == [(1, "pause"), (2, "stop")]


def test_the_daemon_knows_of_every_rejected_line_before_the_sender_leaves(
    make_rig: Callable[..., Rig], recorder: RecordingDaemon
) -> None:
    rig = make_rig()
    until(lambda: recorder.heartbeats)
    rig.write(b'{"broken\n' * 7, step_line(0))
    assert rig.close().rejected_lines == 7
    assert recorder.heartbeats[-1].rejected_lines == 7


def test_a_report_that_nobody_can_take_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "closed").open("w") as file:
        pass
    monkeypatch.setattr(sys, "stderr", file)
    report_to_stderr("nobody hears this")
    with contextlib.suppress(OSError), open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        report_to_stderr("nor this")


def test_closing_ends_every_thread(make_rig: Callable[..., Rig], recorder: RecordingDaemon) -> None:
    before = set(threading.enumerate())

    def of_the_sender() -> list[threading.Thread]:
        others = set(threading.enumerate()) - before
        return [thread for thread in others if thread.name.startswith("lanekit-")]

    rig = make_rig()
    rig.write(step_line(0))
    recorder.wait_for("steps", 1)
    assert rig.close().complete
    until(lambda: not of_the_sender())
    recorder.stop()
    rig.open()
    assert rig.close(0.2).complete
