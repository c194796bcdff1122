"""Records whose every value follows from who puts them and their number."""

from __future__ import annotations

from typing import Any

import numpy as np

from lanekit import TrajectoryRecord

SCHEMA = {
    "tokens": "int32[:]",
    "masks": "int32[:]",
    "logprobs": "float32[:]",
    "score": "float64",
    "picture": "uint8[:,3,2]?",
}
_COUNT = np.arange(4096, dtype=np.int32)


def length_of(who: int, number: int) -> int:
    return (who * 7 + number * 13) % 257


def arrays_of(who: int, number: int) -> dict[str, Any]:
    length = length_of(who, number)
    tokens = _COUNT[:length] + np.int32(who * 7919 + number * 31)
    arrays: dict[str, Any] = {
        "tokens": tokens,
        "masks": tokens ^ np.int32(0x55AA),
        "logprobs": (tokens % 1000).astype(np.float32),
        "score": np.array(who * 1e6 + number),
    }
    if number % 3 == 0:
        arrays["picture"] = np.full((number % 5, 3, 2), number % 251, np.uint8)
    return arrays


def meta_of(who: int, number: int) -> bytes:
    return f"{who}:{number}".encode()


def check_record(record: TrajectoryRecord) -> tuple[int, int]:
    """Compare all of a record with what it must be; return who put it and its number."""
    who, number = (int(text) for text in record.meta.split(b":"))
    expected = arrays_of(who, number)
    assert set(record) == set(expected)
    for name, array in expected.items():
        found = record[name]
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert found.tobytes() == array.tobytes(), (who, number, name)
    assert record.number == number
    return who, number
