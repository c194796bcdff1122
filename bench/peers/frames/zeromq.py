"""ZeroMQ over a Unix socket, keeping only the newest message on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import zmq

from bench.peers.frames import FramePeer, Marks, Publish, Receive, Task, marks


class Conflating(FramePeer):
    """PUB/SUB with CONFLATE; the frame handed over and taken without copies of ours."""

    package = "pyzmq"
    calls = "PUB/SUB over ipc://, CONFLATE; send(array, copy=False); poll(), recv(copy=False)"
    note = "the call only lends the array to a thread, which copies it later, on the same core"

    @contextmanager
    def writer(self, task: Task) -> Iterator[Publish]:
        with zmq.Context() as context, context.socket(zmq.PUB) as socket:
            socket.setsockopt(zmq.CONFLATE, 1)
            socket.setsockopt(zmq.LINGER, 0)
            socket.bind(f"ipc://{task.place}/zeromq")
            yield lambda frame: socket.send(frame, copy=False)

    @contextmanager
    def reader(self, task: Task) -> Iterator[Receive]:
        with zmq.Context() as context, context.socket(zmq.SUB) as socket:
            socket.setsockopt(zmq.CONFLATE, 1)
            socket.setsockopt(zmq.LINGER, 0)
            socket.subscribe(b"")
            socket.connect(f"ipc://{task.place}/zeromq")

            def receive(timeout: float) -> Marks | None:
                if not socket.poll(int(timeout * 1000)):
                    return None
                return marks(socket.recv(copy=False).buffer)

            yield receive
