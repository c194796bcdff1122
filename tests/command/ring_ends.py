"""Real command channels for tests: those of the smallest step lane there is."""

from __future__ import annotations

import struct
from collections.abc import Callable

from lanekit import segment_name
from lanekit.command import RingChannel
from lanekit.segments import segment_path
from lanekit.step import StepClient, StepServer
from patience import patience

# From docs/layout.md: where a step segment says where its first ring is.
_FIRST_RING = 728


class RingEnd:
    """One end of a step lane that is used for its commands only."""

    def __init__(self, run: str, end: str, ring_bytes: int) -> None:
        self._run = run
        self._lane: StepServer | StepClient
        if end == "server":
            self._lane = StepServer.create(run, 1, 1, 1, command_ring=ring_bytes)
        else:
            self._lane = StepClient.attach(run, timeout=patience())
        self.channel: RingChannel = self._lane.commands
        self.close: Callable[[], None] = self._lane.close

    def spoil(self, offset: int, data: bytes) -> None:
        """Write into the server's ring, as no peer should."""
        with segment_path(segment_name("step", self._run)).open("r+b") as file:
            file.seek(_FIRST_RING)
            (start,) = struct.unpack("<Q", file.read(8))
            file.seek(start + offset)
            file.write(data)
