"""lanekit's fast lane: the frame copied into the ring and out of it, or drawn in place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from bench.peers.frames import (
    SLOTS,
    FramePeer,
    Marks,
    Pixels,
    Publish,
    Receive,
    Task,
    draw_marks,
    marks,
)
from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter


def _config(task: Task) -> FastLaneConfig:
    return FastLaneConfig(task.width, task.height, capacity=SLOTS)


class Lane(FramePeer):
    """One copy in, one copy out."""

    package = "lanekit"
    calls = "publish(array); read_into(array, fresh=True) after wait()"

    @contextmanager
    def writer(self, task: Task) -> Iterator[Publish]:
        with FastLaneWriter.create(task.name, _config(task)) as writer:
            yield writer.publish

    @contextmanager
    def reader(self, task: Task) -> Iterator[Receive]:
        out = np.zeros(task.shape, np.uint8)
        with FastLaneReader.attach(task.name, timeout=10.0) as reader:

            def receive(timeout: float) -> Marks | None:
                if timeout:
                    reader.wait(timeout)
                return marks(out) if reader.read_into(out, fresh=True) > 0 else None

            yield receive


class InPlace(FramePeer):
    """No copy at all."""

    package = "lanekit"
    calls = "reserve() and commit(); peek(fresh=True) after wait()"
    in_place = True

    @contextmanager
    def writer(self, task: Task) -> Iterator[Publish]:
        with FastLaneWriter.create(task.name, _config(task)) as writer:

            def publish(frame: Pixels) -> None:
                with writer.reserve() as pixels:
                    draw_marks(frame, pixels.reshape(-1))

            yield publish

    @contextmanager
    def reader(self, task: Task) -> Iterator[Receive]:
        with FastLaneReader.attach(task.name, timeout=10.0) as reader:

            def receive(timeout: float) -> Marks | None:
                if timeout:
                    reader.wait(timeout)
                look = reader.peek(fresh=True)
                found = None if look.array is None else marks(look.array)
                return found if look.valid else None  # overwritten meanwhile: not received

            yield receive
