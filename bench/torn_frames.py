"""A hunt for torn frames: frames that prove themselves, a writer and a reader flat out.

Each frame consists of one 64-bit word, derived from the frame's number, over and over; its reward
is that number. A frame with two different words is torn. A whole frame with another frame's reward
(or, where the lane numbers its frames, with another number) is mixed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from bench import machine
from bench.companion import Companion
from bench.peers.python_ring import PythonRingReader, PythonRingWriter
from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneReader, FastLaneWriter

_FACTOR = 0x9E3779B97F4A7C15  # odd, so that different numbers give different words
_MASK = 2**64 - 1
_INVERSE = pow(_FACTOR, -1, 2**64)
_FRAMES_BETWEEN_LOOKS = 64

Publish = Callable[[Any, FastLaneMetrics], int]
Read = Callable[[], Any]


@contextmanager
def _lanekit_writer(name: str, config: FastLaneConfig) -> Iterator[Publish]:
    with FastLaneWriter.create(name, config) as writer:
        yield lambda frame, metrics: writer.publish(frame, metrics=metrics)


@contextmanager
def _python_writer(name: str, config: FastLaneConfig) -> Iterator[Publish]:
    with PythonRingWriter.create(name, config) as writer:
        yield lambda frame, metrics: writer.publish(frame.tobytes(), metrics=metrics)


@contextmanager
def _lanekit_reader(name: str) -> Iterator[Read]:
    with FastLaneReader.attach(name) as reader:
        yield lambda: reader.latest_frame(fresh=True)


@contextmanager
def _python_reader(name: str) -> Iterator[Read]:
    with PythonRingReader.attach(name) as reader:
        yield reader.latest_frame


LANES: dict[str, tuple[Callable[..., AbstractContextManager[Publish]], Callable[..., Any]]] = {
    "lanekit": (_lanekit_writer, _lanekit_reader),
    "plain-Python ring": (_python_writer, _python_reader),
}


def _write(conn: Connection, lane: str, name: str, config: FastLaneConfig) -> None:
    """Publish self-proving frames until told to end; answer with how many."""
    frame = np.zeros(config.shape, np.uint8)
    words = frame.reshape(-1).view(np.uint64)
    number = 0
    with LANES[lane][0](name, config) as publish:
        conn.send("ready")
        while not conn.poll():
            for _ in range(_FRAMES_BETWEEN_LOOKS):
                number += 1
                words.fill(number * _FACTOR & _MASK)
                publish(frame, FastLaneMetrics(float(number), 0.0, 0.0))
        conn.send(number)
        conn.recv()


def _judge(frame: Any) -> str:
    words = np.frombuffer(frame.data, np.uint64)
    if not (words == words[0]).all():
        return "torn"
    number = int(words[0]) * _INVERSE & _MASK
    if frame.metrics.last_reward != float(number):
        return "mixed"
    return "whole" if getattr(frame, "seq", number) == number else "mixed"


def hunt(lane: str, seconds: float, *, capacity: int = 2) -> dict[str, Any]:
    """Read for some seconds while the writer laps the ring; count what came out."""
    config = FastLaneConfig(width=84, height=84, capacity=capacity)
    name = f"bench-hunt-{time.monotonic_ns()}"
    counts = {"whole": 0, "torn": 0, "mixed": 0, "none": 0}
    machine.pin(machine.READER_CORE)
    with Companion(machine.WRITER_CORE, _write, lane, name, config) as writer:
        writer.answer()
        with LANES[lane][1](name) as read:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                frame = read()
                counts["none" if frame is None else _judge(frame)] += 1
            published = writer.ask("enough")
    return {"lane": lane, "capacity": capacity, "published": published, **counts}
