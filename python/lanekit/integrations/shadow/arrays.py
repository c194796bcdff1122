"""Arrays as bytes, with their type and shape: what most states are made of."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

_HEAD = struct.Struct("<cBB")  # type, dimensions, 1 if there is an array at all
_SIDE = struct.Struct("<I")


def pack(arrays: Iterable[Any]) -> bytes:
    """Return arrays (or what numpy can make one of; None stays None) as bytes."""
    parts: list[bytes] = []
    for value in arrays:
        if value is None:
            parts.append(_HEAD.pack(b"d", 0, 0))
            continue
        array = np.asarray(value)
        parts.append(_HEAD.pack(array.dtype.char.encode(), array.ndim, 1))
        parts.extend(_SIDE.pack(side) for side in array.shape)
        parts.append(array.tobytes())
    return b"".join(parts)


def unpack(data: bytes) -> list[npt.NDArray[Any] | None]:
    """Return the arrays again, read-only."""
    arrays: list[npt.NDArray[Any] | None] = []
    at = 0
    while at < len(data):
        kind, dimensions, present = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if not present:
            arrays.append(None)
            continue
        shape = tuple(_SIDE.unpack_from(data, at + 4 * i)[0] for i in range(dimensions))
        at += 4 * dimensions
        dtype = np.dtype(kind.decode())
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(np.frombuffer(data, dtype, count, at).reshape(shape))
        at += count * dtype.itemsize
    return arrays
