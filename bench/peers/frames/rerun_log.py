"""Rerun: ``log(Image)`` to its server in another process, which a viewer would look at."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rerun

from bench.peers.frames import FramePeer, Pixels, Publish, Receive, Task

_UNSENT_MOST = 64 << 20


class Log(FramePeer):
    """Only the writer's side: no program but its viewer takes frames from it while they come."""

    package = "rerun-sdk"
    calls = (
        "log(Image(array), static=True), LOW_LATENCY batches, gRPC to `rerun --serve-grpc`; "
        "flush() whenever 64 MiB are on their way"
    )
    delivers = False

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]

    @contextmanager
    def writer(self, task: Task) -> Iterator[Publish]:  # noqa: D102
        batches = rerun.ChunkBatcherConfig.LOW_LATENCY()
        stream = rerun.RecordingStream(task.name, batcher_config=batches)
        stream.connect_grpc(f"rerun+http://127.0.0.1:{self._port}/proxy")
        unsent = 0

        def publish(frame: Pixels) -> None:
            nonlocal unsent
            stream.log("frame", rerun.Image(frame), static=True)
            unsent += task.size
            if unsent > _UNSENT_MOST:
                stream.flush()
                unsent = 0

        yield publish
        stream.disconnect()

    @contextmanager
    def reader(self, task: Task) -> Iterator[Receive]:  # noqa: D102
        server = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("rerun")),
                *("--serve-grpc", "--bind", "127.0.0.1", "--port", str(self._port)),
                *("--server-memory-limit", "64MB"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield lambda _: None
        finally:
            server.terminate()
            server.wait()
