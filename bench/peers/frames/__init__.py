"""Ways to move the newest frame from one process to another, one short module each.

Each module has classes like :class:`FramePeer`. To add a way: write such a module and name its
class in :data:`KINDS`; nothing else has to know. A way that can not be imported, or that fails, is
listed with its reason.

A frame carries its mark, 64 bits, in its first and in its last bytes. The reader answers with both:
so it is known which frames arrived, how long each was under way, and that each came whole.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Marks = tuple[int, int]
"""A frame's first and last 64 bits."""
Publish = Callable[[Pixels], object]
"""Takes a frame; False says that it was dropped, anything else that it was taken."""
Receive = Callable[[float], Marks | None]
"""Returns the marks of a frame that it has not returned yet, once all pixels are at hand. Given
seconds it may sleep until there is one; with 0 it returns None when there is none."""

MARK = struct.Struct("<Q")
SLOTS = 3
"""Frames that a ring has room for: about what a peer keeps that has only the newest. With more,
large frames have left the caches when they are read: at 1920×1080 a reader had 0.7 as many with 8.
"""
ARRAYS = 8
"""Arrays that a writer has in turn."""


@dataclass(frozen=True)
class Task:
    """What both sides of a way agree upon."""

    name: str
    """A name that nobody else has."""
    place: str
    """A directory for sockets and the like."""
    width: int
    height: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of a frame."""
        return self.height, self.width, 3

    @property
    def size(self) -> int:
        """Bytes of a frame."""
        return self.height * self.width * 3


class FramePeer:
    """One way. Made in the measuring process and handed down to both sides, each on its core."""

    package: str | None = None
    """The distribution whose version is told; None: Python itself."""
    calls = ""
    """What is called on each side, for the table."""
    note = ""
    """What explains its figures, for the table that says where it is ahead."""
    sleeps = True
    """Whether its reader can sleep until a frame comes; else it only looks again and again."""
    delivers = True
    """Whether a reader of ours can have the frames at all."""
    waits_for_reader = False
    """Whether a writer stands still while nobody reads."""
    in_place = False
    """Whether pixels are drawn and looked at where they lie: only the marks are copied then."""

    def writer(self, task: Task) -> AbstractContextManager[Publish]:
        """Open the writer's side."""
        raise NotImplementedError

    def reader(self, task: Task) -> AbstractContextManager[Receive]:
        """Open the reader's side, after the writer's."""
        raise NotImplementedError


KINDS = {
    "lanekit": "lane.Lane",
    "plain-Python ring": "seqlock.PythonRing",
    "iceoryx2, copy": "iceoryx.Copied",
    "ZeroMQ, conflating PUB/SUB": "zeromq.Conflating",
    "Zenoh": "zenoh_pubsub.OverSocket",
    "Zenoh, shared memory": "zenoh_pubsub.SharedMemory",
    "faster-fifo": "fifo.FasterFifo",
    "multiprocessing.Pipe": "pipes.Pipe",
    "multiprocessing.Queue": "pipes.Queue",
    "gRPC stream": "grpc_newest.Stream",
    "Rerun log(Image)": "rerun_log.Log",
    "lanekit, in place": "lane.InPlace",
    "iceoryx2, loan": "iceoryx.Loaned",
}
"""What the tables call a way, and where it is. Those in place come last: they draw no pixels."""


def make(name: str) -> FramePeer:
    """Return one of :data:`KINDS`; raises whatever importing it raises."""
    if name not in KINDS:
        raise LookupError(f"no way is called {name}")
    module, kind = KINDS[name].split(".")
    peer: FramePeer = getattr(importlib.import_module(f"{__name__}.{module}"), kind)()
    return peer


def described(peer: FramePeer) -> dict[str, Any]:
    """Return what a table says about a way."""
    try:
        found = version(peer.package) if peer.package else ""
    except PackageNotFoundError:
        found = "unknown"
    return {
        "version": found,
        "calls": peer.calls,
        "in_place": peer.in_place,
        "note": peer.note,
    }


def marks(frame: Any) -> Marks:
    """Return the marks of a frame, from any buffer that holds it."""
    last = memoryview(frame).nbytes - MARK.size
    return MARK.unpack_from(frame, 0)[0], MARK.unpack_from(frame, last)[0]


def draw_marks(frame: Pixels, target: Any) -> None:
    """Give a frame that is drawn in place the marks of another: all of it that is not there yet."""
    source = frame.reshape(-1)
    target[:8], target[-8:] = source[:8], source[-8:]
