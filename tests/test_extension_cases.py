"""Which calls C answers by itself: the plain ones all, and nothing that Python would refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from lanekit import (
    FastLaneConfig,
    FastLaneFrame,
    FastLaneMetrics,
    FastLaneReader,
    FastLaneWriter,
    TrajectoryReader,
    TrajectoryWriter,
)
from patience import patience

CONFIG = FastLaneConfig(width=8, height=6, capacity=4, metadata_size=16)
FRAME = np.zeros((6, 8, 3), np.uint8)
METRICS = FastLaneMetrics(1.5, -1.0, 3.5)
SCHEMA = {
    "tokens": "int32[:]",
    "score": "float64",
    "grid": "uint8[:,3,2]?",
    "pair": "float32[2,3]",
    "probs": "float32[:]",
}


class PlainWriter(FastLaneWriter):
    """A writer whose way through Python is closed."""

    def _publish_other(self, *arguments: Any, **named: Any) -> int:
        raise AssertionError(f"left C: {named}")


class PlainReader(FastLaneReader):
    """A reader whose way through Python is closed."""

    def _latest_frame_other(self, *, fresh: bool = False) -> FastLaneFrame | None:
        raise AssertionError("left C")

    def _read_into_other(self, out: Any, *, fresh: bool = False) -> int:
        raise AssertionError("left C")


class PlainProducer(TrajectoryWriter):
    """A writer of records whose way through Python is closed."""

    def _fill(self, arrays: Mapping[str, Any]) -> list[Any]:
        raise AssertionError(f"left C: {arrays}")


def test_plain_frames_are_published_and_read_in_c(run_id: str) -> None:
    out = np.empty_like(FRAME)
    with PlainWriter.create(run_id, CONFIG) as writer, PlainReader.attach(run_id) as reader:
        for number in range(1, 40, 6):
            assert writer.publish(FRAME) == number
            assert writer.publish(FRAME, metadata=b"") == number + 1
            assert writer.publish(FRAME, metadata=b"x" * 16) == number + 2
            assert writer.publish(FRAME, metrics=METRICS) == number + 3
            assert writer.publish(FRAME, metrics=None, metadata=None) == number + 4
            assert writer.publish(FRAME, metrics=METRICS, metadata=b"12") == number + 5
            assert reader.read_into(out) == number + 5
            frame = reader.latest_frame()
            assert frame is not None
            assert (frame.metadata, frame.metrics) == (b"12", METRICS)


@pytest.mark.parametrize("metadata", [None, b"", b"1", b"12", b"x" * 16])
def test_what_was_read_last_is_known_with_its_metadata(run_id: str, metadata: bytes | None) -> None:
    out = np.empty_like(FRAME)
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        for read in (lambda: reader.read_into(out), reader.latest_frame):
            writer.publish(FRAME, metadata=b"between")
            assert reader.latest_frame() is not None
            seq = writer.publish(FRAME, metadata=metadata, metrics=METRICS)
            assert read()
            info = reader.last_frame_info
            assert info is not None
            assert (info.seq, info.metadata, info.metrics) == (seq, metadata, METRICS)


@pytest.mark.parametrize("named", [{"meta": b"x"}, {"Metadata": b"x"}, {"metric": METRICS}])
def test_an_argument_of_another_name_is_refused_whatever_its_kind(
    run_id: str, named: dict[str, Any]
) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        with pytest.raises(TypeError, match=next(iter(named))):
            writer.publish(FRAME, **named)
        assert writer.publish(FRAME) == 1


def plain_record(**other: Any) -> dict[str, Any]:
    record = {
        "tokens": np.arange(5, dtype=np.int32),
        "score": 2.5,
        "grid": np.ones((4, 3, 2), np.uint8),
        "pair": np.ones((2, 3), np.float32),
        "probs": np.ones(4, np.float32),
    }
    return {**record, **other}


def test_plain_records_are_put_in_c(run_id: str) -> None:
    large = np.arange(50_000, dtype=np.int32)  # while it is copied, others run
    with (
        TrajectoryReader.create(run_id, SCHEMA, producers=1, ring_bytes=1 << 20) as reader,
        PlainProducer.attach(run_id) as writer,
    ):
        for record in (
            plain_record(),
            plain_record(score=np.array(2.5)),
            plain_record(grid=None),
            plain_record(tokens=large),
            plain_record(tokens=np.zeros(0, np.int32)),
        ):
            assert writer.put(record, b"meta", timeout=0) > 0
            taken = reader.get(patience())
            assert taken is not None
            assert np.array_equal(taken["tokens"], record["tokens"])
            assert taken["score"] == 2.5
            assert taken.meta == b"meta"
            taken.release()


@pytest.mark.parametrize(
    "change",
    [
        {"pair": np.ones((1, 3), np.float32)},
        {"pair": np.ones((3, 3), np.float32)},
        {"pair": np.ones((2, 2), np.float32)},
        {"pair": np.ones((1, 2, 3), np.float32)},
        {"pair": 1.5},
        {"grid": np.ones((4, 2, 2), np.uint8)},
        {"grid": np.ones((4, 3, 1), np.uint8)},
        {"grid": np.ones((3, 2), np.uint8)},
        {"tokens": 1.5},
        {"probs": 1.5},
        {"tokens": np.ones((2, 2), np.int32)},
        {"score": np.ones(1)},
        {"other": 1.5},
    ],
)
def test_a_record_of_another_shape_is_refused(run_id: str, change: dict[str, Any]) -> None:
    with (
        TrajectoryReader.create(run_id, SCHEMA, producers=1, ring_bytes=65536) as reader,
        TrajectoryWriter.attach(run_id) as writer,
    ):
        with pytest.raises((TypeError, ValueError), match=next(iter(change))):
            writer.put(plain_record(**change))
        assert reader.try_get() is None


def test_a_record_has_its_fields_and_no_others(run_id: str) -> None:
    with (
        TrajectoryReader.create(run_id, SCHEMA, producers=1, ring_bytes=65536) as reader,
        TrajectoryWriter.attach(run_id) as writer,
    ):
        writer.put(plain_record(grid=None))
        taken = reader.get(patience())
        assert taken is not None
        for name in ("other", "grid"):
            with pytest.raises(KeyError, match=name):
                taken[name]
        with pytest.raises(TypeError, match="unhashable"):
            taken[["tokens"]]  # type: ignore[index]


@pytest.mark.parametrize("order", [np.asfortranarray, lambda a: np.repeat(a, 2, axis=-1)[..., ::2]])
def test_arrays_of_another_order_in_memory_arrive_as_they_are(
    run_id: str, order: Callable[[Any], Any]
) -> None:
    pair = order(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert not pair.flags.c_contiguous
    with (
        TrajectoryReader.create(run_id, SCHEMA, producers=1, ring_bytes=65536) as reader,
        TrajectoryWriter.attach(run_id) as writer,
    ):
        writer.put(plain_record(pair=pair))
        taken = reader.get(patience())
        assert taken is not None
        assert np.array_equal(taken["pair"], pair)
