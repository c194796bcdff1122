"""gRPC: a server that streams its newest frame as bytes, over a Unix socket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import grpc

from bench.peers.frames import FramePeer, Marks, Pixels, Publish, Receive, Task, marks

_METHOD = "/bench.Frames/Newest"
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class _Newest:
    """A place for one frame, which a newer one replaces."""

    def __init__(self) -> None:
        self._filled = threading.Condition()
        self._frame: bytes | None = None

    def put(self, frame: bytes) -> None:
        with self._filled:
            self._frame = frame
            self._filled.notify()

    def take(self, timeout: float) -> bytes | None:
        with self._filled:
            if self._frame is None and timeout:
                self._filled.wait(timeout)
            frame, self._frame = self._frame, None
            return frame


class Stream(FramePeer):
    """Unary request, streamed answer; no message to parse, only bytes."""

    package = "grpcio"
    calls = "server stream of bytes over unix:, newest array.tobytes(); a thread keeps the newest"
    note = "the call only copies the array aside; threads send it later, on the same core"

    @contextmanager
    def writer(self, task: Task) -> Iterator[Publish]:
        newest, ended = _Newest(), threading.Event()

        def stream(request: bytes, context: Any) -> Iterator[bytes]:
            while not ended.is_set() and context.is_active():
                if (frame := newest.take(0.1)) is not None:
                    yield frame

        handler = grpc.unary_stream_rpc_method_handler(stream)
        server = grpc.server(ThreadPoolExecutor(2), options=_OPTIONS)
        names = {"Newest": handler}
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("bench.Frames", names),)
        )
        server.add_insecure_port(f"unix:{task.place}/grpc")
        server.start()

        def publish(frame: Pixels) -> None:
            newest.put(frame.tobytes())

        yield publish
        ended.set()
        server.stop(0).wait()

    @contextmanager
    def reader(self, task: Task) -> Iterator[Receive]:
        newest = _Newest()
        with grpc.insecure_channel(f"unix:{task.place}/grpc", options=_OPTIONS) as channel:
            frames = channel.unary_stream(_METHOD)(b"", wait_for_ready=True)

            def keep_newest() -> None:
                with suppress(grpc.RpcError):
                    for frame in frames:
                        newest.put(frame)

            thread = threading.Thread(target=keep_newest, daemon=True)
            thread.start()

            def receive(timeout: float) -> Marks | None:
                frame = newest.take(timeout)
                return None if frame is None else marks(frame)

            yield receive
            frames.cancel()
            thread.join(5)
