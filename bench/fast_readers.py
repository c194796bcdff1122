"""The other side of a fast lane that is measured: readers and a writer at a pace."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from bench import limits
from bench.fast_sizes import frames
from bench.limits import PlainRing
from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter


def paced(conn: Connection, rate: float, act: Callable[[], Any], *, spin: bool) -> None:
    """Act at a rate in Hz, 0 meaning flat out, until there is a message."""
    if rate == 0:
        while not conn.poll():
            for _ in range(32):
                act()
        return
    due = time.monotonic()
    while not conn.poll():
        act()
        due = max(due + 1 / rate, time.monotonic())
        while (left := due - time.monotonic()) > 0:
            if not spin:
                time.sleep(left)


def watch(conn: Connection, run_id: str, config: FastLaneConfig, plain: str | None) -> None:
    """Read at the rate told, and also the plain ring if there is one; None: not even attached."""
    out = np.zeros(config.shape, np.uint8)
    while (rate := conn.recv()) != "end":
        if rate is None:
            conn.send("resting")
            continue
        ring = PlainRing(plain, config, create=False) if plain else nullcontext()
        with FastLaneReader.attach(run_id) as reader, ring as also:

            def look(reader: FastLaneReader = reader, also: PlainRing | None = also) -> None:
                reader.read_into(out)
                if also is not None:
                    limits.copy_out(also, out, 1, fresh=False)

            look()
            conn.send("reading")
            paced(conn, rate, look, spin=False)


def train(conn: Connection, run_id: str, config: FastLaneConfig) -> None:
    """Be a writer that publishes at the rate told."""
    frame = frames(config, 1)[0]
    with FastLaneWriter.create(run_id, config) as writer:
        for _ in range(config.capacity):
            writer.publish(frame)
        conn.send(writer.name)
        while (rate := conn.recv()) != "end":
            conn.send("publishing")
            if rate is not None:
                paced(conn, rate, lambda: writer.publish(frame), spin=True)
