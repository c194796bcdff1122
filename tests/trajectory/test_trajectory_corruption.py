"""Trajectory lanes whose schema or records somebody else has overwritten: refused, never followed.

The core takes as many arrays as the schema has fields, and of each row as many bytes as its items
have: what Python makes of the same schema must agree with that, or the core would reach outside of
the arrays that it is given. Impossible positions and sizes are in ``csrc/tests/test_traj.c``.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

import numpy as np
import pytest

import lanekit
from lanekit import TrajectoryReader, TrajectoryWriter, segment_name
from lanekit.segments import segment_path
from lanekit.trajectory.statistics import inspect_trajectory_lane
from patience import patience

SCHEMA = {"tokens": "int32[:]", "score": "float32"}
_FIELD = 128  # bytes of one field in the schema, which begins behind the header
_NAME, _DTYPE, _ITEM_SIZE, _DIMENSIONS = 0, 64, 72, 80


def overwrite(lane: str, at: int, content: bytes) -> None:
    fd = os.open(segment_path(segment_name("traj", lane)), os.O_RDWR)
    os.pwrite(fd, content, at)
    os.close(fd)


def field(number: int, part: int) -> int:
    return 4096 + number * _FIELD + part


def alike_names(lane: str) -> None:
    """Two names, both no UTF-8: told apart by the core, and alike once they are decoded."""
    overwrite(lane, field(0, _NAME), b"\xff".ljust(64, b"\0"))
    overwrite(lane, field(1, _NAME), b"\xfe".ljust(64, b"\0"))


def larger_items(lane: str) -> None:
    """Items of 16 bytes, says one field; numbers of 4 bytes, says another."""
    overwrite(lane, field(0, _ITEM_SIZE), struct.pack("<I", 16))


def no_number(lane: str) -> None:
    overwrite(lane, field(1, _DTYPE), b"(9,)f4\0\0")


def six_dimensions(lane: str) -> None:
    overwrite(lane, field(1, _DIMENSIONS), struct.pack("<I", 6))


def no_end_of_name(lane: str) -> None:
    overwrite(lane, field(0, _NAME), b"x" * 64)


DAMAGES = [alike_names, larger_items, no_number, six_dimensions, no_end_of_name]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_schema_that_the_two_ends_would_read_differently_is_refused(
    lane: str, damage: Callable[[str], None]
) -> None:
    with TrajectoryReader.create(lane, SCHEMA):
        damage(lane)
        with pytest.raises(lanekit.BadSegmentGeometry, match=lane):
            TrajectoryWriter.attach(lane)
        with pytest.raises((lanekit.BadSegmentGeometry, lanekit.SegmentCorrupt), match="segment"):
            inspect_trajectory_lane(lane)


def test_a_refused_producer_leaves_its_ring_to_the_next(lane: str) -> None:
    with TrajectoryReader.create(lane, SCHEMA, producers=1):
        good = segment_path(segment_name("traj", lane)).read_bytes()[4096 : 4096 + 2 * _FIELD]
        for _ in range(3):
            larger_items(lane)
            with pytest.raises(lanekit.BadSegmentGeometry):
                TrajectoryWriter.attach(lane)
        overwrite(lane, 4096, good)
        with TrajectoryWriter.attach(lane) as writer:
            assert writer.put({"tokens": np.arange(3, dtype=np.int32), "score": 1.0}) == 1


@pytest.mark.parametrize("content", [b"j{no JSON", b"j\xff\xfe", b"j" + b"[" * 30_000])
def test_metadata_that_is_no_json_is_refused_and_the_next_record_comes(
    lane: str, content: bytes
) -> None:
    with TrajectoryReader.create(lane, SCHEMA) as reader, TrajectoryWriter.attach(lane) as writer:
        arrays = {"tokens": np.arange(3, dtype=np.int32), "score": np.float32(1)}
        writer.put(arrays, b"m" * (len(content) - 1))
        writer.put(arrays, {"fine": 1})
        path = segment_path(segment_name("traj", lane))
        overwrite(lane, path.read_bytes().index(b"b" + b"m" * (len(content) - 1)), content)
        with reader.get(patience()) as spoilt:  # type: ignore[union-attr]
            with pytest.raises(lanekit.SegmentCorrupt, match="JSON"):
                _ = spoilt.meta
            assert spoilt["tokens"].tolist() == [0, 1, 2]
        with reader.get(patience()) as fine:  # type: ignore[union-attr]
            assert fine.meta == {"fine": 1}
