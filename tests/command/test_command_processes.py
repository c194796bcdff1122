"""The command lane between processes: real rings, real kills."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_process import RING_BYTES, Echo, Fail, echo, telemetry
from ring_ends import RingEnd

from lanekit import PeerLost, RemoteError, segment_name
from lanekit.command import Bytes, CommandClient, CommandServer, Telemetry
from lanekit.segments import segment_path
from patience import patience


@pytest.fixture
def run() -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    segment_path(segment_name("step", name)).unlink(missing_ok=True)


def start(role: str, run: str, word: str) -> subprocess.Popen[str]:
    """Start a process and wait for the word with which it says that it is there."""
    script = Path(__file__).with_name("command_process.py")
    process = subprocess.Popen(
        [sys.executable, str(script), role, run], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == word
    return process


def stop(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(patience())
    assert process.stdout is not None
    process.stdout.close()


def test_calls_errors_and_streams_go_from_process_to_process(run: str) -> None:
    server = start("server", run, "ready")
    end = RingEnd(run, "client", RING_BYTES)
    with CommandClient(end.channel, timeout=patience()) as client:
        for n in range(200):
            data = Bytes(bytes([n]) * n)
            assert client.call(Echo, data) == data
        with pytest.raises(RemoteError, match="ValueError: as asked"):
            client.call(Fail, Bytes(b"as asked"))
        with client.stream(Telemetry.StreamTelemetry, keep="all", buffer=5) as stream:
            for n in range(300):
                frame = stream.next(patience())
                assert frame is not None
                assert frame.frame_number == n
    end.close()
    stop(server)


def test_a_killed_server_is_told_to_everybody_who_waits(run: str) -> None:
    server = start("server", run, "ready")
    end = RingEnd(run, "client", RING_BYTES)
    with CommandClient(end.channel, timeout=None) as client:
        stream = client.stream(Telemetry.StreamTelemetry)
        assert stream.next(patience()) is not None
        server.send_signal(signal.SIGSTOP)
        futures = [client.submit(Echo, Bytes(b"x")) for _ in range(5)]
        stop(server)
        for future in futures:
            with pytest.raises(PeerLost, match=r"Test.Echo: .*died or left"):
                future.result(patience())
        with pytest.raises(PeerLost):
            while stream.next(patience()) is not None:
                pass
    end.close()


def test_a_server_outlives_its_clients_whenever_they_die(run: str) -> None:
    end = RingEnd(run, "server", RING_BYTES)
    server = CommandServer(end.channel, {Echo: echo, Telemetry.StreamTelemetry: telemetry})
    moments = random.Random(0)
    for _ in range(8):
        client = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("command_process.py")), "client", run],
            stdout=subprocess.PIPE,
            text=True,
        )
        before = server.stats.requests
        while server.stats.requests < before + 50:
            server.pump(timeout=0.05)
            assert client.poll() is None, "the client found a wrong answer"
        until = time.monotonic() + moments.random() * 0.05
        while time.monotonic() < until:
            server.pump(timeout=0.01)
        stop(client)
        # What it left in the ring is answered to nobody, then its streams end.
        while server.streams:
            server.pump(timeout=0.05)
    late = RingEnd(run, "client", RING_BYTES)
    with CommandClient(late.channel, timeout=patience()) as last:
        future = last.submit(Echo, Bytes(b"last"))
        while not future.done():
            server.pump(timeout=0.05)
        assert future.result() == Bytes(b"last")
    late.close()
    end.close()


def test_ctrl_c_ends_a_wait_without_end(run: str) -> None:
    end = RingEnd(run, "server", RING_BYTES)
    waiter = start("waiter", run, "waiting")
    assert end.channel.receive(patience()) is not None  # the request, which stays unanswered
    waiter.send_signal(signal.SIGINT)
    output, _ = waiter.communicate(timeout=patience())
    assert output.strip() == "interrupted"
    assert waiter.returncode == 0
    end.close()
