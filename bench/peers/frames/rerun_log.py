"""Rerun: ``log(Image)`` to its server in another process, which a viewer would look at."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rerun
import rerun_cli

from bench.peers.frames import FramePeer, Pixels, Publish, Receive, Task

_UNSENT_MOST = 64 << 20
_PATIENCE = 20.0


def _port(task: Task) -> Path:
    return Path(task.place) / "port"


def _connected(task: Task) -> Any:
    """Return a stream to the server, once it listens: it is started after the writer."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            port = int(_port(task).read_text())
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            batches = rerun.ChunkBatcherConfig.LOW_LATENCY()
            stream = rerun.RecordingStream(task.name, batcher_config=batches)
            stream.connect_grpc(f"rerun+http://127.0.0.1:{port}/proxy")
            return stream
        time.sleep(0.02)
    raise TimeoutError("rerun --serve-grpc does not listen")


class Log(FramePeer):
    """Only the writer's side: no program but its viewer takes frames from it while they come."""

    package = "rerun-sdk"
    calls = (
        "log(Image(array), static=True), LOW_LATENCY batches, gRPC to `rerun --serve-grpc`; "
        "flush() whenever 64 MiB are on their way"
    )
    delivers = False

    @contextmanager
    def writer(self, task: Task) -> Iterator[Publish]:
        stream: Any = None
        unsent = 0

        def publish(frame: Pixels) -> None:
            nonlocal stream, unsent
            if stream is None:
                stream = _connected(task)
            stream.log("frame", rerun.Image(frame), static=True)
            unsent += task.size
            if unsent > _UNSENT_MOST:
                stream.flush()
                unsent = 0

        yield publish
        if stream is not None:
            stream.flush()
            stream.disconnect()

    @contextmanager
    def reader(self, task: Task) -> Iterator[Receive]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        server = subprocess.Popen(
            [
                # Not the script of that name: it starts this as a child, which would outlive it.
                str(Path(rerun_cli.__file__).with_name("rerun")),
                *("--serve-grpc", "--bind", "127.0.0.1", "--port", port),
                *("--server-memory-limit", "64MB"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _port(task).write_text(port)
        try:
            yield lambda _: None
        finally:
            server.terminate()
            server.wait()
