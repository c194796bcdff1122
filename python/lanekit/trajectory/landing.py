"""Where records from elsewhere come down: into this machine's trajectory lane, each exactly once.

Whatever carries them here may bring a record twice, or not at all until it is asked again; the
numbers that producers give their records, and the book of what has arrived, put that right. See
:mod:`lanekit.trajectory.arrivals` for what happens when this process dies.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from lanekit import errors
from lanekit.segments import segment_name, segment_path
from lanekit.trajectory.arrivals import Arrivals, Producer
from lanekit.trajectory.kept import KeptTrajectoryWriter
from lanekit.trajectory.metadata import decode_metadata
from lanekit.trajectory.schema import TrajectorySchema

Record = tuple[dict[str, npt.NDArray[Any]], bytes]
"""A record on its way: its arrays, exactly as the schema wants them, and its metadata as bytes."""

PREDECESSOR_SECONDS = 30.0
"""How long the process before this one may take to be gone."""


@dataclass(frozen=True)
class Admission:
    """What a producer elsewhere is told when it attaches."""

    lane: str
    """Which lane this is: another one of the same name has another key."""
    schema: TrajectorySchema
    record_bytes: int
    epoch: int
    arrived: int
    """The number of the last record that has arrived under this producer's name."""


class Landing:
    """Puts records of many producers into one lane, in one ring, in order for each producer."""

    def __init__(self, name: str, book: Path, *, timeout: float = 0.0) -> None:
        """Join the lane `name`, waiting for it for `timeout` seconds; `book` is a file's path.

        If a landing died here, this one goes on in its ring, behind its last record.
        """
        self.name = name
        self._writer: KeptTrajectoryWriter | None = None
        self._key = _wait_for_lane(name, timeout)
        self._arrivals = Arrivals(book, self._key)
        try:
            self._writer = self._take_place()
        except BaseException:
            self._arrivals.close()
            raise
        atexit.register(self.close)  # runs before the writer's own, which came first

    def _take_place(self) -> KeptTrajectoryWriter:
        ring, intent = self._arrivals.ring, self._arrivals.intent
        if ring is not None:
            try:
                writer = KeptTrajectoryWriter.take_place(
                    self.name, ring, timeout=PREDECESSOR_SECONDS
                )
            except errors.PlaceTaken:
                if intent is not None:
                    raise errors.PlaceTaken(
                        f"trajectory lane {self.name!r}: ring {ring} was given away before it was "
                        f"known whether record {intent.number} of {intent.name!r} is in it; end "
                        f"the lane, or remove {self._arrivals.path} and attach under new names"
                    ) from None
            else:
                if intent is not None:
                    self._arrivals.settle(put=writer.position > intent.position)
                return writer
        writer = KeptTrajectoryWriter.take_place(self.name, timeout=PREDECESSOR_SECONDS)
        self._arrivals.ring = writer.ring
        return writer

    @property
    def ended(self) -> bool:
        """Whether the lane has ended, and perhaps another one of its name has begun."""
        try:
            return lane_key(self.name) != self._key
        except errors.SegmentNotFound:
            return True

    def admit(self, producer: str) -> Admission:
        """Let somebody put records as `producer`. Whoever did so before is not heard any more."""
        writer = self._open()
        if not isinstance(producer, str) or not producer:
            raise ValueError(f"a producer's name is a non-empty str, not {producer!r}")
        known = self._arrivals.welcome(producer)
        return Admission(self._key, writer.schema, writer.record_bytes, known.epoch, known.arrived)

    def deliver(
        self,
        lane: str,
        producer: str,
        epoch: int,
        first: int,
        records: Sequence[Record],
        *,
        patience: float,
    ) -> int:
        """Put the records numbered from `first` on; return the last number that has arrived.

        Those that have arrived already are passed over, and nothing is put after a gap. A full lane
        is waited for, `patience` seconds in all. So the answer may be less than what was brought:
        the rest is to be brought again.
        """
        writer = self._open()
        state = self._known(lane, producer, epoch)
        give_up_at = time.monotonic() + patience
        for number, (arrays, content) in enumerate(records, first):
            if number <= state.arrived:
                continue
            left = max(0.0, give_up_at - time.monotonic())
            if number > state.arrived + 1 or not self._put(writer, state, arrays, content, left):
                break
        return state.arrived

    def close(self) -> None:
        """Leave the lane. Closing twice is allowed."""
        if self._writer is None or self._writer.closed:
            return
        atexit.unregister(self.close)
        intent = self._arrivals.intent
        if intent is not None:
            self._arrivals.settle(put=self._writer.position > intent.position)
        self._arrivals.ring = None
        self._writer.close()
        self._arrivals.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _put(
        self,
        writer: KeptTrajectoryWriter,
        state: Producer,
        arrays: dict[str, npt.NDArray[Any]],
        content: bytes,
        patience: float,
    ) -> bool:
        meta = decode_metadata(content)  # before anything is announced: it may be damaged
        # Room first: who waits for it has announced nothing.
        shapes = {name: array.shape for name, array in arrays.items()}
        room = writer.reserve(shapes, meta_room=len(content), timeout=patience)
        if room is None:
            return False
        number = state.arrived + 1
        with room:
            for name, array in arrays.items():
                room[name][...] = array
            self._arrivals.announce(state.name, number, writer.position)
            room.commit(meta)
        state.arrived = number
        return True

    def _open(self) -> KeptTrajectoryWriter:
        if self._writer is None or self._writer.closed:
            raise errors.HandleClosed(f"the landing of trajectory lane {self.name!r} was closed")
        return self._writer

    def _known(self, lane: str, producer: str, epoch: int) -> Producer:
        state = self._arrivals.producers.get(producer)
        if lane != self._key or state is None:
            raise errors.PeerLost(
                f"trajectory lane {self.name!r}: its consumer ended the lane that producer "
                f"{producer!r} had joined; attach to the new one"
            )
        if epoch != state.epoch:
            raise errors.PlaceTaken(
                f"trajectory lane {self.name!r}: somebody else has attached as producer "
                f"{producer!r} since; of each name only the latest is heard, so give each its own"
            )
        return state


def _wait_for_lane(name: str, timeout: float) -> str:
    deadline = time.monotonic() + timeout
    while True:
        try:
            return lane_key(name)
        except errors.SegmentNotFound:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.02)


def lane_key(name: str) -> str:
    """Return what tells a lane from any other that had, or will have, its name."""
    path = segment_path(segment_name("traj", name))
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        found = path.stat()
    except FileNotFoundError:
        raise errors.SegmentNotFound(
            f"trajectory lane {name!r} (segment {path.name}): no such lane on this machine; its "
            "consumer creates it with TrajectoryReader.create"
        ) from None
    return f"{boot} {found.st_dev} {found.st_ino}"
