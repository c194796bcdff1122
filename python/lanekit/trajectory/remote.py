"""A producer of a trajectory lane that is on another machine.

It numbers its records and keeps each until the other side has said that it is in the lane. What
carries them is somebody else's: see :class:`Carrier`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from lanekit import errors
from lanekit.trajectory.field_checks import checked_arrays, stored_size
from lanekit.trajectory.landing import Admission, Record
from lanekit.trajectory.metadata import encode_metadata
from lanekit.trajectory.schema import TrajectorySchema

PATIENCE = 0.1
"""Seconds for which the other side waits for room before it answers; others wait behind us."""
PARCEL_BYTES = 16 << 20
"""Records travel together up to this size."""
_PAUSE = 0.2


class CarrierLost(Exception):
    """A call brought no answer. Whether it did anything is not known, and need not be."""


class Call(Protocol):
    """A delivery under way."""

    def answer(self, timeout: float) -> int | None:
        """Return the last number that has arrived; None if `timeout` seconds brought no answer.

        Raises :class:`CarrierLost` if none will come, or what the other side raised.
        """


class Carrier(Protocol):
    """What takes records to a :class:`~lanekit.trajectory.landing.Landing`, at least once."""

    def admit(self, producer: str) -> Admission:
        """Ask for admission; :class:`CarrierLost` if nobody answers."""

    def pack(self, records: Sequence[Record]) -> Any:
        """Make one parcel of some records; it may be brought several times."""

    def bring(
        self, parcel: Any, admission: Admission, producer: str, first: int, patience: float
    ) -> Call:
        """Begin to deliver a parcel whose first record has this number."""


class RemoteTrajectoryWriter:
    """Puts records into a trajectory lane on another machine, as a ``TrajectoryWriter`` does.

    With the `window` of 1, :meth:`put` returns when the record is in the lane: from then on it
    arrives even if this process and its machine die. With a larger one it returns as soon as no
    more than so many are on their way; those die with this process, and :meth:`flush` waits for
    them. Either way each arrives at most once and in order, whatever is killed or repeated.

    A `producer` that comes back under its name goes on where it was: :attr:`arrived` says how many
    of its records are in the lane, and the next one put gets the number after that. One that does
    its work again from the beginning, as a retried task does, passes ``replay=True``: its records
    are numbered from 1 again, and those that have arrived already are not put twice. Of each name
    only the latest writer is heard. Used by one thread at a time.
    """

    def __init__(
        self,
        carrier: Carrier,
        name: str,
        producer: str,
        *,
        window: int = 1,
        absence: float = 60.0,
        replay: bool = False,
    ) -> None:
        """Ask for admission to the lane `name`; most use :func:`attach` of an integration.

        `absence`: for how many seconds the other side may be silent before
        :class:`~lanekit.PeerLost`.
        """
        if not isinstance(window, int) or window < 1:
            raise ValueError(f"a window is of at least 1 record, not {window!r}")
        self.name = name
        self.producer = producer
        self._what = f"trajectory lane {name!r}, from producer {producer!r}"
        self._carrier = carrier
        self._window = window
        self._absence = absence
        self._silent_since: float | None = None
        self._admission = self._admitted()
        self.arrived = self._admission.arrived
        """The number of this producer's last record that is known to be in the lane."""
        self._next = 1 if replay else self.arrived + 1
        self._waiting: deque[Record] = deque()  # numbered from arrived + 1 on
        self._parcel: tuple[Any, int, int] | None = None
        self._call: Call | None = None
        self._broken = ""
        self.closed = False

    @property
    def schema(self) -> TrajectorySchema:
        """What the lane's records consist of."""
        return self._admission.schema

    @property
    def record_bytes(self) -> int:
        """The most that one record may take."""
        return self._admission.record_bytes

    @property
    def on_their_way(self) -> int:
        """How many records were put that are not known to have arrived."""
        return len(self._waiting)

    def put(
        self, arrays: Mapping[str, Any], meta: Any = None, *, timeout: float | None = None
    ) -> int:
        """Put one record and return its number, 1 for this producer's first.

        While there is no room in the lane, or in the window, this waits, for `timeout` seconds at
        most (None: until there is); 0 says that the time passed and nothing was put. The time
        counts while the other side answers: while it does not, this waits for its return, or
        raises :class:`~lanekit.PeerLost` after `absence` seconds; the writer is of no use then.
        """
        self._check_usable()
        record = self._checked(arrays, meta)
        number = self._next
        if number <= self.arrived:  # it was put in an earlier life
            self._next += 1
            return number
        deadline = None if timeout is None else time.monotonic() + timeout
        while len(self._waiting) >= self._window:
            if not self._advance(deadline):
                return 0
        self._waiting.append(record)
        self._next += 1
        if self._window > 1:
            self._take_answer(0.0)
            self._send(PATIENCE)
            return number
        while self.arrived < number:
            if not self._advance(deadline):
                self._withdraw()
                return 0
        return number

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that was put is in the lane; False if `timeout` passed first."""
        self._check_usable()
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._waiting:
            if not self._advance(deadline):
                return False
        return True

    def close(self) -> None:
        """Bring what is on its way, and end. Closing twice is allowed."""
        if not self.closed:
            try:
                if not self._broken:
                    self.flush()
            finally:
                self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        self.closed = True  # the block's own error says more than a failed flush

    def __repr__(self) -> str:
        return f"<RemoteTrajectoryWriter of {self.name!r} as {self.producer!r}>"

    # --- details ---------------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if self.closed:
            raise errors.HandleClosed(f"{self._what}: this writer was closed")
        if self._broken:
            raise errors.PeerLost(self._broken)

    def _checked(self, arrays: Mapping[str, Any], meta: Any) -> Record:
        found = checked_arrays(self._what, self.schema, arrays)
        content = encode_metadata(meta)
        size = stored_size(self.schema, found, len(content) + 1)
        if size > self.record_bytes:
            raise errors.TooLarge(
                f"{self._what}: a record of {size} bytes is more than the lane's limit of "
                f"{self.record_bytes} bytes; create the lane with a larger ring_bytes (a record "
                "may take half a ring)"
            )
        if self._window > 1:  # it may wait here while its arrays are filled anew
            found = {name: array.copy() for name, array in found.items()}
        return found, content

    def _advance(self, deadline: float | None) -> bool:
        """Bring what waits, and wait for the answer; False when the time is up."""
        before = self.arrived
        left = PATIENCE if deadline is None else deadline - time.monotonic()
        self._send(max(0.0, min(PATIENCE, left)))
        # An answer must come: only with it is known what has arrived.
        while not self._take_answer(_PAUSE):
            self._send(0.0)
        done = self.arrived > before
        return done or deadline is None or time.monotonic() < deadline

    def _send(self, patience: float) -> None:
        """Bring what waits, unless something is under way."""
        if self._call is not None or not self._waiting:
            return
        if self._parcel is None:
            records = self._next_records()
            self._parcel = self._carrier.pack(records), self.arrived + 1, len(records)
        parcel, first, _ = self._parcel
        try:
            self._call = self._carrier.bring(
                parcel, self._admission, self.producer, first, patience
            )
        except CarrierLost as lost:
            self._note_silence(lost)

    def _next_records(self) -> list[Record]:
        size = 0
        records: list[Record] = []
        for arrays, content in self._waiting:
            size += sum(array.nbytes for array in arrays.values()) + len(content)
            if records and size > PARCEL_BYTES:
                break
            records.append((arrays, content))
        return records

    def _take_answer(self, timeout: float) -> bool:
        """Look whether the call under way was answered."""
        if self._call is None:
            return False
        try:
            arrived = self._call.answer(timeout)
        except CarrierLost as lost:
            self._call = None
            self._note_silence(lost)
            return False
        except errors.LanekitError as error:
            self._broken = f"{error} (this writer is of no use any more)"
            raise
        if arrived is None:
            if timeout > 0:
                self._note_silence(None)
            return False
        self._call = None
        self._silent_since = None
        while self.arrived < arrived:
            self._waiting.popleft()
            self.arrived += 1
        if self._parcel is not None and self._parcel[1] + self._parcel[2] <= arrived + 1:
            self._parcel = None
        return True

    def _withdraw(self) -> None:
        """Take the last record back: the answer said that it is not in the lane."""
        self._waiting.pop()
        self._next -= 1
        self._parcel = None

    def _note_silence(self, lost: CarrierLost | None) -> None:
        """Give the other side time to come back, but not for ever."""
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
        if now - self._silent_since > self._absence:
            words = f": {lost}" if lost is not None and str(lost) else ""
            self._broken = (
                f"{self._what}: nobody has answered for {self._absence:g} s{words}. Is the trainer "
                "there? Attach again under the same name once it is: `arrived` tells what is in "
                "the lane"
            )
            raise errors.PeerLost(self._broken)
        if lost is not None:
            time.sleep(_PAUSE)

    def _admitted(self) -> Admission:
        while True:
            try:
                admission = self._carrier.admit(self.producer)
            except CarrierLost as lost:
                self._note_silence(lost)
            else:
                self._silent_since = None
                return admission
