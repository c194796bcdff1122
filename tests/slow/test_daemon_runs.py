"""Runs and workers over gRPC: listed, watched, put away, commanded, heard of."""

from __future__ import annotations

import time
from typing import Any

import grpc
import pytest
from daemon_process import (
    OpenCall,
    events,
    failure_of,
    history,
    publish,
    publish_steps,
    register,
    run_of,
)

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from patience import patience, until

PAUSE, RESUME, STOP = (
    pb.CONTROL_ACTION_PAUSE,
    pb.CONTROL_ACTION_RESUME,
    pb.CONTROL_ACTION_STOP,
)


def listed(stub: TrainerServiceStub, **request: Any) -> list[str]:
    return [
        run.run_id
        for run in stub.ListRuns(pb.ListRunsRequest(**request), timeout=patience(30)).runs
    ]


def control(stub: TrainerServiceStub, run: str, action: Any) -> Any:
    return stub.ControlRun(pb.ControlRunRequest(run_id=run, action=action), timeout=patience(30))


class Heart(OpenCall):
    """A worker's heartbeat; remembers the commands it got."""

    def __init__(
        self, stub: TrainerServiceStub, run: str, stream: str = "s1", delivered: int = 0
    ) -> None:
        super().__init__(stub.Heartbeat)
        self.run, self.stream = run, stream
        self.beat(delivered)
        assert not self.read().HasField("command")

    def beat(self, delivered: int = 0, rejected: int = 0) -> None:
        self.send(
            pb.HeartbeatRequest(
                run_id=self.run,
                stream_id=self.stream,
                delivered_command_id=delivered,
                rejected_lines=rejected,
            )
        )

    def command(self) -> tuple[int, int]:
        while not (answer := self.read()).HasField("command"):
            pass
        return answer.command.command_id, answer.command.action


def test_runs_are_listed_newest_first(stub: TrainerServiceStub) -> None:
    assert listed(stub) == []
    for run in ("one", "two", "three"):
        register(stub, run)
    assert listed(stub) == ["three", "two", "one"]
    assert listed(stub, limit=2) == ["three", "two"]
    assert listed(stub, run_id="two") == ["two"]


def test_an_archived_run_is_hidden_and_keeps_its_data(stub: TrainerServiceStub) -> None:
    publish_steps(stub, "old", 10)
    register(stub, "new")
    request = pb.ArchiveRunRequest(run_id="old", archived=True)
    assert stub.ArchiveRun(request).run.archived
    assert listed(stub) == ["new"]
    assert listed(stub, include_archived=True) == ["new", "old"]
    assert run_of(stub, "old").archived
    assert len(history(stub, "old")) == 10
    publish_steps(stub, "old", 10)  # it may even go on
    stub.ArchiveRun(pb.ArchiveRunRequest(run_id="old", archived=False))
    assert listed(stub) == ["new", "old"]
    assert len(history(stub, "old")) == 20


def test_a_watcher_sees_every_run_and_then_each_change(stub: TrainerServiceStub) -> None:
    register(stub, "one")
    watch = stub.WatchRuns(pb.WatchRunsRequest(), timeout=patience())
    first = next(watch)
    assert [run.run_id for run in first.runs] == ["one"]
    known = {run.run_id: run for run in first.runs}
    revision = first.revision

    def watch_until(condition: Any) -> None:
        nonlocal revision
        while not condition():
            answer = next(watch)
            assert answer.revision > revision
            revision = answer.revision
            known.update({run.run_id: run for run in answer.runs})

    register(stub, "two")
    watch_until(lambda: "two" in known)
    publish(stub.PublishRunEvents, events("two", 1, "run_started"))
    watch_until(lambda: known["two"].state == pb.RUN_STATE_RUNNING)
    publish_steps(stub, "one", 100)
    watch_until(lambda: known["one"].steps == 100)
    stub.ArchiveRun(pb.ArchiveRunRequest(run_id="one", archived=True))
    watch_until(lambda: known["one"].archived)
    publish(stub.PublishRunEvents, events("two", 2, "run_completed"))
    watch_until(lambda: known["two"].state == pb.RUN_STATE_COMPLETED)
    watch.cancel()
    # Who comes back with a revision learns what changed since, and no more.
    later = stub.WatchRuns(pb.WatchRunsRequest(after_revision=revision), timeout=patience())
    assert list(next(later).runs) == []
    register(stub, "three")
    assert [run.run_id for run in next(later).runs] == ["three"]
    later.cancel()


def test_a_run_knows_its_workers(stub: TrainerServiceStub) -> None:
    for number in (1, 2):
        register(
            stub,
            "r",
            f"s{number}",
            worker_id=f"w{number}",
            pid=100 + number,
            host="somewhere",
            spool_directory=f"/spool/{number}",
        )
    register(stub, "r", "s2", worker_id="w2", pid=333, host="elsewhere")
    workers = {worker.worker_id: worker for worker in run_of(stub, "r").workers}
    assert workers.keys() == {"w1", "w2"}
    assert (workers["w1"].pid, workers["w1"].host) == (101, "somewhere")
    assert workers["w1"].spool_directory == "/spool/1"
    assert (workers["w2"].pid, workers["w2"].host) == (333, "elsewhere")


def test_a_heartbeat_says_that_the_worker_lives(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    before = run_of(stub, "r").workers[0].last_seen_wall_time_ns
    heart = Heart(stub, "r")
    time.sleep(0.01)
    heart.beat(rejected=7)
    heart.read()
    until(lambda: run_of(stub, "r").rejected_lines == 7)
    assert run_of(stub, "r").workers[0].last_seen_wall_time_ns > before
    heart.finish()


def test_a_command_reaches_each_worker_once_and_in_order(stub: TrainerServiceStub) -> None:
    for stream in ("s1", "s2"):
        register(stub, "r", stream)
    register(stub, "other")
    hearts = [Heart(stub, "r", stream) for stream in ("s1", "s2")]
    stranger = Heart(stub, "other")
    expected = []
    for number, action in enumerate([PAUSE, RESUME, PAUSE, STOP], 1):
        answer = control(stub, "r", action)
        assert (answer.command_id, answer.connected_workers) == (number, 2)
        expected.append((number, action))
    for heart in hearts:
        assert [heart.command() for _ in expected] == expected
    for heart in (*hearts, stranger):
        rest = heart.finish()
        assert not [answer for answer in rest if answer.HasField("command")]


def test_commands_wait_for_a_worker_that_is_away(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    assert control(stub, "r", PAUSE).connected_workers == 0
    control(stub, "r", RESUME)
    heart = Heart(stub, "r")
    assert [heart.command(), heart.command()] == [(1, PAUSE), (2, RESUME)]
    heart.cancel()
    # What was handed over before the break is not sent again; what was not, is.
    again = Heart(stub, "r", delivered=1)
    assert again.command() == (2, RESUME)
    again.cancel()
    last = Heart(stub, "r", delivered=2)
    control(stub, "r", STOP)
    assert last.command() == (3, STOP)
    assert not [answer for answer in last.finish() if answer.HasField("command")]


def test_a_newer_heartbeat_of_a_stream_replaces_the_older(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    first = Heart(stub, "r")
    second = Heart(stub, "r")
    assert first.failure().code() is grpc.StatusCode.ABORTED
    assert control(stub, "r", PAUSE).connected_workers == 1
    assert second.command() == (1, PAUSE)
    second.finish()
    until(lambda: control(stub, "r", PAUSE).connected_workers == 0)


def test_a_heartbeat_stays_with_its_stream(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    heart = Heart(stub, "r")
    heart.stream = "s2"
    heart.beat()
    assert heart.failure().code() is grpc.StatusCode.INVALID_ARGUMENT
    request = pb.HeartbeatRequest(run_id="r", stream_id="unheard-of")
    error = failure_of(lambda: stub.Heartbeat(iter([request]), timeout=patience(30)))
    assert error.code() is grpc.StatusCode.NOT_FOUND


def test_the_workers_answer_moves_the_run(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    publish(stub.PublishRunEvents, events("r", 1, "run_started"))
    for seq, (word, action, state) in enumerate(
        [
            ("pause", PAUSE, pb.RUN_STATE_PAUSED),
            ("resume", RESUME, pb.RUN_STATE_RUNNING),
        ],
        2,
    ):
        command = control(stub, "r", action).command_id
        payload = f'{{"command_id": {command}, "action": "{word}"}}'.encode()
        publish(stub.PublishRunEvents, events("r", seq, "control_applied", payload=payload))
        assert run_of(stub, "r").state == state


@pytest.mark.parametrize("ending", ["run_completed", "run_failed"])
def test_an_ended_run_takes_no_commands(stub: TrainerServiceStub, ending: str) -> None:
    register(stub, "r")
    publish(stub.PublishRunEvents, events("r", 1, "run_started", ending))
    error = failure_of(lambda: control(stub, "r", PAUSE))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "ended" in error.details()


def test_cancelling_a_run_without_local_workers_tells_them_to_stop(
    stub: TrainerServiceStub,
) -> None:
    register(stub, "r", host="another-machine", spool_directory="/tmp")
    publish(stub.PublishRunEvents, events("r", 1, "run_started"))
    heart = Heart(stub, "r")
    run = stub.CancelRun(pb.CancelRunRequest(run_id="r"), timeout=patience(30)).run
    assert (run.state, run.reason) == (pb.RUN_STATE_CANCELLED, "cancelled")
    assert heart.command() == (1, STOP)
    heart.finish()
    # However the worker ends now, the run stays cancelled; and its last words are still kept.
    publish(stub.PublishRunEvents, events("r", 2, "worker_exited", payload=b'{"status": -15}'))
    run = run_of(stub, "r")
    assert (run.state, run.exit_status, run.events) == (pb.RUN_STATE_CANCELLED, -15, 2)
    assert stub.CancelRun(pb.CancelRunRequest(run_id="r")).run.state == pb.RUN_STATE_CANCELLED
