"""The trajectory lane's consumer: takes the records of all producers, each exactly once."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import NoReturn, Self

import numpy as np

from lanekit import errors
from lanekit._core import (
    SLICE_NS,
    CData,
    address_of,
    check,
    copy_records,
    fail,
    ffi,
    finalize_at_exit,
    hand_out_records,
    lib,
    protect_process,
    seconds_to_ns,
)
from lanekit.segments import (
    encode_run_id,
    human_size,
    owner_of,
    reclaim_segment,
    segment_name,
    shared_memory_space,
)
from lanekit.trajectory.record import RingKeeper, TrajectoryBatch, TrajectoryRecord
from lanekit.trajectory.schema import TrajectoryField, TrajectorySchema
from lanekit.trajectory.statistics import (
    ProducerStats,
    TrajectoryStats,
    inspect_trajectory_lane,
)

# Records that one call into the core takes at most.
_AT_ONCE = 32
# After how many seconds of a standstill of our own making to say so.
_STANDSTILL = 5.0


def _end(handle: CData) -> None:
    # The name first: unmapping takes time, and a signal may end the process meanwhile.
    lib.lk_traj_reader_unlink(handle)
    lib.lk_traj_reader_close(handle)


class TrajectoryReader:
    """Creates a trajectory lane and takes records from it.

    One reader per lane, used by one thread at a time; records may be released from any thread. As
    a context manager it ends the lane; so do the garbage collector, the interpreter's exit and
    SIGTERM. If the process is killed instead, the lane stays, and the next reader that is created
    with the same name and schema takes it over: the producers go on, and every record that was not
    released comes again.

    >>> schema = {"tokens": "int32[:]", "score": "float32"}
    >>> with TrajectoryReader.create("run-1", schema) as reader:       # doctest: +SKIP
    ...     for record in reader:
    ...         learn(record["tokens"], record["score"])
    """

    def __init__(
        self, handle: CData, name: str, schema: TrajectorySchema, *, taken_over: bool
    ) -> None:
        """Take over a core handle; use :meth:`create`."""
        self._handle = handle
        self._lane = name
        self._schema = schema
        self._what = f"trajectory lane {name!r} (segment {segment_name('traj', name)})"
        self.taken_over = taken_over
        """Whether the lane was left by another reader, with what that one had not released."""
        config = ffi.new("struct lk_traj_config *")
        check(lib.lk_traj_reader_config(handle, config), self._what)
        self._rings: int = config.rings
        self._ring_bytes: int = config.ring_size
        self._record_bytes: int = config.record_max
        self._c_records = ffi.new("struct lk_traj_record[]", _AT_ONCE)
        self._c_arrays = ffi.new("struct lk_traj_array[]", _AT_ONCE * len(schema))
        self._addresses = (
            address_of(handle),
            address_of(self._c_records),
            address_of(self._c_arrays),
        )
        self._spoiled = ffi.new("uint32_t *")
        self._taken: deque[TrajectoryRecord] = deque()
        """Taken from the core, but not handed out yet."""
        self._keeper = RingKeeper(handle, self._what)
        self._warned = False
        self._finalizer = finalize_at_exit(self, _end, handle)

    @classmethod
    def create(
        cls,
        name: str,
        schema: TrajectorySchema | Mapping[str, TrajectoryField | str],
        *,
        version: int | None = None,
        producers: int = 16,
        ring_bytes: int = 4 << 20,
        record_bytes: int = 0,
        resume: bool = True,
    ) -> Self:
        """Create the lane `name` and become its consumer.

        Room for `producers` at the same time is reserved, `ring_bytes` for each; one record may
        take half of that, or `record_bytes`. A lane whose reader died, or has left with
        :meth:`leave`, is taken over as it is, with its own sizes; `resume=False` throws it away
        instead. If its records have another schema that is :class:`~lanekit.SchemaMismatch`; if
        its reader lives, :class:`~lanekit.SegmentExists`.
        """
        encoded = encode_run_id(name)
        made = TrajectorySchema.of(schema, version=version)
        if not 1 <= producers <= lib.LK_TRAJ_RINGS_MAX:
            raise ValueError(f"producers is 1 to {lib.LK_TRAJ_RINGS_MAX}, not {producers}")
        if not 1024 <= ring_bytes <= 1 << 38:
            raise ValueError(f"ring_bytes is 1024 to 2**38, not {ring_bytes}")
        ring_size = -(-ring_bytes // 64) * 64
        most = ring_size // 2 // 64 * 64 - 64
        if not 0 <= record_bytes <= most:
            raise ValueError(
                f"record_bytes is at most {most}, about half of ring_bytes, not {record_bytes}"
            )
        config = ffi.new(
            "struct lk_traj_config *",
            {
                "rings": producers,
                "fields": len(made),
                "schema_version": made.version,
                "ring_size": ring_size,
                "record_max": record_bytes,
            },
        )
        protect_process()
        if not resume:
            _discard(name)
        out = ffi.new("lk_traj_reader **")
        status = lib.lk_traj_create(out, encoded, len(encoded), config, made.to_c())
        if status < 0:
            _fail_to_create(status, name, made, config)
        handle = ffi.gc(out[0], lib.lk_traj_reader_free)
        return cls(handle, name, made, taken_over=status == 1)

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._lane

    @property
    def schema(self) -> TrajectorySchema:
        """What the lane's records consist of."""
        return self._schema

    @property
    def producers(self) -> int:
        """How many producers the lane has room for."""
        return self._rings

    @property
    def ring_bytes(self) -> int:
        """The room of each producer."""
        return self._ring_bytes

    @property
    def record_bytes(self) -> int:
        """The most that one record may take."""
        return self._record_bytes

    # --- taking ----------------------------------------------------------------------------------

    def try_get(self) -> TrajectoryRecord | None:
        """Take the next record if there is one now."""
        taken = self._taken
        if not taken:
            taken.extend(self._take())
            if not taken:
                return None
        return taken.popleft()._hand_out()

    def get(self, timeout: float | None = None) -> TrajectoryRecord | None:
        """Take the next record, from all producers in turn; None if `timeout` passed first.

        A ring whose content no lanekit producer can have written raises
        :class:`~lanekit.SegmentCorrupt` once, and is left out from then on; the next call goes on
        with the others.
        """
        record = self.try_get()
        remaining = seconds_to_ns(timeout)
        deadline = None if remaining is None else time.monotonic_ns() + remaining
        while record is None:
            left = None if deadline is None else (deadline - time.monotonic_ns()) / 1e9
            if not self._wait(left, holding=False):
                break
            record = self.try_get()  # none, if all there was had been released out of order
        return record

    def get_batch(
        self,
        n: int | None = None,
        *,
        tokens: int | None = None,
        field: str | None = None,
        timeout: float | None = None,
    ) -> TrajectoryBatch:
        """Take `n` records, or as many as have `tokens` rows of a ragged field in all.

        `field` says of which, the schema's first ragged one if left out; the record that would go
        beyond `tokens` comes with the next call (a single one that is larger comes alone). Fewer
        records come when `timeout` passes first, and when a producer waits for the very room that
        this batch holds: then nothing more would ever come.
        """
        if (n is None) == (tokens is None):
            raise ValueError("a batch is either of n records or of a number of tokens")
        counted = None if tokens is None else self._counted(field)
        limit = n if n is not None else tokens
        if not isinstance(limit, int | np.integer):
            raise TypeError(f"a batch has a whole number of records or tokens, not {limit!r}")
        limit = int(limit)
        if limit < 1:
            raise ValueError(f"a batch has at least one record or token, not {limit}")
        taken: list[TrajectoryRecord] = []
        remaining = seconds_to_ns(timeout)
        deadline = None if remaining is None else time.monotonic_ns() + remaining
        try:
            while not self._fill_batch(taken, limit, counted):
                left = None if deadline is None else (deadline - time.monotonic_ns()) / 1e9
                if left is not None and left <= 0:
                    break
                if not self._wait(left, holding=bool(taken)):
                    break
        except BaseException:
            # Taken, but in nobody's hands: the next call begins with them.
            self._taken.extendleft(reversed(taken))
            raise
        hand_out_records(taken)
        return TrajectoryBatch(self._schema, taken)

    def __iter__(self) -> Iterator[TrajectoryRecord]:
        """Yield records as they come; each is released when the next one is asked for."""
        while True:
            record = self.get()
            if record is not None:
                yield record
                record.release()
                del record

    async def aget(self, timeout: float | None = None) -> TrajectoryRecord | None:
        """Take the next record without blocking the event loop."""
        import asyncio

        remaining = seconds_to_ns(timeout)
        deadline = None if remaining is None else time.monotonic_ns() + remaining
        while True:
            record = self.try_get()
            if record is not None:
                return record
            left = SLICE_NS if deadline is None else deadline - time.monotonic_ns()
            if left <= 0:
                return None
            waiting = asyncio.ensure_future(
                asyncio.to_thread(lib.lk_traj_wait, self._handle, min(SLICE_NS, left))
            )
            try:
                status = await asyncio.shield(waiting)
            except asyncio.CancelledError:
                await waiting  # it takes nothing, but it is inside the reader
                raise
            check(status, self._what)

    async def __aiter__(self) -> AsyncIterator[TrajectoryRecord]:
        """Yield records as they come; each is released when the next one is asked for."""
        while True:
            record = await self.aget()
            if record is not None:
                yield record
                record.release()
                del record

    def stats(self) -> TrajectoryStats:
        """Return what was counted: depth, bytes, records and stalls for each producer."""
        self._keeper.flush()
        out = ffi.new("struct lk_traj_ring_status[]", self._rings)
        check(lib.lk_traj_reader_rings(self._handle, out), self._what)
        return TrajectoryStats(tuple(ProducerStats.from_c(i, out[i]) for i in range(self._rings)))

    # --- the end ---------------------------------------------------------------------------------

    def leave(self) -> None:
        """Go without ending the lane: the next reader of this name takes it over.

        The producers go on until their rings are full. What was not released comes again.
        """
        if self._finalizer.detach() is not None:
            self._taken.clear()
            lib.lk_traj_reader_leave(self._handle)

    def close(self) -> None:
        """End the lane: producers are told. Arrays of records stay valid. Twice is allowed."""
        self._finalizer()
        self._taken.clear()

    @property
    def closed(self) -> bool:
        """Whether the reader was closed or has left."""
        return not self._finalizer.alive

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<TrajectoryReader of {self._lane!r}, {state}>"

    # --- details ---------------------------------------------------------------------------------

    def _take(self, most: int = _AT_ONCE) -> list[TrajectoryRecord]:
        """Fetch what is there now, up to so many; handed out they are not yet."""
        if self._keeper.late:
            self._keeper.flush()
        count = lib.lk_traj_take(
            self._handle, min(most, _AT_ONCE), self._c_records, self._c_arrays, self._spoiled
        )
        if count <= 0:
            if count < 0:
                self._fail(count)
            return []
        return copy_records(
            TrajectoryRecord, self._keeper, self._schema.places, *self._addresses, count
        )

    def _fill_batch(self, taken: list[TrajectoryRecord], limit: int, counted: int | None) -> bool:
        """Move what is there into the batch; True when it is full."""
        if counted is not None:
            return self._fill_by_rows(taken, limit, counted)
        while self._taken and len(taken) < limit:
            taken.append(self._taken.popleft())
        while len(taken) < limit:
            more = self._take(limit - len(taken))
            if not more:
                return False
            taken += more
        return True

    def _fill_by_rows(self, taken: list[TrajectoryRecord], limit: int, counted: int) -> bool:
        so_far = sum(_rows(record, counted) for record in taken)
        while so_far < limit:
            if not self._taken:
                self._taken.extend(self._take())
                if not self._taken:
                    return False
            more = _rows(self._taken[0], counted)
            if so_far + more > limit and taken:
                return True
            taken.append(self._taken.popleft())
            so_far += more
        return True

    def _counted(self, field: str | None) -> int:
        ragged = [name for name, f in self._schema if f.ragged]
        if field is None and not ragged:
            raise ValueError(f"{self._what}: no field is ragged, so there is nothing to count")
        name = ragged[0] if field is None else field
        if name not in ragged:
            raise ValueError(
                f"{self._what}: {name!r} is no ragged field; those are {', '.join(ragged) or '-'}"
            )
        return self._schema.names.index(name)

    def _wait(self, timeout: float | None, *, holding: bool) -> bool:
        """Wait for a record. False: the time has passed, or what we hold stands in the way."""
        remaining = seconds_to_ns(timeout)
        begun = time.monotonic_ns()
        deadline = begun + (remaining or 0)
        while True:
            step = SLICE_NS if remaining is None else max(0, min(SLICE_NS, remaining))
            status = lib.lk_traj_wait(self._handle, step)
            if status > 0:
                return True
            if status < 0:
                self._fail(status)
            self._keeper.flush()
            now = time.monotonic_ns()
            if remaining is not None:
                remaining = deadline - now
                if remaining <= 0:
                    return False
            if holding and check(lib.lk_traj_exhausted(self._handle), self._what):
                return False
            if not self._warned and now - begun > _STANDSTILL * 1e9:
                self._warn_of_standstill()

    def _warn_of_standstill(self) -> None:
        if lib.lk_traj_exhausted(self._handle) == 1:
            self._warned = True
            warnings.warn(
                f"{self._what}: producers wait for room that records hold which were taken here "
                "and not released; release them, or copy the arrays that are kept",
                RuntimeWarning,
                stacklevel=4,
            )

    def _fail(self, status: int) -> NoReturn:
        if status == lib.LK_E_CORRUPT:
            ring = self._spoiled[0]
            raise errors.SegmentCorrupt(
                f"{self._what}: ring {ring} was overwritten by something that is not a lanekit "
                "producer, and is out of use; its records that were not taken yet are lost, the "
                "other producers go on"
            )
        fail(status, self._what)


def _rows(record: TrajectoryRecord, index: int) -> int:
    return max(0, record._place(index)[1])


def _discard(name: str) -> None:
    """Remove what a dead reader left; a live one's lane stays, and creation says so."""
    try:
        reclaim_segment(segment_name("traj", name))
    except errors.SegmentExists:
        return


def _fail_to_create(status: int, name: str, schema: TrajectorySchema, config: CData) -> NoReturn:
    """Raise with what only creation knows: owner, schema found, memory missing."""
    segment = segment_name("traj", name)
    what = f"trajectory lane {name!r} (segment {segment})"
    if status == lib.LK_E_EXISTS:
        pid, owner = owner_of(segment)
        raise errors.SegmentExists(
            f"{what}: {owner} is its consumer; use another name, or end that process first",
            pid,
        )
    if status == lib.LK_E_SCHEMA:
        found = inspect_trajectory_lane(name)
        raise errors.SchemaMismatch(
            f"{what}: a reader left it with {found.stats.depth} records, whose schema is not the "
            f"one given: {schema.difference(found.schema)}. Take it over with its own schema "
            f"({found.schema}), or throw it away with resume=False"
        )
    if status == lib.LK_E_NO_SPACE:
        raise errors.OutOfSharedMemory(
            f"{what}: needs {human_size(lib.lk_traj_segment_size(config))} of shared memory, but "
            f"/dev/shm has {shared_memory_space()}; lower producers (now {config.rings}) or "
            f"ring_bytes (now {config.ring_size}), remove leftovers with `lanekit clean`, or "
            "enlarge it (in a container: --shm-size)"
        )
    fail(status, what)
