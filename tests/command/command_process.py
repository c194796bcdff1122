"""A server or a client of the command lane as a process of its own, for tests that kill it.

usage: command_process.py server RUN        serves until it is killed
       command_process.py client RUN        calls and streams until it is killed
       command_process.py waiter RUN        waits without end for an answer that does not come
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # it is run by itself, too

from ring_ends import RingEnd

from lanekit.command import (
    Bytes,
    CommandClient,
    CommandServer,
    Method,
    StreamTelemetryRequest,
    Telemetry,
    TelemetryFrame,
)

Echo = Method("Test.Echo", Bytes, Bytes)
Fail = Method("Test.Fail", Bytes, Bytes)
RING_BYTES = 16384


def telemetry(request: StreamTelemetryRequest) -> Iterator[TelemetryFrame]:
    number = 0
    while True:
        yield TelemetryFrame(frame_number=number, observation_qpos=np.full(30, number))
        number += 1


def echo(request: Bytes) -> Bytes:
    return request


def fail(request: Bytes) -> Bytes:
    raise ValueError(request.data.decode())


def serve(run: str) -> None:
    end = RingEnd(run, "server", RING_BYTES)
    handlers = {Echo: echo, Fail: fail, Telemetry.StreamTelemetry: telemetry}
    server = CommandServer(end.channel, handlers)
    print("ready", flush=True)
    while True:
        server.pump(timeout=1.0)


def call(run: str) -> None:
    """Two threads call, one streams; each answer is checked."""
    end = RingEnd(run, "client", RING_BYTES)
    client = CommandClient(end.channel, timeout=None)
    told = threading.Event()

    def work(thread: int) -> None:
        for n in range(10**9):
            data = Bytes(bytes([thread]) + n.to_bytes(4, "little") * (n % 50))
            assert client.call(Echo, data) == data
            if n == 20 and not told.is_set():
                told.set()
                print("working", flush=True)

    for thread in range(2):
        threading.Thread(target=work, args=(thread,)).start()
    for frame in client.stream(Telemetry.StreamTelemetry, keep="all", buffer=8):
        assert (frame.observation_qpos == frame.frame_number).all()


def wait(run: str) -> None:
    end = RingEnd(run, "client", RING_BYTES)
    client = CommandClient(end.channel)
    print("waiting", flush=True)
    try:
        client.call(Echo, timeout=None)
    except KeyboardInterrupt:
        print("interrupted", flush=True)


if __name__ == "__main__":
    {"server": serve, "client": call, "waiter": wait}[sys.argv[1]](sys.argv[2])
