"""faster-fifo: a queue of pickled objects in shared memory."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import faster_fifo

from bench.peers.frames import FramePeer, Marks, Pixels, Publish, Receive, Task, marks

_ROOM = 32 << 20


class FasterFifo(FramePeer):
    """As many frames as there is room for; the writer drops one when there is none."""

    package = "faster-fifo"
    calls = "put_nowait(array), dropped when full; get_many(), the newest of them"

    def __init__(self) -> None:
        self._queue = faster_fifo.Queue(_ROOM)

    @contextmanager
    def writer(self, task: Task) -> Iterator[Publish]:
        def publish(frame: Pixels) -> bool:
            try:
                self._queue.put_nowait(frame)
            except queue.Full:
                return False
            return True

        yield publish

    @contextmanager
    def reader(self, task: Task) -> Iterator[Receive]:
        self._empty()

        def receive(timeout: float) -> Marks | None:
            try:
                return marks(self._queue.get_many(block=timeout > 0, timeout=timeout)[-1])
            except queue.Empty:
                return None

        yield receive
        self._empty()

    def _empty(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._queue.get_many_nowait()
