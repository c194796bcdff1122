"""Records in a consumer's hands: views of the ring itself, until they are released."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self, overload

import numpy as np
import numpy.typing as npt

from lanekit import errors
from lanekit._core import CData, TakenRecord, check, ffi, lib
from lanekit.trajectory.metadata import decode_metadata
from lanekit.trajectory.schema import TrajectoryField, TrajectorySchema

_CONCURRENT: int = lib.LK_E_CONCURRENT
_release = lib.lk_traj_release

# As struct lk_traj_array.
_C_ARRAY = np.dtype([("data", np.uint64), ("rows", np.uint64)])


class RingKeeper:
    """Gives records back when nothing looks at them any more, from whatever thread that is.

    Every view of a record holds on to this, and this to the mapping: no view can dangle.
    """

    def __init__(self, handle: CData, what: str) -> None:
        segment = ffi.new("lk_segment **")
        check(lib.lk_traj_reader_view(handle, segment), what)
        self._mapping = ffi.gc(segment[0], lib.lk_segment_release)
        self.handle = handle
        self.late: deque[tuple[int, int]] = deque()
        """Records that were forgotten while another thread was inside the reader."""

    def flush(self) -> None:
        """Release what could not be released at its time."""
        while self.late:
            ring, ticket = self.late.popleft()
            if _release(self.handle, ring, ticket) == _CONCURRENT:
                self.late.appendleft((ring, ticket))
                return


class TrajectoryRecord(TakenRecord, Mapping[str, npt.NDArray[Any]]):
    """One record: a mapping from field names to read-only arrays over the ring's own memory.

    Its room goes back to the producer once the record was released, by :meth:`release`, by leaving
    its ``with`` block or by being forgotten, *and* no array taken from it is alive any more. So an
    array never shows anything but its record; to keep data without keeping the room, copy it.

    What a trainer does for every record, taking it and its arrays, is in C:
    ``python/ext/trajectory_records.c``. There are also ``meta`` (the metadata: bytes, or whatever
    JSON said; None for none), ``producer`` (the pid of the process that put it), ``session`` (one
    producer's stay), ``number`` (1 for a producer's first record; with the session it names the
    record for good) and ``timestamp_ns`` (when it was put, by ``time.monotonic_ns()``).
    """

    __slots__ = ()

    def _refuse(self) -> NoReturn:
        raise errors.HandleClosed(
            "this record was released; take the arrays you need before, or copy them"
        )

    def __iter__(self) -> Iterator[str]:
        for name, place in self._places.items():
            if self._place(place[0])[1] >= 0:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        place = self._places.get(str(name))
        return place is not None and self._place(place[0])[1] >= 0

    def rows(self, name: str) -> int:
        """Return the number of rows of a field, 0 if the record does not have it."""
        return max(0, self._place(self._places[name][0])[1])

    def _decode(self, metadata: bytes) -> Any:
        try:
            return decode_metadata(metadata)
        except (ValueError, RecursionError) as error:
            raise errors.SegmentCorrupt(
                f"the metadata of record {self.number} of process {self.producer} is not JSON "
                f"({error}); the record's arrays and other records can still be read"
            ) from error

    def copy(self) -> dict[str, npt.NDArray[Any]]:
        """Return all fields as arrays of their own, which outlive the record."""
        return {name: self[name].copy() for name in self}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        where = f"number {self.number} of producer {self.producer}"
        return f"<TrajectoryRecord {where}{', released' if self.released else ''}>"


class TrajectoryBatch(Sequence[TrajectoryRecord]):
    """Some records taken together, in the order in which they were taken."""

    __slots__ = ("_records", "_schema")

    def __init__(self, schema: TrajectorySchema, records: list[TrajectoryRecord]) -> None:
        self._schema = schema
        self._records = records

    @overload
    def __getitem__(self, index: int) -> TrajectoryRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[TrajectoryRecord]: ...
    def __getitem__(self, index: int | slice) -> TrajectoryRecord | list[TrajectoryRecord]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def lengths(self, name: str) -> npt.NDArray[np.int64]:
        """Return how many rows of a field each record has."""
        self._field(name)
        return np.array([record.rows(name) for record in self._records], np.int64)

    def padded(
        self, name: str, *, pad: Any = 0, length: int | None = None, out: Any = None
    ) -> npt.NDArray[Any]:
        """Return a field of all records as one dense array, ``[batch, max_len, ...]``.

        Rows that a record does not have are filled with `pad`. `length` sets the length instead of
        the longest record; a longer record is then a ValueError. `out` is an array to write into,
        C-contiguous and of the field's dtype, or a tensor in CPU memory (pinned memory works):
        ``torch.from_numpy(batch.padded("tokens"))`` shares memory, so a tensor needs no copy
        either way. A field that is not ragged becomes ``[batch, ...]``.
        """
        field = self._field(name)
        index = self._schema.names.index(name)
        # -1 rows of what a record does not have: to the core, the greatest number there is.
        table = np.array([record._place(index) for record in self._records], np.int64)
        table = table.reshape(-1, 2)
        longest = max(0, int(table[:, 1].max(initial=0)))
        if any(record.released for record in self._records):
            raise errors.HandleClosed("a record of this batch was released; pad before releasing")
        if length is None:
            length = longest if field.ragged else 1
        if longest > length:
            raise ValueError(
                f"field {name!r}: a record has {longest} rows, more than the length {length}"
            )
        shape = (len(self), length, *field.shape) if field.ragged else (len(self), *field.shape)
        target = _target(name, field, shape, out)
        item = _padding(name, field, pad)
        packed = np.empty(len(self), _C_ARRAY)
        packed["data"], packed["rows"] = table[:, 0], table[:, 1]
        if target.size:
            check(
                lib.lk_traj_pad(
                    ffi.cast("struct lk_traj_array *", packed.ctypes.data),
                    len(self),
                    1,
                    field.row_size,
                    length,
                    ffi.from_buffer(item),
                    field.dtype.itemsize,
                    ffi.cast("void *", target.ctypes.data),
                ),
                f"field {name!r}",
            )
        return target

    def mask(self, name: str, *, length: int | None = None) -> npt.NDArray[np.bool_]:
        """Return where :meth:`padded` has data of a record, and not padding."""
        lengths = self.lengths(name)
        longest = int(lengths.max()) if len(lengths) else 0
        return np.arange(longest if length is None else length) < lengths[:, None]

    def release(self) -> None:
        """Release all its records."""
        for record in self._records:
            record.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<TrajectoryBatch of {len(self)} records>"

    def _field(self, name: str) -> TrajectoryField:
        if name not in self._schema.fields:
            raise KeyError(f"{name!r}; a record here has {self._schema}")
        return self._schema.fields[name]


def _padding(name: str, field: TrajectoryField, pad: Any) -> npt.NDArray[Any]:
    """Return what rows are filled with, if the field can hold it."""
    given = np.asarray(pad)
    if given.ndim != 0 or given.dtype.kind not in "biufc":
        raise TypeError(f"field {name!r}: pad is a number, not {pad!r}")
    with np.errstate(all="ignore"):
        item = given.astype(field.dtype)
    if field.dtype.kind in "iub" and item != given:
        raise ValueError(f"field {name!r}: {pad!r} does not fit into {field.dtype}")
    return item


def _target(
    name: str, field: TrajectoryField, shape: tuple[int, ...], out: Any
) -> npt.NDArray[Any]:
    """Return the array to write into: a new one, or the caller's after a look at it."""
    if out is None:
        return np.empty(shape, field.dtype)
    array = out if isinstance(out, np.ndarray) else np.asarray(out)
    if not isinstance(out, np.ndarray) and not _shares_memory(out, array):
        raise TypeError(f"out is a numpy array or a tensor in CPU memory, not {type(out).__name__}")
    if array.dtype != field.dtype:
        raise TypeError(f"field {name!r} has dtype {field.dtype}, but out has {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"field {name!r} becomes an array of shape {shape}, not {array.shape}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError("out must be C-contiguous and writable")
    return array


def _shares_memory(out: Any, array: npt.NDArray[Any]) -> bool:
    """Whether the array is a view of the tensor, and not a copy that nobody would see."""
    pointer = getattr(out, "data_ptr", None)
    return pointer is not None and pointer() == array.ctypes.data
