"""Zenoh: a publisher and a subscriber of the newest sample, with and without shared memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import zenoh
from zenoh import shm
from zenoh.handlers import RingChannel

from bench.peers.frames import FramePeer, Marks, Pixels, Publish, Receive, Task, marks


class OverSocket(FramePeer):
    """Between two peers that know each other, over a Unix socket."""

    package = "eclipse-zenoh"
    calls = "put(array.tobytes()), drop; RingChannel(1), recv() or try_recv()"
    shared = False

    def _session(self, task: Task, side: str) -> Any:
        config = zenoh.Config()
        config.insert_json5("mode", '"peer"')
        config.insert_json5("scouting/multicast/enabled", "false")
        config.insert_json5("listen/endpoints", "[]")
        config.insert_json5(f"{side}/endpoints", json.dumps([f"unixsock-stream/{task.place}/z"]))
        config.insert_json5("transport/shared_memory/enabled", json.dumps(self.shared))
        return zenoh.open(config)

    def _put(self, publisher: Any, task: Task) -> Publish:
        return lambda frame: publisher.put(frame.tobytes())

    @contextmanager
    def writer(self, task: Task) -> Iterator[Publish]:
        with self._session(task, "listen") as session:
            drop = zenoh.CongestionControl.DROP
            publisher = session.declare_publisher("frame", congestion_control=drop)
            yield self._put(publisher, task)

    @contextmanager
    def reader(self, task: Task) -> Iterator[Receive]:
        with self._session(task, "connect") as session:
            subscriber = session.declare_subscriber("frame", RingChannel(1))

            def receive(timeout: float) -> Marks | None:
                sample = subscriber.recv() if timeout else subscriber.try_recv()
                return None if sample is None else marks(sample.payload.to_bytes())

            yield receive


class SharedMemory(OverSocket):
    """The frame in a buffer of Zenoh's shared memory, only its place sent over the socket."""

    calls = "alloc(size, GarbageCollect), buffer[:] = array.tobytes(), put(buffer); the same reader"
    shared = True

    def _put(self, publisher: Any, task: Task) -> Publish:
        provider = shm.ShmProvider.default_backend(16 * task.size)
        policy = shm.BlockOn(shm.GarbageCollect())

        def publish(frame: Pixels) -> None:
            buffer = provider.alloc(task.size, policy=policy)
            buffer[:] = frame.tobytes()
            publisher.put(buffer)

        return publish
