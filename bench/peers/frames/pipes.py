"""What Python has itself: multiprocessing's Pipe and Queue."""

from __future__ import annotations

import multiprocessing
import queue
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from bench.peers.frames import FramePeer, Marks, Pixels, Publish, Receive, Task, marks

_SPAWN = multiprocessing.get_context("spawn")


class Pipe(FramePeer):
    """Bytes in order, none lost: the writer stands still until the reader has taken them."""

    calls = "send_bytes(array); poll(), recv_bytes_into(array), every frame"
    waits_for_reader = True

    def __init__(self) -> None:
        self._theirs, self._ours = _SPAWN.Pipe(duplex=False)

    @contextmanager
    def writer(self, task: Task) -> Iterator[Publish]:
        yield lambda frame: self._ours.send_bytes(memoryview(frame).cast("B"))

    @contextmanager
    def reader(self, task: Task) -> Iterator[Receive]:
        out = np.zeros(task.size, np.uint8)

        def receive(timeout: float) -> Marks | None:
            if not self._theirs.poll(timeout):
                return None
            self._theirs.recv_bytes_into(out)
            return marks(out)

        yield receive
        while self._theirs.poll(0.05):
            self._theirs.recv_bytes()


class Queue(FramePeer):
    """Pickled objects, sent by a thread; the writer drops a frame when two are waiting."""

    calls = "Queue(2), put_nowait(array), dropped when full; get(), the newest of them"
    note = "the call only hands the array to a thread, which pickles it later, on the same core"

    def __init__(self) -> None:
        self._queue: Any = _SPAWN.Queue(2)

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
        def receive(timeout: float) -> Marks | None:
            frame = None
            with suppress(queue.Empty):
                frame = self._queue.get(timeout > 0, timeout)
                while not self._queue.empty():
                    frame = self._queue.get_nowait()
            return None if frame is None else marks(frame)

        yield receive
        with suppress(queue.Empty):
            while True:
                self._queue.get(timeout=0.05)
