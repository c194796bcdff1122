"""A ring in plain Python, guarded by sequence numbers: peers/python_ring.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.peers.frames import SLOTS, FramePeer, Marks, Publish, Receive, Task, marks
from bench.peers.python_ring import PythonRingReader, PythonRingWriter
from lanekit import FastLaneConfig


class PythonRing(FramePeer):
    """``multiprocessing.shared_memory``, ``struct`` and slices."""

    calls = "publish(array.tobytes()); latest_frame()"
    sleeps = False

    @contextmanager
    def writer(self, task: Task) -> Iterator[Publish]:
        config = FastLaneConfig(task.width, task.height, capacity=SLOTS)
        with PythonRingWriter.create(task.name, config) as ring:
            yield lambda frame: ring.publish(frame.tobytes())

    @contextmanager
    def reader(self, task: Task) -> Iterator[Receive]:
        last: Marks | None = None
        with PythonRingReader.attach(task.name) as ring:

            def receive(_: float) -> Marks | None:
                nonlocal last
                frame = ring.latest_frame()
                if frame is None or (found := marks(frame.data)) == last:
                    return None
                last = found
                return found

            yield receive
