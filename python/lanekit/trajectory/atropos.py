"""Atropos' scored-data groups as records of a trajectory lane, without loss.

A group is what an Atropos environment posts: `tokens`, `masks` and `scores` of several sequences,
often `advantages` and log-probabilities, and whatever else the environment says about them
(messages, overrides, images, task ids, thinking traces, process rewards, ...). The numbers travel
as arrays, flat, with the sequences' lengths beside them; everything else travels as JSON. Numbers
that an array would change (an integer beyond 32 bits, a list with gaps) stay in the JSON, so that
:meth:`ScoredGroup.to_dict` gives back a group that equals the one that was encoded.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lanekit import errors
from lanekit.trajectory.metadata import check_nesting, read_json
from lanekit.trajectory.record import TrajectoryRecord
from lanekit.trajectory.schema import TrajectorySchema

# Sequences of numbers, one per member of the group.
_INTEGERS = ("tokens", "masks")
_FLOATS = ("advantages", "ref_logprobs", "inference_logprobs")
# The lengths of sequences that are not as long as those that `lengths` is about.
_OTHER_LENGTHS = "\0lengths"
_BYTES, _ARRAY = "\0bytes", "\0array"

ATROPOS_SCHEMA = TrajectorySchema.of(
    {
        "lengths": "int32[:]?",
        **{name: "int32[:]?" for name in _INTEGERS},
        "scores": "float64[:]?",
        # Most log-probabilities were computed in 32 bits, and fit; those that do not are wide.
        **{name: "float32[:]?" for name in _FLOATS},
        **{f"{name}_wide": "float64[:]?" for name in _FLOATS},
        "env_id": "int64?",
    },
    version=1,
)


class ScoredGroup:
    """One group, as views of its record until :meth:`detach`, or as arrays of its own."""

    __slots__ = ("_arrays", "_lengths", "_record", "_rest")

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], rest: bytes) -> None:
        self._record = arrays if isinstance(arrays, TrajectoryRecord) else None
        self._arrays: Mapping[str, npt.NDArray[Any]] = arrays
        self._rest = _read_rest(rest)
        self._lengths = arrays["lengths"].tolist() if "lengths" in arrays else []

    @classmethod
    def of(cls, record: TrajectoryRecord) -> ScoredGroup:
        """Look at a record as a group."""
        return cls(record, record.meta or b"")

    @property
    def size(self) -> int:
        """How many sequences it has."""
        if self._lengths:
            return len(self._lengths)
        tokens = self._rest.get("tokens")
        return len(tokens) if isinstance(tokens, Sequence) else 0

    @property
    def env_id(self) -> int | None:
        """The environment that made it, None if it does not say."""
        if "env_id" in self._arrays:
            return int(self._arrays["env_id"])
        found = self._rest.get("env_id")
        return found if isinstance(found, int) else None

    @property
    def scores(self) -> Any:
        """One score per sequence."""
        return self._arrays["scores"] if "scores" in self._arrays else self._rest.get("scores")

    def sequences(self, name: str) -> list[Any] | None:
        """Return a field with a sequence per member, as views where it travelled as an array."""
        for stored in (name, f"{name}_wide"):
            if stored in self._arrays and name in (*_INTEGERS, *_FLOATS):
                lengths = self._rest.get(_OTHER_LENGTHS, {}).get(name, self._lengths)
                ends = list(itertools.accumulate(lengths, initial=0))
                flat = self._arrays[stored]
                return [flat[a:b] for a, b in itertools.pairwise(ends)]
        found = self._rest.get(name)
        return found if found is None or isinstance(found, list) else list(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the group as Atropos' API would: plain lists and numbers."""
        group = {key: value for key, value in self._rest.items() if key != _OTHER_LENGTHS}
        for name in (*_INTEGERS, *_FLOATS):
            if name in self._arrays or f"{name}_wide" in self._arrays:
                group[name] = [row.tolist() for row in self.sequences(name) or []]
        if "scores" in self._arrays:
            group["scores"] = self._arrays["scores"].tolist()
        if "env_id" in self._arrays:
            group["env_id"] = int(self._arrays["env_id"])
        return group

    def detach(self) -> None:
        """Copy what is still in the lane, and give its room back."""
        if self._record is not None:
            self._arrays = self._record.copy()
            self.release()

    def release(self) -> None:
        """Give the room in the lane back; the group must not be looked at any more."""
        if self._record is not None:
            self._record.release()
            self._record = None


def encode_group(group: Mapping[str, Any]) -> tuple[dict[str, npt.NDArray[Any]], bytes]:
    """Return a group as what :meth:`TrajectoryWriter.put` wants: arrays and metadata."""
    if not isinstance(group, Mapping):
        raise TypeError(f"a scored-data group is a mapping, not {type(group).__name__}")
    arrays: dict[str, npt.NDArray[Any]] = {}
    rest = dict(group)
    lengths: list[int] | None = None
    others: dict[str, list[int]] = {}
    for name in (*_INTEGERS, *_FLOATS):
        flat, own = _flatten(rest.get(name), integers=name in _INTEGERS)
        if flat is None:
            continue
        del rest[name]
        arrays[f"{name}_wide" if flat.dtype == np.float64 else name] = flat
        if lengths is None:
            lengths = own
        elif own != lengths:
            others[name] = own
    if lengths is not None:
        arrays["lengths"] = np.array(lengths, np.int32)
    scores = _one_dimension(rest.get("scores"))
    if scores is not None:
        arrays["scores"] = scores
        del rest["scores"]
    if type(rest.get("env_id")) is int and -(2**63) <= rest["env_id"] < 2**63:
        arrays["env_id"] = np.array(rest.pop("env_id"), np.int64)
    if others:
        rest[_OTHER_LENGTHS] = others
    try:
        text = json.dumps(rest, default=_wrap, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("a scored-data group is not nested as deeply as this one") from None
    content = text.encode("utf-8", "surrogatepass")
    check_nesting(content)
    return arrays, content


def decode_group(record: TrajectoryRecord) -> dict[str, Any]:
    """Return the group that a record carries, as plain lists and numbers."""
    return ScoredGroup.of(record).to_dict()


# --- numbers --------------------------------------------------------------------------------------


def _flatten(rows: Any, *, integers: bool) -> tuple[npt.NDArray[Any] | None, list[int]]:
    """Return sequences as one flat array and their lengths; None if that would change them."""
    if isinstance(rows, np.ndarray):
        rows = list(rows)
    if not isinstance(rows, list | tuple):
        return None, []
    if rows and all(isinstance(row, np.ndarray) and row.ndim == 1 for row in rows):
        flat = np.concatenate(rows)
        lengths = [row.shape[0] for row in rows]
    else:
        if not all(isinstance(row, list | tuple) for row in rows):
            return None, []
        lengths = [len(row) for row in rows]
        values = list(itertools.chain.from_iterable(rows))
        allowed: set[type] = {int} if integers else {int, float}
        if not set(map(type, values)) <= allowed:
            return None, []
        try:
            flat = np.array(values, np.int64 if integers else np.float64)
            if not integers and any(float(v) != v for v in values if type(v) is int):
                return None, []
        except OverflowError:
            return None, []
    return _narrow(flat, integers=integers), lengths


def _narrow(flat: npt.NDArray[Any], *, integers: bool) -> npt.NDArray[Any] | None:
    """Return the numbers in the lane's dtype: 32 bits where nothing is lost."""
    if integers:
        if flat.dtype.kind not in "iu" or (flat.size and not _fits_int32(flat)):
            return None
        return flat.astype(np.int32)
    if flat.dtype == np.float32:
        return flat
    if flat.dtype.kind not in "iuf" or flat.dtype.itemsize > 8:
        return None
    with np.errstate(over="ignore"):
        narrow = flat.astype(np.float32)
    if np.array_equal(narrow.astype(np.float64), flat, equal_nan=flat.dtype.kind == "f"):
        return narrow
    return flat.astype(np.float64)


def _fits_int32(flat: npt.NDArray[Any]) -> bool:
    return bool(flat.min() >= -(2**31) and flat.max() < 2**31)


def _one_dimension(values: Any) -> npt.NDArray[np.float64] | None:
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if not isinstance(values, list | tuple) or not set(map(type, values)) <= {int, float}:
        return None
    if any(type(v) is int and abs(v) > 2**53 for v in values):
        return None
    return np.array(values, np.float64)


# --- everything else ------------------------------------------------------------------------------


def _wrap(value: Any) -> Any:
    """Say in JSON what JSON does not know: bytes, arrays, numpy's numbers."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {_BYTES: base64.b64encode(bytes(value)).decode("ascii")}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
        return {_ARRAY: [value.dtype.str, list(value.shape), content]}
    raise TypeError(
        f"a scored-data group holds numbers, text, bytes, arrays, lists and mappings, not "
        f"{type(value).__name__}"
    )


def _read_rest(rest: Any) -> dict[str, Any]:
    """Read what travelled as JSON; SegmentCorrupt for what no group can have become."""
    if not rest:
        return {}
    try:
        if not isinstance(rest, bytes):
            raise ValueError(f"it is {type(rest).__name__} and not bytes")
        found = read_json(rest, object_hook=_revive)
        if not isinstance(found, dict):
            raise ValueError(f"it is a {type(found).__name__} and not an object")
        lengths = found.get(_OTHER_LENGTHS, {})
        if not isinstance(lengths, dict) or not all(
            isinstance(each, list) and set(map(type, each)) <= {int} for each in lengths.values()
        ):
            raise ValueError("the lengths of its sequences are no whole numbers")
    except (ValueError, TypeError) as error:  # TypeError: numpy's, for a dtype that is none
        raise errors.SegmentCorrupt(
            f"a record holds no scored-data group: its metadata can not be read ({error}). Put "
            "groups with ScoredDataSender, or with encode_group"
        ) from None
    return found


def _revive(value: dict[str, Any]) -> Any:
    if len(value) == 1:
        if _BYTES in value:
            return base64.b64decode(value[_BYTES])
        if _ARRAY in value:
            dtype, shape, content = value[_ARRAY]
            return np.frombuffer(base64.b64decode(content), dtype).reshape(shape).copy()
    return value
