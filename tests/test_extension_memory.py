"""The calls that C answers keep nothing: thousands of them leave as many objects as before."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lanekit import (
    FastLaneConfig,
    FastLaneMetrics,
    FastLaneReader,
    FastLaneWriter,
    TrajectoryReader,
    TrajectoryWriter,
)
from patience import patience

TIMES = 1500
CONFIG = FastLaneConfig(width=8, height=6, capacity=4, metadata_size=64)
SCHEMA = {"tokens": "int32[:]", "score": "float64", "picture": "uint8[:,2]?"}


def left_behind(call: Callable[[int], object]) -> int:
    """Return how many more blocks of memory there are after many calls, each with new objects."""
    for number in range(200):  # what is kept once, such as a cache, is filled
        call(number)
    gc.collect()
    before = sys.getallocatedblocks()
    for number in range(1000, 1000 + TIMES):
        call(number)
    gc.collect()
    return sys.getallocatedblocks() - before


def frame(number: int) -> Any:
    return np.full((6, 8, 3), number % 251, np.uint8)


@pytest.fixture
def ends(run_id: str) -> Iterator[tuple[FastLaneWriter, FastLaneReader]]:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        yield writer, reader


class Halfway:
    """Metrics of which only the first can be had."""

    def __init__(self, number: int) -> None:
        self.last_reward = number + 0.5
        self.rolling_return = f"none of {number}"


def metrics_of(number: int) -> FastLaneMetrics:
    return FastLaneMetrics(number + 0.25, number + 0.5, number + 0.75)


def refused(call: Callable[[], object]) -> None:
    with contextlib.suppress(TypeError, ValueError, AttributeError):
        call()
        raise AssertionError("it was not refused")


@pytest.mark.parametrize(
    "publish",
    [
        lambda writer, n: writer.publish(frame(n)),
        lambda writer, n: writer.publish(frame(n), metrics=metrics_of(n)),
        lambda writer, n: writer.publish(frame(n), metadata=b"%d" % n),
        lambda writer, n: writer.publish(frame(n), metadata=None, metrics=None),
        lambda writer, n: writer.publish(frame=frame(n), metrics=metrics_of(n)),
        lambda writer, n: refused(lambda: writer.publish(frame(n), metrics=Halfway(n))),
        lambda writer, n: refused(lambda: writer.publish(frame(n), metadata=bytes(1000 + n))),
        lambda writer, n: refused(lambda: writer.publish(frame(n), **{f"no{n}": n})),
        lambda writer, n: refused(lambda: writer.publish([n, n])),
        lambda writer, n: refused(lambda: writer.publish(frame(n)[:1])),
    ],
)
def test_publishing_keeps_nothing(
    ends: tuple[FastLaneWriter, FastLaneReader], publish: Callable[[FastLaneWriter, int], object]
) -> None:
    assert left_behind(lambda number: publish(ends[0], number)) < TIMES / 4


@pytest.mark.parametrize(
    "read",
    [
        lambda reader, n: reader.read_into(frame(n)),
        lambda reader, n: reader.latest_frame(),
        lambda reader, n: reader.next_frame(),
        lambda reader, n: (reader.read_into(frame(n)), reader.last_frame_info),
        lambda reader, n: reader.wait(0),
        lambda reader, n: refused(lambda: reader.read_into(frame(n)[:1])),
        lambda reader, n: refused(lambda: reader.read_into(bytearray(n))),
        lambda reader, n: refused(lambda: reader.latest_frame(**{f"no{n}": n})),
    ],
)
def test_reading_keeps_nothing(
    ends: tuple[FastLaneWriter, FastLaneReader], read: Callable[[FastLaneReader, int], object]
) -> None:
    writer, reader = ends

    def call(number: int) -> None:
        writer.publish(frame(number), metadata=b"%d" % number, metrics=metrics_of(number))
        read(reader, number)

    assert left_behind(call) < TIMES / 4


def record_of(number: int) -> dict[str, Any]:
    record = {"tokens": np.arange(number % 7, dtype=np.int32), "score": np.float64(number)}
    if number % 2:
        record["picture"] = np.full((3, 2), number % 251, np.uint8)
    return record


@pytest.mark.parametrize(
    "take",
    [
        lambda reader: reader.get(patience()).release(),
        lambda reader: reader.get(patience()).copy(),  # released when nobody has it any more
        lambda reader: (lambda r: [r[name] for name in ("tokens", "score")])(
            reader.get(patience())
        ),
        lambda reader: (lambda r: (r.meta, r.session, r.number, r.producer, r.released))(
            reader.get(patience())
        ),
        lambda reader: reader.get_batch(1, timeout=patience()).release(),
        lambda reader: reader.get_batch(1, timeout=patience()).padded("tokens"),
    ],
)
def test_records_leave_nothing_behind(
    run_id: str, take: Callable[[TrajectoryReader], object]
) -> None:
    with (
        TrajectoryReader.create(run_id, SCHEMA, producers=1, ring_bytes=65536) as reader,
        TrajectoryWriter.attach(run_id) as writer,
    ):

        def call(number: int) -> None:
            writer.put(record_of(number), {"number": number})
            take(reader)

        assert left_behind(call) < TIMES / 4


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record, n: record.update(tokens=[f"no{n}"]),
        lambda record, n: record.update({f"no{n}": n}),
        lambda record, n: record.pop("score"),
        lambda record, n: record.update(tokens=np.zeros((n % 3 + 1, 2), np.float16)),
        lambda record, n: record.update(score=object()),
    ],
)
def test_a_refused_record_leaves_nothing_behind(
    run_id: str, spoil: Callable[[dict[str, Any], int], object]
) -> None:
    with (
        TrajectoryReader.create(run_id, SCHEMA, producers=1, ring_bytes=65536),
        TrajectoryWriter.attach(run_id) as writer,
    ):

        def call(number: int) -> None:
            record = record_of(number)
            spoil(record, number)
            refused(lambda: writer.put(record))

        assert left_behind(call) < TIMES / 4
