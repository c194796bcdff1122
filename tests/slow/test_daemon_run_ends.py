"""When a run begins and when it is over: with one worker, with several, with one that vanished."""

from __future__ import annotations

import itertools
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import grpc
import pytest
from daemon_process import (
    DaemonProcess,
    OpenCall,
    events,
    failure_of,
    publish,
    publish_steps,
    register,
    run_of,
    steps,
)

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from patience import patience, until

MakeDaemon = Callable[..., DaemonProcess]

RUNNING, COMPLETED, FAILED, LOST = (
    pb.RUN_STATE_RUNNING,
    pb.RUN_STATE_COMPLETED,
    pb.RUN_STATE_FAILED,
    pb.RUN_STATE_LOST,
)


def say(stub: TrainerServiceStub, stream: str, *names: str, payload: bytes = b"") -> None:
    """Publish events as the next ones of a stream of the run ``r``."""
    first = register(stub, "r", stream).committed_events + 1
    publish(stub.PublishRunEvents, events("r", first, *names, stream=stream, payload=payload))


def leave(stub: TrainerServiceStub, stream: str, status: str) -> None:
    say(stub, stream, "worker_exited", payload=f'{{"status": {status}}}'.encode())


def pause(stub: TrainerServiceStub) -> Any:
    request = pb.ControlRunRequest(run_id="r", action=pb.CONTROL_ACTION_PAUSE)
    return stub.ControlRun(request, timeout=patience(30))


def test_a_run_ends_with_its_last_worker(stub: TrainerServiceStub) -> None:
    for stream in ("s1", "s2"):
        say(stub, stream, "run_started")
    say(stub, "s1", "run_completed")
    leave(stub, "s1", "0")
    run = run_of(stub, "r")
    assert (run.state, run.ended_wall_time_ns, run.HasField("exit_status")) == (RUNNING, 0, False)
    pause(stub)
    leave(stub, "s2", "0")
    run = run_of(stub, "r")
    assert (run.state, run.exit_status, run.ended_wall_time_ns) == (COMPLETED, 0, 1)
    assert failure_of(lambda: pause(stub)).code() is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize(
    ("statuses", "state", "exit_status"),
    [
        (("3", "0"), FAILED, 3),
        (("0", "3"), FAILED, 3),
        (("null", "3"), FAILED, 3),
        (("null", "0"), LOST, None),
    ],
)
def test_the_worst_end_of_a_worker_is_the_runs(
    stub: TrainerServiceStub, statuses: tuple[str, str], state: Any, exit_status: int | None
) -> None:
    for stream in ("s1", "s2"):
        say(stub, stream, "run_started")
    leave(stub, "s1", statuses[0])
    assert run_of(stub, "r").state == RUNNING
    leave(stub, "s2", statuses[1])
    run = run_of(stub, "r")
    assert run.state == state
    assert (run.exit_status if run.HasField("exit_status") else None) == exit_status
    assert ("status 3" in run.reason) == (state == FAILED)


def test_a_worker_that_starts_after_the_others_ended_revives_the_run(
    stub: TrainerServiceStub,
) -> None:
    say(stub, "s1", "run_started")
    say(stub, "s1", "run_failed", payload=b'{"error": "out of memory"}')
    assert run_of(stub, "r").reason == "out of memory"
    publish_steps(stub, "r", 10, stream="s2")
    run = run_of(stub, "r")
    assert (run.state, run.reason, run.ended_wall_time_ns) == (RUNNING, "", 0)
    say(stub, "s1", "run_started")
    leave(stub, "s2", "0")
    assert run_of(stub, "r").state == RUNNING
    leave(stub, "s1", "0")
    assert run_of(stub, "r").state == COMPLETED


def test_steps_that_are_committed_after_their_workers_exit_do_not_revive_it(
    stub: TrainerServiceStub,
) -> None:
    """Steps and events travel in calls of their own, in no order."""
    register(stub, "r")
    for status, state in (("0", COMPLETED), ("null", COMPLETED)):
        leave(stub, "s1", status)
        publish_steps(stub, "r", 10)
        assert run_of(stub, "r").state == state
    say(stub, "s2", "run_started")
    leave(stub, "s2", "null")
    publish_steps(stub, "r", 10, stream="s2")
    assert run_of(stub, "r").state == LOST


def test_commands_reach_a_worker_that_stays_after_its_run_ended(stub: TrainerServiceStub) -> None:
    say(stub, "s1", "run_started", "run_completed")
    heart = OpenCall(stub.Heartbeat)
    heart.send(pb.HeartbeatRequest(run_id="r", stream_id="s1"))
    heart.read()
    assert pause(stub).connected_workers == 1
    heart.finish()
    until(lambda: refused(stub))


def refused(stub: TrainerServiceStub) -> bool:
    try:
        pause(stub)
    except grpc.RpcError as error:
        return error.code() is grpc.StatusCode.FAILED_PRECONDITION
    return False


@pytest.mark.parametrize("first", ["steps", "events"])
def test_the_first_events_of_any_kind_start_a_run(stub: TrainerServiceStub, first: str) -> None:
    register(stub, "r")
    assert run_of(stub, "r").state == pb.RUN_STATE_SUBMITTED
    if first == "steps":
        publish(stub.PublishRunSteps, steps("r", 1, 5))
    else:
        say(stub, "s1", "loaded")
    run = run_of(stub, "r")
    assert run.state == RUNNING
    assert run.started_wall_time_ns > 1
    say(stub, "s1", "run_started")  # which was earlier by its own clock
    assert run_of(stub, "r").started_wall_time_ns == 1


def test_a_vanished_worker_is_lost_until_it_comes_back(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(silence__LOST_AFTER=0.6).start()
    with daemon.connect() as stub:
        register(stub, "r", host="elsewhere", worker_id="w1", spool_directory="/nowhere")
        publish(stub.PublishRunEvents, events("r", 1, "run_started"))
        register(stub, "here", host=socket.gethostname(), pid=daemon.pid)
        publish(stub.PublishRunEvents, events("here", 1, "run_started"))
        run = until(lambda: (found := run_of(stub, "r")).state == LOST and found)
        assert "w1" in run.reason
        assert "elsewhere" in run.reason
        heart = OpenCall(stub.Heartbeat)

        def running_after(sign_of_life: Callable[[], object]) -> Any:
            sign_of_life()
            found = run_of(stub, "r")  # by then a busy machine may have lost it once more
            return found if found.state == RUNNING else None

        def beat() -> None:
            heart.send(pb.HeartbeatRequest(run_id="r", stream_id="s1"))
            heart.read()

        run = until(lambda: running_after(beat))
        assert (run.reason, run.ended_wall_time_ns) == ("", 0)
        heart.cancel()
        until(lambda: run_of(stub, "r").state == LOST)
        number = itertools.count(1)

        def send_a_step() -> None:
            publish(stub.PublishRunSteps, steps("r", next(number), 1))

        until(lambda: running_after(send_a_step))
        publish(stub.PublishRunEvents, events("r", 2, "run_completed"))
        assert run_of(stub, "r").state == COMPLETED
        # One whose process is seen is not lost, however long it says nothing.
        assert run_of(stub, "here").state == RUNNING


def test_the_last_count_of_rejected_lines_is_stored_before_it_is_answered(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    register(stub, "r")
    heart = OpenCall(stub.Heartbeat)
    beats = [
        pb.HeartbeatRequest(run_id="r", stream_id="s1", rejected_lines=count)
        for count in (0, 0, 0, 1, 2, 2, 3)
    ]
    heart.send(beats[0])
    heart.read()
    with closing(sqlite3.connect(daemon.store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        heart.send(*beats[1:])
        for _ in range(2):  # that the worker lives is no news, and waits for nobody
            heart.read()
        other.execute("ROLLBACK")
    for _ in range(4):
        heart.read()
    assert run_of(stub, "r").rejected_lines == 3
    heart.finish()
