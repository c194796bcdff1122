"""The daemon as a process: one per store, an orderly end, a start after a disorderly one."""

from __future__ import annotations

import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from daemon_process import (
    DaemonProcess,
    OpenCall,
    failure_of,
    history,
    publish,
    publish_steps,
    register,
    run_of,
    steps,
)
from grpc_health.v1 import health_pb2, health_pb2_grpc

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from patience import patience, until

MakeDaemon = Callable[..., DaemonProcess]


def test_two_daemons_never_share_a_store(daemon: DaemonProcess) -> None:
    other = DaemonProcess(daemon.directory)
    other.socket = daemon.directory / "other.sock"
    status, message = other.refusal("--state", str(daemon.directory / "elsewhere"))
    assert status == 1
    assert f"process {daemon.pid}" in message
    assert f"store {daemon.store}" in message
    # A second name for the same file is no way around it.
    other.store = daemon.directory / "alias.db"
    other.store.symlink_to(daemon.store)
    assert other.refusal("--state", str(daemon.directory / "elsewhere"))[0] == 1


def test_two_daemons_never_share_spools_or_a_socket(daemon: DaemonProcess) -> None:
    other = DaemonProcess(daemon.directory)
    other.store = daemon.directory / "other.db"
    other.socket = daemon.directory / "other.sock"
    status, message = other.refusal()
    assert (status, "spool directory" in message) == (1, True)
    other.socket = daemon.socket
    status, message = other.refusal("--state", str(daemon.directory / "nowhere"))
    assert (status, f"socket {daemon.socket}" in message) == (1, True)
    assert "a second one takes a --socket, --state and --store of its own" in message
    assert not (daemon.directory / "nowhere").exists()
    assert not list(daemon.directory.glob("other.db*"))
    with daemon.connect() as stub:
        publish_steps(stub, "r", 5)  # the first one has not noticed


def test_a_dead_daemons_socket_is_replaced(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    daemon.kill()
    assert daemon.socket.is_socket()
    daemon.start()
    with daemon.connect() as stub:
        publish_steps(stub, "r", 5)


def test_a_socket_that_somebody_else_answers_is_left_alone(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(daemon.socket))
        other.listen()
        status, message = daemon.refusal()
        assert status == 1
        assert "answers" in message
        assert daemon.socket.is_socket()


def test_a_file_in_the_sockets_place_is_left_alone(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.socket.write_text("precious")
    status, message = daemon.refusal()
    assert status == 1
    assert "no socket" in message
    assert daemon.socket.read_text() == "precious"


def test_a_place_that_can_not_be_written_is_refused(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    (daemon.directory / "file").touch()
    daemon.store = daemon.directory / "file" / "lanekit.db"
    status, message = daemon.refusal()
    assert status == 1
    assert str(daemon.directory / "file") in message
    assert "Traceback" not in message


def test_a_path_too_long_for_a_socket_is_refused(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon()
    daemon.socket = daemon.directory / ("x" * 120)
    status, message = daemon.refusal()
    assert status in (1, 2)
    assert "107" in message


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\0" * 300])
def test_a_file_that_is_no_store_is_refused(make_daemon: MakeDaemon, content: bytes) -> None:
    daemon = make_daemon()
    daemon.store.write_bytes(content)
    status, message = daemon.refusal()
    assert status == 1
    assert str(daemon.store) in message
    assert "Traceback" not in message
    assert daemon.store.read_bytes() == content


def test_a_newer_store_is_refused(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    daemon.stop()
    with sqlite3.connect(daemon.store) as file:
        file.execute("PRAGMA user_version = 4711")
    file.close()
    status, message = daemon.refusal()
    assert status == 1
    assert "4711" in message


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_orderly_end_commits_and_acknowledges_what_was_received(
    make_daemon: MakeDaemon, number: signal.Signals
) -> None:
    daemon = make_daemon().start()
    acknowledged = 0
    with daemon.connect() as stub:
        register(stub, "r")
        sending = threading.Event()

        def requests():  # type: ignore[no-untyped-def]
            for i in range(100_000):
                yield steps("r", 1 + 100 * i, 100)
                sending.set()

        call = stub.PublishRunSteps(requests())
        sending.wait(patience(30))
        threading.Timer(0.5, daemon.signal, (number,)).start()
        with pytest.raises(grpc.RpcError) as ended:
            for ack in call:
                acknowledged = ack.committed_seq
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "shutting down" in ended.value.details()
    assert daemon.wait() == 0
    assert acknowledged > 0
    with sqlite3.connect(daemon.store) as file:
        # The last acknowledgement covered everything that was stored: nothing is in doubt.
        assert file.execute("SELECT count(*) FROM steps").fetchone() == (acknowledged,)
    file.close()
    assert not daemon.socket.exists()
    assert not Path(f"{daemon.store}-wal").exists()


def test_open_calls_of_every_kind_do_not_hold_up_the_end(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    with grpc.insecure_channel(daemon.target) as channel:
        stub = TrainerServiceStub(channel)
        publish_steps(stub, "r", 10)
        health = health_pb2_grpc.HealthStub(channel)
        watch = health.Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        service = health_pb2.HealthCheckRequest(service="lanekit.telemetry.v1.TrainerService")
        assert health.Check(service).status == health_pb2.HealthCheckResponse.SERVING
        publishing = OpenCall(stub.PublishRunSteps)
        publishing.send(steps("r", 11, 1))
        publishing.read_until(11)
        beat = OpenCall(stub.Heartbeat)
        beat.send(pb.HeartbeatRequest(run_id="r", stream_id="s1"))
        beat.read()
        silent = OpenCall(stub.Heartbeat)  # never says a word
        follow = stub.StreamRunSteps(pb.StreamRunStepsRequest(run_id="r"))
        assert next(follow).next_cursor == 11
        runs = stub.WatchRuns(pb.WatchRunsRequest())
        assert [run.run_id for run in next(runs).runs] == ["r"]
        daemon.signal(signal.SIGTERM)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        for error in (
            publishing.failure(),
            beat.failure(),
            failure_of(lambda: follow),
            failure_of(lambda: runs),
        ):
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            assert "shutting down" in error.details()
        assert daemon.wait() == 0
        silent.cancel()


def test_a_locked_store_does_not_keep_the_daemon_alive(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(server__DRAIN=1.0).start()
    with daemon.connect() as stub:
        publish_steps(stub, "r", 10)
        blocker = sqlite3.connect(daemon.store, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        call = OpenCall(stub.PublishRunSteps)
        call.send(steps("r", 11, 10))
        time.sleep(1)
        assert daemon.stop() == 0
        failure = call.failure()
        assert failure.code() is grpc.StatusCode.UNAVAILABLE
        assert failure.details() == "the daemon is shutting down"
        blocker.execute("ROLLBACK")
        blocker.close()
    daemon.start()
    with daemon.connect() as stub:
        assert register(stub, "r").committed_steps == 10  # never acknowledged, so sent again
        assert publish(stub.PublishRunSteps, steps("r", 11, 10)) == [20]


@pytest.mark.once
def test_what_was_acknowledged_survives_a_kill(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    acknowledged = sent = 0
    for _ in range(5):
        with daemon.connect() as stub:
            first = register(stub, "r").committed_steps
            assert acknowledged <= first <= sent
            call = OpenCall(stub.PublishRunSteps)
            sent = first
            threading.Timer(0.4, daemon.signal, (signal.SIGKILL,)).start()
            with pytest.raises(grpc.RpcError) as cut:
                while True:
                    call.send(*(steps("r", sent + 1 + 50 * i, 50) for i in range(4)))
                    sent += 200
                    acknowledged = call.read().committed_seq
            assert cut.value.code() is grpc.StatusCode.UNAVAILABLE
            call.cancel()
        daemon.wait()
        daemon.start()
    with daemon.connect() as stub:
        rows = history(stub, "r")
        assert acknowledged <= len(rows) <= sent
        assert [step.step for step in rows] == list(range(len(rows)))
        assert run_of(stub, "r").steps == len(rows)


def test_a_client_reconnects_to_the_next_daemon(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    with daemon.connect() as stub:
        publish_steps(stub, "r", 10)
        daemon.kill()
        assert failure_of(lambda: register(stub, "r")).code() is grpc.StatusCode.UNAVAILABLE
        daemon.start()

        def again() -> bool:
            try:
                return bool(register(stub, "r").committed_steps == 10)
            except grpc.RpcError:
                return False

        until(again)
        publish_steps(stub, "r", 10)
        assert run_of(stub, "r").steps == 20
