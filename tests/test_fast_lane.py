"""The fast lane in one process: what each call promises, and what bad input gets."""

from __future__ import annotations

import array
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lanekit
from lanekit import (
    FastLaneConfig,
    FastLaneMetrics,
    FastLaneReader,
    FastLaneWriter,
    segment_name,
)
from lanekit.segments import segment_path
from patience import patience, until

Pixels = npt.NDArray[np.uint8]


def picture(seed: int, shape: tuple[int, ...] = (20, 30, 3)) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


CONFIG = FastLaneConfig(width=30, height=20, capacity=4, metadata_size=16)


def test_a_frame_arrives_as_it_was_published(run_id: str) -> None:
    metrics = FastLaneMetrics(last_reward=1.5, rolling_return=-3.0, step_rate_hz=59.9)
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        assert reader.latest_frame() is None
        before = time.monotonic_ns()
        assert writer.publish(picture(1), metrics=metrics, metadata=b"hello") == 1
        frame = reader.latest_frame()
        assert frame is not None
        assert np.array_equal(frame.array, picture(1))
        assert frame.data == picture(1).tobytes()
        assert (frame.width, frame.height, frame.channels) == (30, 20, 3)
        assert frame.metrics == metrics
        assert frame.metadata == b"hello"
        assert frame.seq == 1
        assert before <= frame.timestamp_ns <= time.monotonic_ns()
        assert not frame.array.flags.writeable


@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 128])
def test_any_capacity_works(run_id: str, capacity: int) -> None:
    config = FastLaneConfig(width=30, height=20, capacity=capacity)
    with FastLaneWriter.create(run_id, config) as writer, FastLaneReader.attach(run_id) as reader:
        for seq in range(1, 2 * capacity + 3):
            writer.publish(picture(seq))
            frame = reader.latest_frame(fresh=True)
            assert frame is not None
            assert frame.seq == seq
            assert np.array_equal(frame.array, picture(seq))
            assert reader.latest_frame(fresh=True) is None


@pytest.mark.parametrize(
    ("pixel_format", "channels"), [("RGB", 3), ("RGBA", 4), ("BGRX", 4), ("GRAY", 1)]
)
def test_each_pixel_format_travels_in_the_header(
    run_id: str, pixel_format: Any, channels: int
) -> None:
    config = FastLaneConfig(30, 20, channels, pixel_format, capacity=2)
    with FastLaneWriter.create(run_id, config) as writer, FastLaneReader.attach(run_id) as reader:
        writer.publish(picture(3, (20, 30, channels)))
        assert reader.config == config
        frame = reader.latest_frame()
        assert frame is not None
        assert frame.pixel_format == pixel_format
        assert np.array_equal(frame.array, picture(3, (20, 30, channels)))


def read_only(pixels: Pixels) -> Pixels:
    pixels.flags.writeable = False
    return pixels


SHAPES_OF_INPUT: dict[str, Callable[[Pixels], Any]] = {
    "an array": lambda p: p,
    "a read-only array": lambda p: read_only(p.copy()),
    "a reversed view": lambda p: p[::-1, ::-1][::-1, ::-1],
    "a slice of a larger array": lambda p: np.pad(p, ((2, 2), (3, 3), (0, 1)))[2:-2, 3:-3, :3],
    "a Fortran-ordered array": np.asfortranarray,
    "a transposed copy": lambda p: np.ascontiguousarray(p.transpose(1, 0, 2)).transpose(1, 0, 2),
    "an array subclass": lambda p: p.view(np.recarray),
    "flat pixels": lambda p: p.reshape(-1),
    "bytes": lambda p: p.tobytes(),
    "a bytearray": lambda p: bytearray(p.tobytes()),
    "a memoryview": lambda p: memoryview(p.tobytes()),
    "a memoryview of the array": lambda p: p.data,
    "a memoryview with gaps": lambda p: memoryview(bytes(2 * p.size)[:0] + p.repeat(2).tobytes())[
        ::2
    ],
    "an array.array": lambda p: array.array("B", p.tobytes()),
}


@pytest.mark.parametrize("kind", SHAPES_OF_INPUT)
def test_every_kind_of_frame_buffer_is_accepted(run_id: str, kind: str) -> None:
    frame = SHAPES_OF_INPUT[kind](picture(5))
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        for _ in range(10):  # the second time around takes another path
            writer.publish(frame, metadata=b"m")
            writer.publish(frame)
            seen = reader.latest_frame()
            assert seen is not None
            assert np.array_equal(seen.array, picture(5))


@pytest.mark.parametrize(
    ("frame", "error", "says"),
    [
        (picture(1).astype(np.float32), TypeError, "uint8"),
        (picture(1).astype(np.int8), TypeError, "uint8"),
        (picture(1)[:19], ValueError, r"\(20, 30, 3\).*\(19, 30, 3\)"),
        (picture(1).transpose(1, 0, 2), ValueError, r"\(30, 20, 3\)"),
        (picture(1)[..., :2], ValueError, "1800 bytes"),
        (picture(1)[None], ValueError, "shape"),
        (b"short", ValueError, "5 bytes"),
        (array.array("f", [0.0] * 450), TypeError, "float32"),
        ([[1, 2], [3, 4]], TypeError, "list"),
        (None, TypeError, "NoneType"),
        ("text", TypeError, "str"),
        (7, TypeError, "int"),
    ],
    ids=str,
)
def test_a_frame_that_does_not_fit_is_named_and_nothing_is_published(
    run_id: str, frame: Any, error: type[Exception], says: str
) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        with pytest.raises(error, match=says) as caught:
            writer.publish(frame)
        assert run_id in str(caught.value)
        assert reader.latest_frame() is None
        assert writer.publish(picture(2)) == 1


def test_an_array_that_changes_between_publishes_is_published_as_it_is_then(run_id: str) -> None:
    frame = picture(0)
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        for value in range(40):
            frame[...] = value
            writer.publish(frame)
            seen = reader.latest_frame()
            assert seen is not None
            assert (seen.array == value).all()


def test_too_much_metadata_is_an_error_that_names_the_limit(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        with pytest.raises(ValueError, match=r"17 bytes.*reserves 16.*metadata_size=17"):
            writer.publish(picture(1), metadata=bytes(17))
        with pytest.raises(TypeError, match="bytes-like, not str"):
            writer.publish(picture(1), metadata="text")  # type: ignore[arg-type]
        assert writer.publish(picture(1), metadata=bytes(16)) == 1
        frame = reader.latest_frame()
        assert frame is not None
        assert frame.metadata == bytes(16)
        writer.publish(picture(1), metadata=b"")
        frame = reader.latest_frame()
        assert frame is not None
        assert frame.metadata == b""
        writer.publish(picture(1))
        frame = reader.latest_frame()
        assert frame is not None
        assert frame.metadata is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"width": 0},
        {"height": 0},
        {"width": -1},
        {"width": 70_000},
        {"width": 2**40},
        {"capacity": 0},
        {"capacity": 2**31},
        {"channels": 4},
        {"pixel_format": "YUV"},
        {"pixel_format": "rgb"},
        {"metadata_size": -1},
        {"metadata_size": 2**31},
        {"width": 65_536, "height": 65_536, "capacity": 1_048_576},
    ],
)
def test_zero_and_absurd_geometry_is_refused_before_anything_is_created(
    arguments: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match=r"."):
        FastLaneConfig(**{"width": 30, "height": 20, **arguments})


@pytest.mark.parametrize("value", [1.5, "3", None, True])
def test_a_size_that_is_no_whole_number_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="width"):
        FastLaneConfig(width=value, height=20)


def test_numpy_integers_are_sizes_too() -> None:
    assert FastLaneConfig(np.int64(30), np.uint8(20)) == FastLaneConfig(30, 20)


def test_a_segment_is_exactly_header_plus_slots(run_id: str) -> None:
    config = FastLaneConfig(width=84, height=84, capacity=128)
    with FastLaneWriter.create(run_id, config):
        slot = 64 + math.ceil(84 * 84 * 3 / 64) * 64
        stat = segment_path(segment_name("frame", run_id)).stat()
        assert stat.st_size == 4096 + 128 * slot == config.segment_size
        # Really reserved: every page is there before the first frame.
        assert stat.st_blocks * 512 >= stat.st_size
        assert stat.st_mode & 0o777 == 0o600


# --- reading ------------------------------------------------------------------------------------


def test_read_into_fills_the_callers_array(run_id: str) -> None:
    out = np.zeros((20, 30, 3), np.uint8)
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        assert reader.read_into(out) == 0
        assert reader.last_frame_info is None
        for seq in range(1, 12):
            writer.publish(
                picture(seq), metrics=FastLaneMetrics(seq, 0.0, 0.0), metadata=bytes([seq])
            )
            assert reader.read_into(out, fresh=True) == seq
            assert np.array_equal(out, picture(seq))
            info = reader.last_frame_info
            assert info is not None
            assert (info.seq, info.metrics.last_reward, info.metadata) == (seq, seq, bytes([seq]))
            assert reader.read_into(out, fresh=True) == 0
            assert reader.read_into(out) == seq
        assert reader.stats().frames_read == 22


def test_read_into_accepts_an_array_with_gaps(run_id: str) -> None:
    big = np.zeros((40, 30, 4), np.uint8)
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        assert reader.read_into(big[::2, :, :3]) == 0
        writer.publish(picture(9))
        assert reader.read_into(big[::2, :, :3]) == 1
        assert np.array_equal(big[::2, :, :3], picture(9))
        assert not big[..., 3].any()


@pytest.mark.parametrize(
    ("out", "error", "says"),
    [
        (np.zeros((20, 30), np.uint8), ValueError, "shape"),
        (np.zeros((30, 20, 3), np.uint8), ValueError, "shape"),
        (np.zeros((20, 30, 3), np.float32), TypeError, "float32"),
        (read_only(np.zeros((20, 30, 3), np.uint8)), ValueError, "written"),
        (bytearray(1800), TypeError, "bytearray"),
    ],
    ids=str,
)
def test_a_target_that_does_not_fit_is_named(
    run_id: str, out: Any, error: type[Exception], says: str
) -> None:
    with FastLaneWriter.create(run_id, CONFIG), FastLaneReader.attach(run_id) as reader:
        with pytest.raises(error, match=says):
            reader.read_into(out)


def test_next_frame_goes_in_order_and_counts_what_it_missed(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        for seq in range(1, 4):
            writer.publish(picture(seq))
        frames = [reader.next_frame() for _ in range(4)]
        assert [f and f.seq for f in frames] == [1, 2, 3, None]
        for seq in range(4, 14):
            writer.publish(picture(seq))
        frame = reader.next_frame()
        assert frame is not None
        assert (frame.seq, frame.skipped) == (10, 6)
        assert np.array_equal(frame.array, picture(10))
        assert reader.stats().skipped == 6


def test_frames_from_before_a_reader_came_are_not_counted_as_skipped(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        for seq in range(1, 101):
            writer.publish(picture(seq))
        with FastLaneReader.attach(run_id) as reader:
            frame = reader.next_frame()
            assert frame is not None
            assert (frame.seq, frame.skipped) == (97, 0)


def test_a_peek_shows_the_slot_itself_and_notices_an_overwrite(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        with reader.peek() as nothing:
            assert nothing is None
        writer.publish(picture(1))
        with reader.peek() as pixels:
            assert pixels is not None
            assert np.array_equal(pixels, picture(1))
            assert not pixels.flags.writeable
            with pytest.raises(ValueError, match="WRITEABLE"):
                pixels.flags.writeable = True
        peek = reader.peek()
        assert peek.seq == 1
        for seq in range(2, 5):
            writer.publish(picture(seq))
        assert peek.valid
        writer.publish(picture(5))
        assert not peek.valid
        with pytest.raises(lanekit.FrameOverwritten, match="read_into"), reader.peek():
            for seq in range(6, 11):
                writer.publish(picture(seq))


def test_an_error_inside_a_peek_is_not_hidden_by_the_overwrite(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        writer.publish(picture(1))
        with pytest.raises(ZeroDivisionError), reader.peek():
            for seq in range(2, 9):
                writer.publish(picture(seq))
            _ = 1 // 0


# --- reserving ----------------------------------------------------------------------------------


def test_a_reserved_slot_is_rendered_in_place_and_published_on_leaving(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        for seq in range(1, 12):
            with writer.reserve() as pixels:
                pixels[...] = picture(seq)
                latest = reader.latest_frame()
                assert (latest.seq if latest else 0) == seq - 1
            frame = reader.latest_frame()
            assert frame is not None
            assert np.array_equal(frame.array, picture(seq))
            with pytest.raises(ValueError, match="read-only"):
                pixels[...] = 0


def test_an_error_while_rendering_publishes_nothing(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        writer.publish(picture(1))
        with pytest.raises(ZeroDivisionError), writer.reserve() as pixels:
            pixels[...] = 9
            _ = 1 // 0
        frame = reader.latest_frame()
        assert frame is not None
        assert np.array_equal(frame.array, picture(1))
        assert writer.publish(picture(2)) == 2


def test_a_reservation_ends_once_and_blocks_other_publishing(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        slot = writer.reserve()
        with pytest.raises(ValueError, match="commit or abandon"):
            writer.publish(picture(1))
        with pytest.raises(ValueError, match="commit or abandon"):
            writer.reserve()
        slot.array[...] = picture(4)
        with pytest.raises(ValueError, match="metadata_size=17"):
            slot.commit(metadata=bytes(17))
        assert slot.commit(metrics=FastLaneMetrics(4.0), metadata=b"ok") == 1
        with pytest.raises(ValueError, match="ended"):
            slot.commit()
        slot.abandon()
        frame = reader.latest_frame()
        assert frame is not None
        assert (frame.metrics.last_reward, frame.metadata) == (4.0, b"ok")


# --- metrics, waiting, watching -----------------------------------------------------------------


def test_metrics_without_a_frame_reach_the_readers(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        assert reader.metrics() == FastLaneMetrics()
        writer.publish(picture(1), metrics=FastLaneMetrics(1.0, 2.0, 3.0))
        writer.update_metrics(FastLaneMetrics(math.inf, -0.0, 1e300))
        assert reader.metrics() == FastLaneMetrics(math.inf, -0.0, 1e300)
        frame = reader.latest_frame()
        assert frame is not None
        assert frame.metrics == FastLaneMetrics(1.0, 2.0, 3.0)
        writer.publish(picture(2))
        frame = reader.latest_frame()
        assert frame is not None
        assert frame.metrics == FastLaneMetrics(math.inf, -0.0, 1e300)


@pytest.mark.parametrize("strategy", ["hybrid", "spin", "block"])
def test_wait_ends_when_a_frame_comes(run_id: str, strategy: Any) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        assert not reader.wait(0, strategy=strategy)
        assert not reader.wait(0.02, strategy=strategy)
        timer = threading.Timer(0.05, writer.publish, [picture(1)])
        timer.start()
        assert reader.wait(patience(), strategy=strategy)
        timer.join()
        assert reader.wait(0, strategy=strategy)
        assert reader.latest_frame() is not None
        assert not reader.wait(0, strategy=strategy)


def test_an_unknown_strategy_is_refused(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG), FastLaneReader.attach(run_id) as reader:
        with pytest.raises(ValueError, match="hybrid, spin, block"):
            reader.wait(0, strategy="sleep")  # type: ignore[arg-type]


def test_watched_follows_the_readers_that_are_there(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        assert not writer.watched
        with FastLaneReader.attach(run_id, lease=0):
            assert not writer.watched
        with FastLaneReader.attach(run_id, lease=1.0) as brief:
            assert writer.watched
            until(lambda: not writer.watched, "the end of the lease")
            brief.latest_frame()
            assert writer.watched
        assert not writer.watched
        with pytest.raises(ValueError, match="lease"):
            FastLaneReader.attach(run_id, lease=-1)


def test_attach_can_wait_for_the_writer(run_id: str) -> None:
    with pytest.raises(lanekit.SegmentNotFound, match="lanekit ls"):
        FastLaneReader.attach(run_id, timeout=0.05)
    writers: list[FastLaneWriter] = []
    timer = threading.Timer(0.05, lambda: writers.append(FastLaneWriter.create(run_id, CONFIG)))
    timer.start()
    with FastLaneReader.attach(run_id, timeout=patience()) as reader:
        timer.join()
        with writers[0]:
            assert reader.connected
