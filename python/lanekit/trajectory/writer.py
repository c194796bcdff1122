"""A producer of the trajectory lane: puts whole records, waits when there is no room."""

from __future__ import annotations

import contextlib
import functools
import operator
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from lanekit import errors
from lanekit._core import (
    SLICE_NS,
    CData,
    RecordPutter,
    address_of,
    attach_patiently,
    check,
    fail,
    ffi,
    finalize_at_exit,
    lib,
    protect_process,
    seconds_to_ns,
)
from lanekit.segments import encode_run_id, segment_name
from lanekit.trajectory.field_checks import converted, refuse_names, refuse_shape
from lanekit.trajectory.metadata import encode_metadata
from lanekit.trajectory.schema import TrajectoryField, TrajectorySchema
from lanekit.trajectory.statistics import ProducerStats, inspect_trajectory_lane

_NULL = ffi.NULL
_ABSENT = 2**64 - 1
_put = lib.lk_traj_put
_from_buffer = ffi.from_buffer


class TrajectoryWriter(RecordPutter):
    """Puts records into a trajectory lane that a :class:`~lanekit.TrajectoryReader` created.

    Each writer has a ring of its own, so writers never wait for each other. What was put arrives
    once and in order, also if this process is killed right afterwards. Used by one thread at a
    time.

    >>> with TrajectoryWriter.attach("run-1") as writer:            # doctest: +SKIP
    ...     writer.put({"tokens": tokens, "score": np.float32(1.0)}, meta={"env": 3})

    The plain case of :meth:`put`, a dict of arrays that are exactly what the schema says, is in C:
    ``python/ext/trajectory_calls.c``. What is not comes back from there.
    """

    def __init__(self, handle: CData, name: str) -> None:
        """Take over a core handle; use :meth:`attach`."""
        self._handle = handle
        self._lane = name
        self._what = f"trajectory lane {name!r} (segment {segment_name('traj', name)})"
        config = ffi.new("struct lk_traj_config *")
        fields = ffi.new("struct lk_traj_field[]", lib.LK_TRAJ_FIELDS_MAX)
        check(lib.lk_traj_writer_config(handle, config, fields), self._what)
        try:
            self._schema = TrajectorySchema.from_c(fields, config.fields, config.schema_version)
        except (TypeError, ValueError):
            check(lib.LK_E_CORRUPT, self._what)
            raise
        self._record_bytes: int = config.record_max
        self._arrays = ffi.new("struct lk_traj_array[]", len(self._schema))
        # What put looks at for each field, and the struct it fills in.
        self._slots = [
            (name, f.dtype, f.shape, f.ragged, f.optional, self._arrays[i])
            for i, (name, f) in enumerate(self._schema)
        ]
        fields_of_c = tuple(
            (name, f.dtype, f.shape, f.ragged, f.optional, f.row_size) for name, f in self._schema
        )
        self._bind(address_of(handle), fields_of_c, handle)
        self._finalizer = finalize_at_exit(self, lib.lk_traj_writer_close, handle)

    @classmethod
    def attach(
        cls,
        name: str,
        *,
        schema: TrajectorySchema | Mapping[str, TrajectoryField | str] | None = None,
        version: int | None = None,
        timeout: float | None = 0.0,
        absence: float = 60.0,
    ) -> Self:
        """Join the lane `name` as one more producer.

        Waits up to `timeout` seconds (None: for ever) for the lane to appear and for one of its
        rings to be free, then raises :class:`~lanekit.SegmentNotFound` or
        :class:`~lanekit.PlaceTaken`. With a `schema`, :class:`~lanekit.SchemaMismatch` unless the
        lane has exactly that one. `absence`: for how many seconds a put waits while no consumer is
        alive, before :class:`~lanekit.PeerLost`.
        """
        encoded = encode_run_id(name)
        wanted = None if schema is None else TrajectorySchema.of(schema, version=version)
        fields = _NULL if wanted is None else wanted.to_c()
        count, number = (0, 0) if wanted is None else (len(wanted), wanted.version)
        absence_ns = seconds_to_ns(absence)
        protect_process()
        out = ffi.new("lk_traj_writer **")
        status = attach_patiently(
            lambda: lib.lk_traj_attach(
                out,
                encoded,
                len(encoded),
                fields,
                count,
                number,
                _ABSENT if absence_ns is None else absence_ns,
            ),
            timeout,
            (lib.LK_E_NOT_FOUND, lib.LK_E_NOT_READY, lib.LK_E_TAKEN),
        )
        if status < 0:
            _fail_to_attach(status, name, wanted)
        return cls(ffi.gc(out[0], lib.lk_traj_writer_free), name)

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._lane

    @property
    def schema(self) -> TrajectorySchema:
        """What the lane's records consist of."""
        return self._schema

    @property
    def record_bytes(self) -> int:
        """The most that one record may take."""
        return self._record_bytes

    # --- putting ---------------------------------------------------------------------------------

    def put(
        self, arrays: Mapping[str, Any], meta: Any = None, *, timeout: float | None = None
    ) -> int:
        """Copy one record into the lane and return its number, 1 for this writer's first.

        While the lane is full this waits, for `timeout` seconds at most (None: until there is
        room); 0 says that the time passed and nothing was put. `arrays` has an array for each field
        of the schema, exactly of its dtype; lists and numbers are converted. `meta` is bytes or
        whatever JSON can say.
        """
        content = b"" if meta is None else encode_metadata(meta)
        done = self._put_now(arrays, content)
        if done is not None and done > 0:
            return done
        keep = self._fill(arrays)
        number = (
            _put(self._handle, self._arrays, content, len(content), 0) if done is None else done
        )
        if number > 0:
            return number
        if number < 0:
            self._fail(number, arrays, len(content))
        if timeout == 0:
            return 0
        number = self._wait(
            functools.partial(_put, self._handle, self._arrays, content, len(content)), timeout
        )
        del keep
        return number

    def reserve(
        self,
        shapes: Mapping[str, int | tuple[int, ...]],
        *,
        meta_room: int = 0,
        timeout: float | None = None,
    ) -> TrajectoryReservation | None:
        """Lend the room of a record, to fill it in place: no copy at all.

        `shapes` gives the number of rows (or the whole shape) of each ragged field; fixed fields
        are there by themselves, optional ones only if named. None when `timeout` passed first.

        >>> with writer.reserve({"tokens": 512}) as record:            # doctest: +SKIP
        ...     record["tokens"][:] = generate(512)   # put on leaving, dropped on an error
        """
        rows = self._rows(shapes)
        counts = ffi.new("uint64_t[]", rows)
        data = ffi.new("void *[]", len(rows))
        room = meta_room + 1 if meta_room else 0
        reserve = functools.partial(_reserve, self._handle, counts, room, data)
        status = reserve(0)
        if status == 0 and timeout != 0:
            status = self._wait(reserve, timeout)
        if status < 0:
            self._fail(status, None, room)
        if status == 0:
            return None
        return TrajectoryReservation(self, self._lend(rows, data), meta_room)

    def stats(self) -> ProducerStats:
        """Return what was counted in this writer's ring."""
        out = ffi.new("struct lk_traj_ring_status *")
        check(lib.lk_traj_writer_ring(self._handle, out), self._what)
        return ProducerStats.from_c(-1, out)

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the ring back. What was put stays for the consumer. Closing twice is allowed."""
        self._finalizer()

    @property
    def closed(self) -> bool:
        """Whether the writer was closed."""
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
        return f"<TrajectoryWriter of {self._lane!r}, {state}>"

    # --- details ---------------------------------------------------------------------------------

    def _fill(self, arrays: Mapping[str, Any]) -> list[Any]:
        """Describe the arrays to the core; what is returned must live until they are copied."""
        if not isinstance(arrays, Mapping):
            raise TypeError(
                f"{self._what}: a record is a mapping from names to arrays, not "
                f"{type(arrays).__name__}"
            )
        keep = []
        found = 0
        for name, dtype, shape, ragged, optional, slot in self._slots:
            value = arrays.get(name)
            if value is None:
                if not optional:
                    refuse_names(self._what, self._schema, arrays)
                found += name in arrays
                slot.rows = _ABSENT
                continue
            found += 1
            if type(value) is not np.ndarray or value.dtype != dtype:
                value = converted(self._what, name, dtype, value)
            if not value.flags.c_contiguous:
                value = np.ascontiguousarray(value)
            if ragged:
                if value.ndim == 0 or value.shape[1:] != shape:
                    refuse_shape(self._what, name, self._schema.fields[name], value)
                slot.rows = rows = value.shape[0]
                if rows == 0:
                    continue
            else:
                if value.shape != shape:
                    refuse_shape(self._what, name, self._schema.fields[name], value)
                slot.rows = 1
            slot.data = data = _from_buffer(value)
            keep.append(data)
        if found != len(arrays):
            refuse_names(self._what, self._schema, arrays)
        return keep

    def _rows(self, shapes: Mapping[str, int | tuple[int, ...]]) -> list[int]:
        if any(name not in self._schema.fields for name in shapes):
            refuse_names(self._what, self._schema, shapes)
        rows = []
        for name, f in self._schema:
            shape = shapes.get(name)
            if shape is None and f.ragged and not f.optional:
                raise ValueError(
                    f"{self._what}: how many rows of {name!r}? Every ragged field is named"
                )
            if shape is None:
                rows.append(_ABSENT if f.optional else 1)
                continue
            full = _whole_numbers(self._what, name, shape)
            if f.ragged and full and full[1:] in ((), f.shape) and 0 <= full[0] < _ABSENT:
                rows.append(full[0])
            elif not f.ragged and (full == f.shape or (shape == 1 and f.shape == ())):
                rows.append(1)
            else:
                raise ValueError(f"{self._what}: field {name!r} is {f}, not of shape {full}")
        return rows

    def _lend(self, rows: list[int], data: CData) -> dict[str, npt.NDArray[Any]]:
        """Return arrays over the reserved room; the mapping stays as long as they do."""
        lent = {}
        for i, (name, f) in enumerate(self._schema):
            if rows[i] == _ABSENT:
                continue
            shape = (rows[i], *f.shape) if f.ragged else f.shape
            segment = ffi.new("lk_segment **")
            check(lib.lk_traj_writer_view(self._handle, segment), self._what)
            anchor = ffi.gc(ffi.cast("uint8_t *", data[i]), functools.partial(_unmap, segment[0]))
            buffer = ffi.buffer(anchor, rows[i] * f.row_size)
            lent[name] = np.frombuffer(memoryview(buffer), f.dtype).reshape(shape)
        return lent

    def _wait(self, attempt: Any, timeout: float | None) -> int:
        """Try in slices until there was room or the time has passed."""
        remaining = seconds_to_ns(timeout)
        deadline = time.monotonic_ns() + (remaining or 0)
        while True:
            step = SLICE_NS if remaining is None else min(SLICE_NS, remaining)
            result: int = attempt(max(0, step))
            if result > 0:
                return result
            if result < 0:
                self._fail(result, None, 0)
            if remaining is not None:
                remaining = deadline - time.monotonic_ns()
                if remaining <= 0:
                    return 0

    def _fail(self, status: int, arrays: Mapping[str, Any] | None, meta_size: int) -> NoReturn:
        if status == lib.LK_E_TOO_LARGE:
            size = sum(np.asarray(a).nbytes for a in (arrays or {}).values() if a is not None)
            found = f" of about {size + meta_size} bytes" if arrays else ""
            raise errors.TooLarge(
                f"{self._what}: a record{found} is more than the lane's limit of "
                f"{self._record_bytes} bytes; create the lane with a larger ring_bytes (a record "
                "may take half a ring)"
            )
        if status == lib.LK_E_PEER_LOST:
            raise errors.PeerLost(
                f"{self._what}: its consumer ended the lane, or died and nobody took its place; "
                "attach again once there is one"
            )
        if status == lib.LK_E_CORRUPT:
            raise errors.SegmentCorrupt(
                f"{self._what}: this producer's ring was overwritten by something that is not "
                "lanekit, and is out of use; attach again for another ring"
            )
        fail(status, self._what)


def _whole_numbers(what: str, name: str, shape: Any) -> tuple[int, ...]:
    """Return a number of rows, or a shape, as a tuple."""
    try:
        parts = shape if isinstance(shape, tuple | list) else (shape,)
        return tuple(operator.index(part) for part in parts)
    except TypeError:
        raise TypeError(
            f"{what}: field {name!r}: a number of rows or a shape is wanted, not {shape!r}"
        ) from None


class TrajectoryReservation:
    """The room of a record, lent by :meth:`TrajectoryWriter.reserve`; open until it has ended.

    ``reservation["tokens"]`` is the ring's own memory. Once committed, it belongs to the consumer:
    the arrays become read-only, and views made of them before must not be written to any more.
    """

    __slots__ = ("_arrays", "_meta_room", "_open", "_writer")

    def __init__(
        self, writer: TrajectoryWriter, arrays: dict[str, npt.NDArray[Any]], meta_room: int
    ) -> None:
        self._writer = writer
        self._arrays = arrays
        self._meta_room = meta_room
        self._open = True

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def commit(self, meta: Any = None) -> int:
        """Put the record and return its number."""
        writer = self._writer
        if not self._open:
            fail(lib.LK_E_NOT_RESERVED, writer._what)
        content = encode_metadata(meta)
        number = lib.lk_traj_commit(writer._handle, content, len(content))
        if number == lib.LK_E_METADATA_SIZE:
            raise ValueError(
                f"{writer._what}: {len(content) - 1} bytes of metadata, but {self._meta_room} were "
                "reserved; pass a larger meta_room to reserve"
            )
        if number < 0:
            writer._fail(number, None, 0)
        self._end()
        return number

    def abandon(self) -> None:
        """Give the room back; nothing is put. Ending twice is allowed."""
        if self._open:
            self._end()
            check(lib.lk_traj_abandon(self._writer._handle), self._writer._what)

    def _end(self) -> None:
        self._open = False
        for array in self._arrays.values():
            array.setflags(write=False)

    def __del__(self) -> None:
        # A reservation that was dropped must not block the writer for good.
        if self._open:
            lib.lk_traj_abandon(self._writer._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._open:
            return
        if kind is None:
            self.commit()
        else:
            with contextlib.suppress(errors.LanekitError):  # the block's own error says more
                self.abandon()


def _reserve(handle: CData, rows: CData, room: int, data: CData, timeout_ns: int) -> int:
    return lib.lk_traj_reserve(handle, rows, room, timeout_ns, data)


def _unmap(segment: CData, _: CData) -> None:
    lib.lk_segment_release(segment)


def _fail_to_attach(status: int, name: str, wanted: TrajectorySchema | None) -> NoReturn:
    """Raise with what only attaching knows: how the schema differs, how many have the rings."""
    what = f"trajectory lane {name!r} (segment {segment_name('traj', name)})"
    if status == lib.LK_E_SCHEMA and wanted is not None:
        found = inspect_trajectory_lane(name).schema
        raise errors.SchemaMismatch(
            f"{what}: its schema is not the one asked for: {wanted.difference(found)}. Ask for the "
            f"lane's own, or for none: {found}"
        )
    if status == lib.LK_E_TAKEN:
        raise errors.PlaceTaken(
            f"{what}: live producers have all its rings; end one, or create the lane with more "
            "producers"
        )
    if status == lib.LK_E_NOT_FOUND:
        raise errors.SegmentNotFound(
            f"{what}: no such lane; its consumer creates it with TrajectoryReader.create, `lanekit "
            "ls` lists the lanes of this machine"
        )
    fail(status, what)
