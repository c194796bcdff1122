"""What people are told when the daemon is not there yet, not theirs, or not able."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from daemon_process import DaemonProcess

from lanekit import errors
from lanekit.slow.daemon.methods import ANSWERED
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import (
    TrainerServiceServicer,
    add_TrainerServiceServicer_to_server,
)
from patience import patience

MakeDaemon = Callable[..., DaemonProcess]
TOKEN = "correct-horse-battery-staple"


@pytest.fixture
def token_file(short_directory: Path) -> Path:
    path = short_directory / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    return path


@pytest.fixture
def certificate(short_directory: Path) -> tuple[Path, Path]:
    """A certificate of its own making, and its key."""
    cert, key = short_directory / "tls.pem", short_directory / "tls.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=daemon"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
        timeout=patience(),
    )
    return cert, key


def complaint(client: DaemonClient) -> str:
    with pytest.raises(errors.DaemonError) as refused:
        client.list_runs()
    return str(refused.value)


def test_a_daemon_that_was_only_just_started_is_waited_for(
    make_daemon: MakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lanekit.slow.daemon_client.START_PATIENCE", 60.0)
    daemon = make_daemon()

    def start() -> None:
        time.sleep(0.5)
        daemon.start()

    starting = threading.Thread(target=start)
    starting.start()
    try:
        with DaemonClient(daemon.target) as client:
            assert client.list_runs() == []
    finally:
        starting.join()


def test_a_daemon_that_takes_its_time_to_answer_is_not_called_absent(daemon: DaemonProcess) -> None:
    daemon.signal(signal.SIGSTOP)
    try:
        with DaemonClient(daemon.target) as client, ThreadPoolExecutor(1) as thread:
            runs = thread.submit(client.list_runs)
            time.sleep(1.0)  # it is connected to, and says nothing
            daemon.signal(signal.SIGCONT)
            assert runs.result() == []
    finally:
        daemon.signal(signal.SIGCONT)


@pytest.mark.once
def test_certificates_that_do_not_fit_are_named_as_the_cause(
    make_daemon: MakeDaemon, token_file: Path, certificate: tuple[Path, Path]
) -> None:
    cert, key = certificate
    daemon = make_daemon(
        *("--listen", "127.0.0.1:0", "--token-file", str(token_file)),
        *("--tls-cert", str(cert), "--tls-key", str(key)),
    ).start()
    target = daemon.announcement.split()[-1]
    with DaemonClient(target, token=TOKEN, ca_file=cert) as client:
        assert client.list_runs() == []
    for options in ({}, {"insecure": True}):
        with DaemonClient(target, token=TOKEN, **options) as client:
            said = complaint(client)
        assert "--tls-ca" in said
        assert "`lanekit daemon` starts one" not in said


@pytest.mark.once
def test_tls_towards_a_daemon_without_it_is_named_as_the_cause(
    make_daemon: MakeDaemon, token_file: Path
) -> None:
    options = ("--listen", "127.0.0.1:0", "--insecure-loopback", "--token-file", str(token_file))
    daemon = make_daemon(*options).start()
    target = daemon.announcement.split()[-1]
    with DaemonClient(target, token=TOKEN, insecure=True) as client:
        assert client.list_runs() == []
    with DaemonClient(target, token=TOKEN) as client:
        assert "--insecure-loopback" in complaint(client)
    with DaemonClient(target, token="wrong" * 5, insecure=True) as client:
        assert complaint(client).count("--token-file") == 1


def test_a_store_that_can_not_be_written_is_not_called_an_absent_daemon(
    daemon: DaemonProcess,
) -> None:
    with (
        DaemonClient(daemon.target) as client,
        closing(sqlite3.connect(daemon.store, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(errors.DaemonUnavailable) as refused:
            client.submit_run([sys.executable, "-c", ""], run_id="r")
        assert client.list_runs() == []  # reading goes on
        other.execute("ROLLBACK")
    assert "no daemon answers" not in str(refused.value)
    assert "locked" in str(refused.value)


class ShuttingDown(TrainerServiceServicer):
    """Answers as a daemon does in its last moments."""

    def ListRuns(self, request: Any, context: Any) -> pb.ListRunsResponse:  # noqa: N802
        context.set_trailing_metadata(ANSWERED)
        context.abort(grpc.StatusCode.UNAVAILABLE, "the daemon is shutting down")
        raise AssertionError("abort raises")


def test_a_daemon_that_shuts_down_is_not_called_absent(short_directory: Path) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    add_TrainerServiceServicer_to_server(ShuttingDown(), server)
    target = f"unix:{short_directory}/d.sock"
    server.add_insecure_port(target)
    server.start()
    try:
        with DaemonClient(target) as client:
            said = complaint(client)
    finally:
        server.stop(None).wait()
    assert "shutting down" in said
    assert "no daemon answers" not in said
