"""Records: what is put is what comes out, views are safe, schemas are kept."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from numbered_records import SCHEMA, arrays_of, check_record, meta_of

import lanekit
from lanekit import TrajectoryField, TrajectoryReader, TrajectorySchema, TrajectoryWriter
from patience import patience

SMALL = {"tokens": "int32[:]", "score": "float32"}


def put_numbered(writer: TrajectoryWriter, who: int, numbers: range) -> None:
    for number in numbers:
        assert writer.put(arrays_of(who, number), meta_of(who, number)) == number


# --- round trips ----------------------------------------------------------------------------------


def test_records_come_back_as_they_were_put(lane: str) -> None:
    with TrajectoryReader.create(lane, SCHEMA, ring_bytes=65536) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            for start in range(1, 2000, 20):
                put_numbered(writer, 5, range(start, start + 20))
                for number in range(start, start + 20):
                    record = reader.get(timeout=patience())
                    assert record is not None
                    assert check_record(record) == (5, number)
                    record.release()
        assert reader.try_get() is None


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3)])
def test_every_dtype_and_shape_makes_the_round_trip(
    lane: str, dtype: str, shape: tuple[int, ...]
) -> None:
    fields = {
        "fixed": TrajectoryField(np.dtype(dtype), shape),
        "ragged": TrajectoryField(np.dtype(dtype), shape, ragged=True),
    }
    rng = np.random.default_rng(1)
    fixed = rng.integers(0, 2, shape).astype(dtype)
    ragged = rng.integers(0, 2, (7, *shape)).astype(dtype)
    with (
        TrajectoryReader.create(lane, fields, producers=1, ring_bytes=8192) as reader,
        TrajectoryWriter.attach(lane, schema=fields) as writer,
    ):
        writer.put({"fixed": fixed, "ragged": ragged})
        record = reader.get(timeout=patience())
        assert record is not None
        for name, array in (("fixed", fixed), ("ragged", ragged)):
            assert record[name].dtype == array.dtype
            assert record[name].shape == array.shape
            assert record[name].tobytes() == array.tobytes()
            assert not record[name].flags.writeable


@pytest.mark.parametrize(
    "meta",
    [
        None,
        b"",
        b"\0raw\xff",
        {},
        {"env": 3, "text": "ä\n", "nested": [1, 2.5, None]},
        "text",
        0,
        [1, 2],
    ],
)
def test_metadata_comes_back_as_what_it_was(lane: str, meta: Any) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=1) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            writer.put({"tokens": [1], "score": 1.0}, meta)
            record = reader.get(timeout=patience())
            assert record is not None
            assert record.meta == meta
            assert type(record.meta) is type(meta)


def test_arrays_with_gaps_lists_and_numbers_are_taken(lane: str) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=1) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            writer.put({"tokens": np.arange(20, dtype=np.int32)[::2], "score": 1})
            writer.put({"tokens": [], "score": np.float32(2.5)})
            writer.put({"tokens": (7, 8), "score": np.array(3, np.float32)})
            first, second, third = reader.get_batch(3, timeout=patience())
            assert first["tokens"].tolist() == list(range(0, 20, 2))
            assert second["tokens"].shape == (0,)
            assert second["tokens"].dtype == np.int32
            assert float(second["score"]) == 2.5
            assert third["tokens"].tolist() == [7, 8]


def test_optional_fields_may_be_left_out(lane: str) -> None:
    schema = {"tokens": "int32[:]", "reward": "float64?", "extra": "uint8[:]?"}
    with TrajectoryReader.create(lane, schema, producers=1) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            writer.put({"tokens": [1]})
            writer.put({"tokens": [2], "reward": 2.0, "extra": None})
            first, second = reader.get_batch(2, timeout=patience())
            assert (list(first), list(second)) == (["tokens"], ["tokens", "reward"])
            assert "extra" not in second
            assert len(second) == 2
            assert second.get("extra") is None
            with pytest.raises(KeyError):
                first["reward"]


def test_a_record_can_be_filled_in_place(lane: str) -> None:
    with TrajectoryReader.create(lane, SCHEMA, producers=1, ring_bytes=65536) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            for number in range(1, 200):
                arrays = arrays_of(3, number)
                shapes = {name: a.shape for name, a in arrays.items() if name != "score"}
                place = writer.reserve(shapes, meta_room=40)
                assert place is not None
                for name, array in arrays.items():
                    place[name][...] = array
                kept = place["tokens"]
                assert place.commit(meta_of(3, number)) == number
                assert not kept.flags.writeable
                record = reader.get(timeout=patience())
                assert record is not None
                assert check_record(record) == (3, number)


def test_an_error_while_filling_puts_nothing(lane: str) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=1) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            with pytest.raises(ZeroDivisionError):
                with writer.reserve({"tokens": 4}) as place:  # type: ignore[union-attr]
                    place["tokens"][:] = 1 // 0
            assert reader.try_get() is None
            dropped = writer.reserve({"tokens": 4})
            with pytest.raises(ValueError, match="still open"):
                writer.put({"tokens": [1], "score": 1.0})
            del dropped
            gc.collect()
            assert writer.put({"tokens": [1], "score": 1.0}) == 1
            with writer.reserve({"tokens": 2}, meta_room=1) as place:  # type: ignore[union-attr]
                with pytest.raises(ValueError, match="meta_room"):
                    place.commit(b"more than that")
            with pytest.raises(ValueError, match="ended already"):
                place.commit()
            assert len(reader.get_batch(2, timeout=patience())) == 2


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "error", "says"),
    [
        ({"tokens": [1]}, ValueError, "missing field 'score'"),
        ({"tokens": [1], "score": 1.0, "x": 1}, ValueError, "unknown field 'x'"),
        ({"tokens": np.zeros(3), "score": 1.0}, TypeError, "int32, not float64"),
        ({"tokens": np.zeros((2, 2), np.int32), "score": 1.0}, ValueError, r"shape \(n\)"),
        ({"tokens": [1], "score": [1.0, 2.0]}, ValueError, r"shape \(\)"),
        ({"tokens": [1.5], "score": 1.0}, TypeError, "these are floats"),
        ({"tokens": [2**40], "score": 1.0}, ValueError, "does not fit"),
        ({"tokens": "text", "score": 1.0}, TypeError, "int32, not <U4"),
        ({"tokens": None, "score": 1.0}, ValueError, "missing field 'tokens'"),
        ({"tokens": range(100_000), "score": 1.0}, lanekit.TooLarge, "limit of 4032 bytes"),
    ],
)
def test_what_the_schema_does_not_say_is_refused_by_name(
    lane: str, arrays: dict[str, Any], error: type[Exception], says: str
) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=1, ring_bytes=8192) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            with pytest.raises(error, match=says):
                writer.put(arrays)
            assert writer.put({"tokens": [1], "score": 1.0}) == 1
            assert reader.get(timeout=patience()) is not None


def test_metadata_that_is_neither_bytes_nor_json_is_refused(lane: str) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=1):
        with TrajectoryWriter.attach(lane) as writer:
            with pytest.raises(TypeError, match="JSON"):
                writer.put({"tokens": [1], "score": 1.0}, object())
            with pytest.raises(lanekit.TooLarge):
                writer.put({"tokens": [1], "score": 1.0}, b"x" * (3 << 20))


@pytest.mark.parametrize(
    ("schema", "version", "says"),
    [
        ({"tokens": "int32[:]", "score": "float64"}, None, "score is float32 instead of float64"),
        ({"tokens": "int32[:]"}, None, "asked for: the field score in addition"),
        ({**SMALL, "more": "int8"}, None, "asked for: the field more missing"),
        ({"score": "float32", "tokens": "int32[:]"}, None, "order tokens, score"),
        (SMALL, 2, "version 0 instead of 2"),
    ],
)
def test_another_schema_is_refused_with_the_difference(
    lane: str, schema: dict[str, str], version: int | None, says: str
) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=1):
        with pytest.raises(lanekit.SchemaMismatch, match=says):
            TrajectoryWriter.attach(lane, schema=schema, version=version)


@pytest.mark.parametrize(
    "notation",
    ["", "int33", "int32[", "int32[:,:]", "int32[0]", "object", "U5", "int32[1,1,1,1,1,1]"],
)
def test_what_describes_no_field_is_refused(notation: str) -> None:
    with pytest.raises(ValueError, match=r"field|examples"):
        TrajectoryField.parse(notation)


def test_the_notation_says_what_it_reads() -> None:
    for text in ("int32[:]", "float32", "float64[3]", "uint8[:,64,64,3]?", "bool?"):
        assert str(TrajectoryField.parse(text)) == text
    schema = TrajectorySchema.of(SMALL, version=3)
    assert str(schema) == "tokens: int32[:], score: float32 (version 3)"
    assert schema.difference(TrajectorySchema.of(schema)) == ""
    with pytest.raises(ValueError, match="fields"):
        TrajectorySchema.of({})
    with pytest.raises(ValueError, match="bytes"):
        TrajectorySchema.of({"x" * 64: "int8"})
    with pytest.raises(TypeError, match="mapping"):
        TrajectorySchema.of(["tokens"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"producers": 0}, "producers"),
        ({"producers": 5000}, "producers"),
        ({"ring_bytes": 100}, "ring_bytes"),
        ({"ring_bytes": 4096, "record_bytes": 4096}, "record_bytes"),
    ],
)
def test_impossible_sizes_are_refused(lane: str, options: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TrajectoryReader.create(lane, SMALL, **options)  # type: ignore[arg-type]


def test_a_lane_that_does_not_fit_into_memory_says_what_is_missing(lane: str) -> None:
    with pytest.raises(lanekit.OutOfSharedMemory, match=r"has \S+ .iB free of \S+ .iB; lower prod"):
        TrajectoryReader.create(lane, SMALL, producers=1024, ring_bytes=1 << 33)


# --- views ----------------------------------------------------------------------------------------


def test_a_view_keeps_its_record_until_it_is_gone(lane: str) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=1, ring_bytes=4096) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            writer.put({"tokens": [41] * 300, "score": 1.0}, {"some": "metadata"})
            record = reader.get(timeout=patience())
            assert record is not None
            part = record["tokens"][::2].reshape(10, 15)
            record.release()
            with pytest.raises(lanekit.HandleClosed, match="released"):
                record["tokens"]
            with pytest.raises(lanekit.HandleClosed):
                record.meta  # noqa: B018
            # The ring can not take another round over memory that somebody looks at.
            puts = 0
            while writer.put({"tokens": [7] * 300, "score": 0.0}, timeout=0):
                puts += 1
                again = reader.get(timeout=patience())
                assert again is not None
                again.release()
                assert puts < 10
            assert (part == 41).all()
            del part
            assert writer.put({"tokens": [7] * 300, "score": 0.0}, timeout=0) > 0


def test_views_outlive_the_record_the_reader_and_the_lane(lane: str) -> None:
    reader = TrajectoryReader.create(lane, SMALL, producers=1)
    with TrajectoryWriter.attach(lane) as writer:
        writer.put({"tokens": np.arange(1000, dtype=np.int32), "score": 1.0})
        record = reader.get(timeout=patience())
        assert record is not None
        view, copy = record["tokens"], record.copy()
    reader.close()
    del reader, record
    gc.collect()
    assert view.tolist() == list(range(1000)) == copy["tokens"].tolist()


def test_a_record_that_is_forgotten_gives_its_room_back(lane: str) -> None:
    with TrajectoryReader.create(lane, SMALL, producers=1, ring_bytes=4096) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            for _ in range(50):
                assert writer.put({"tokens": [1] * 300, "score": 1.0}, timeout=patience())
                assert reader.get(timeout=patience()) is not None
            assert reader.stats().depth == 0


def test_iteration_releases_each_record_for_the_next(lane: str) -> None:
    with TrajectoryReader.create(lane, SCHEMA, producers=1, ring_bytes=16384) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            put_numbered(writer, 1, range(1, 3))
            for number, record in enumerate(reader, 1):
                assert check_record(record) == (1, number)
                if number == 100:
                    break
                put_numbered(writer, 1, range(number + 2, number + 3))


# --- what a record is, and is not -----------------------------------------------------------------


def test_a_record_may_be_released_by_one_thread_while_another_looks_at_it(lane: str) -> None:
    turn = threading.Barrier(2, timeout=patience())
    records: list[lanekit.TrajectoryRecord] = []
    seen: list[list[int] | None] = []

    def look() -> None:
        for number in range(300):
            turn.wait()
            try:
                seen.append(records[number]["tokens"].tolist())
            except lanekit.HandleClosed:
                seen.append(None)

    with TrajectoryReader.create(lane, SMALL, producers=1, ring_bytes=8192) as reader:
        with TrajectoryWriter.attach(lane) as writer:
            thread = threading.Thread(target=look)
            thread.start()
            for number in range(300):
                assert writer.put({"tokens": [number] * 50, "score": 0.0})
                record = reader.get(timeout=patience())
                assert record is not None
                records.append(record)
                turn.wait()
                record.release()
            thread.join()
            assert reader.stats().depth_bytes == 0  # every room was given back
    assert all(tokens in (None, [n] * 50) for n, tokens in enumerate(seen))
    assert len(seen) == 300


def test_a_record_comes_from_a_lane_and_from_nowhere_else() -> None:
    with pytest.raises(TypeError, match="cannot create"):
        lanekit.TrajectoryRecord()


@pytest.mark.parametrize("arrays", [None, "tokens", [1, 2]])
def test_a_record_is_a_mapping(lane: str, arrays: Any) -> None:
    with TrajectoryReader.create(lane, SMALL), TrajectoryWriter.attach(lane) as writer:
        with pytest.raises(TypeError, match="a record is a mapping from names to arrays"):
            writer.put(arrays)


@pytest.mark.parametrize(
    ("rows", "error", "says"),
    [
        (1.5, TypeError, "a number of rows or a shape is wanted, not 1.5"),
        ((), ValueError, "not of shape"),
        (-1, ValueError, "not of shape"),
        (2**64, ValueError, "not of shape"),
        (2**62, lanekit.TooLarge, "more than the lane's limit"),
    ],
)
def test_room_that_can_not_be_lent_is_refused(
    lane: str, rows: Any, error: type[Exception], says: str
) -> None:
    with TrajectoryReader.create(lane, SMALL), TrajectoryWriter.attach(lane) as writer:
        with pytest.raises(error, match=says):
            writer.reserve({"tokens": rows})
        assert writer.put({"tokens": np.zeros(1, np.int32), "score": 1.0}) == 1


def test_a_schema_of_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"a field is a str such as 'int32\[:\]', not 5"):
        TrajectorySchema.of({"tokens": 5})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="a schema's version is a whole number, not 'a'"):
        TrajectorySchema.of(SMALL, version="a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a field's row has at most"):
        TrajectorySchema.of({"tokens": "int32[99999999999]"})
