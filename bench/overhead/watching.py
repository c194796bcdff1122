"""Somebody who looks: a viewer in a process of its own, and the price of what it is shown."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

import lanekit
from bench import machine
from bench.overhead.modes import FRAME_HZ

_SAMPLES = 40
_GRAIN = 8


class Seen(NamedTuple):
    """What a viewer saw of a run."""

    frames: int = 0
    different: int = 0
    """Frames that did not look like the one before."""
    wait: float = 0.0
    """Seconds from the run's first step to the first frame."""
    seconds: float = 0.0
    """How long it looked, from the run's first step on."""


def view(conn: Connection, anywhere: bool = False) -> None:
    """Watch the run that a message names until the next message, and answer what was seen.

    A role of :class:`bench.companion.Companion`; `anywhere` is for runs that are not pinned to a
    core either.
    """
    if anywhere:
        machine.unpin()
    while (run_id := conn.recv()) != "end":
        reader = _attach(conn, run_id)
        if reader is None:
            seen = Seen()
        else:
            with reader:
                seen = _watch(conn, reader)
        conn.recv()
        conn.send(seen)


def _attach(conn: Connection, run_id: str) -> lanekit.FastLaneReader | None:
    """Wait for the run, which may take its time to begin; None if it ends before."""
    while not conn.poll():
        try:
            return lanekit.FastLaneReader.attach(run_id, timeout=0.2)
        except (lanekit.SegmentNotFound, lanekit.SegmentNotReady):
            continue
    return None


def _watch(conn: Connection, reader: lanekit.FastLaneReader) -> Seen:
    begin = due = time.monotonic()
    picture, before = np.zeros(reader.config.shape, np.uint8), b""
    frames = different = 0
    wait = 0.0
    while not conn.poll(max(0.0, due - time.monotonic())):
        due = max(due + 1 / FRAME_HZ, time.monotonic())
        try:
            if not reader.read_into(picture, fresh=True):
                continue
        except lanekit.GeometryChanged:
            picture = np.zeros(reader.config.shape, np.uint8)
            continue
        if frames == 0:
            wait = time.monotonic() - begin
        looks = picture[::_GRAIN, ::_GRAIN].tobytes()
        frames += 1
        different += looks != before
        before = looks
    return Seen(frames, different, wait, time.monotonic() - begin)


def price_of_a_picture(env: Any) -> float:
    """Return the CPU seconds that showing one step takes the training process.

    `env` is wrapped and watched. Between two pictures the bare environment steps for as long as
    between two pictures of a training, so that the drawing finds its caches as cold as there.
    """
    samples = []
    for _ in range(_SAMPLES):
        env.reset()
        end = time.perf_counter() + 1 / FRAME_HZ
        while time.perf_counter() < end:
            if any(env.env.step(env.action_space.sample())[2:4]):
                env.env.reset()
        env.publisher._due_ns = 0  # now, though it may not be time to
        begin = time.thread_time_ns()
        env.publisher.look()
        samples.append(time.thread_time_ns() - begin)
    return float(np.median(samples)) / 1e9


def explained(picture: float) -> float:
    """Return the ratio that pictures at display rate explain, each of which costs so many seconds.

    A second of training contains 60 of them, so 1 - 60 × price of it is left for the rest.
    """
    return 1 / (1 - FRAME_HZ * picture)
