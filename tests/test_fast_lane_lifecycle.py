"""How the fast lane's handles begin, end, and follow one another."""

from __future__ import annotations

import copy
import gc
import math
import mmap
import pickle
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lanekit
from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter, segment_name
from lanekit.segments import segment_path
from patience import patience

CONFIG = FastLaneConfig(width=30, height=20, capacity=4, metadata_size=16)


def picture(seed: int, shape: tuple[int, ...] = (20, 30, 3)) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def test_a_live_writer_keeps_its_run(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        with pytest.raises(lanekit.SegmentExists, match="process") as caught:
            FastLaneWriter.create(run_id, CONFIG)
        assert caught.value.owner_pid > 0
        assert str(caught.value.owner_pid) in str(caught.value)
        assert writer.publish(picture(1)) == 1


def test_close_and_unlink_may_be_called_again(run_id: str) -> None:
    writer = FastLaneWriter.create(run_id, CONFIG)
    reader = FastLaneReader.attach(run_id)
    for _ in range(2):
        writer.close()
    assert segment_path(writer.name).exists()
    for _ in range(2):
        writer.unlink()
    assert not segment_path(writer.name).exists()
    for _ in range(2):
        reader.close()
    with pytest.raises(lanekit.HandleClosed):
        writer.publish(picture(1))
    with pytest.raises(lanekit.HandleClosed):
        _ = writer.watched
    with pytest.raises(lanekit.HandleClosed):
        reader.latest_frame()
    with pytest.raises(lanekit.HandleClosed):
        reader.wait(1)


def test_a_forgotten_writer_is_cleaned_up_by_the_garbage_collector(run_id: str) -> None:
    writer = FastLaneWriter.create(run_id, CONFIG)
    path = segment_path(writer.name)
    assert path.exists()
    del writer
    gc.collect()
    assert not path.exists()


def test_views_outlive_every_handle(run_id: str) -> None:
    writer = FastLaneWriter.create(run_id, CONFIG)
    reader = FastLaneReader.attach(run_id)
    slot = writer.reserve()
    lent = slot.array
    lent[...] = picture(7)
    slot.commit()
    peek = reader.peek()
    seen = peek.array
    assert seen is not None
    reader.close()
    writer.close()
    writer.unlink()
    del writer, reader, slot, peek
    gc.collect()
    # Both still show the mapping, which goes only with the last of them.
    assert np.array_equal(seen, picture(7))
    assert np.array_equal(lent, picture(7))
    part = seen[3:5, ::2]
    del seen, lent
    gc.collect()
    assert np.array_equal(part, picture(7)[3:5, ::2])
    assert mapped(run_id) == 1
    del part
    gc.collect()
    assert mapped(run_id) == 0


def mapped(run: str) -> int:
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sum(segment_name("frame", run) in line for line in maps)


def test_a_closed_handle_without_views_is_unmapped_at_once(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        with FastLaneReader.attach(run_id) as reader:
            writer.publish(picture(1))
            assert reader.latest_frame() is not None
            assert mapped(run_id) == 2
        assert mapped(run_id) == 1
    assert mapped(run_id) == 0


def test_a_reader_follows_to_the_next_writer_and_its_geometry(run_id: str) -> None:
    first = FastLaneWriter.create(run_id, CONFIG)
    first.publish(picture(1))
    out = np.zeros(CONFIG.shape, np.uint8)
    with FastLaneReader.attach(run_id) as reader:
        for _ in range(3):
            assert reader.read_into(out) == 1
        first.close()
        first.unlink()
        assert not reader.connected
        frame = reader.latest_frame()  # the last one stays
        assert frame is not None
        assert np.array_equal(frame.array, picture(1))
        assert not reader.wait(0.02)
        with FastLaneWriter.create(run_id, CONFIG) as second:
            assert not reader.wait(0.05)
            second.publish(picture(2))
            assert reader.wait(patience())
            assert reader.connected
            assert reader.read_into(out) == 1
            assert np.array_equal(out, picture(2))
        other = FastLaneConfig(width=16, height=8, capacity=3, metadata_size=4)
        with FastLaneWriter.create(run_id, other) as third:
            third.publish(picture(3, (8, 16, 3)), metadata=b"abcd")
            with pytest.raises(lanekit.GeometryChanged, match="16x8 RGB instead of 30x20"):
                while True:
                    reader.read_into(out)
            assert reader.config == other
            out = np.zeros(other.shape, np.uint8)
            assert reader.read_into(out) == 1
            assert np.array_equal(out, picture(3, (8, 16, 3)))
            frame = reader.latest_frame()
            assert frame is not None
            assert frame.metadata == b"abcd"
        assert reader.stats().reattached == 2


def test_an_invalidated_writer_can_not_publish_and_is_replaced(run_id: str) -> None:
    writer = FastLaneWriter.create(run_id, CONFIG)
    writer.publish(picture(1))
    with FastLaneReader.attach(run_id) as reader:
        writer.invalidate()
        assert not reader.connected
        with pytest.raises(lanekit.SegmentInvalidated, match="create a new"):
            writer.publish(picture(2))
        with FastLaneWriter.create(run_id, CONFIG) as second:
            writer.unlink()  # removes only what is its own
            assert segment_path(second.name).exists()
            second.publish(picture(3))
            assert reader.wait(patience())


def test_run_ids_of_any_kind_work() -> None:
    for run in ("a/b", "ü" * 300, "x" * 5000, "  ", "..", "\x00\n", "a\ud800", "🦙"):
        with FastLaneWriter.create(run, CONFIG) as writer, FastLaneReader.attach(run) as reader:
            writer.publish(picture(1))
            assert reader.latest_frame() is not None
        assert not segment_path(writer.name).exists()
    for bad, error in (("", ValueError), (b"x", TypeError), (3, TypeError)):
        with pytest.raises(error, match="run id"):
            FastLaneWriter.create(bad, CONFIG)  # type: ignore[arg-type]


def test_a_new_geometry_is_told_once_whoever_noticed_it(run_id: str) -> None:
    out = np.zeros(CONFIG.shape, np.uint8)
    gaps = np.zeros((40, 30, 3), np.uint8)[::2]
    with FastLaneWriter.create(run_id, CONFIG) as first:
        first.publish(picture(1))
        contiguous, strided = FastLaneReader.attach(run_id), FastLaneReader.attach(run_id)
        assert contiguous.read_into(out) == strided.read_into(gaps) == 1
    swapped = FastLaneConfig(width=30, height=20, channels=4, pixel_format="BGRX")
    with FastLaneWriter.create(run_id, swapped) as second:
        second.publish(picture(2, (20, 30, 4)))
        for reader, target in ((contiguous, out), (strided, gaps)):
            assert reader.wait(patience())  # moves to the new writer
            with pytest.raises(lanekit.GeometryChanged, match="BGRX") as caught:
                reader.read_into(target)
            assert caught.value.config == reader.config
            again = pickle.loads(pickle.dumps(caught.value))
            assert (str(again), again.config) == (str(caught.value), swapped)
            with pytest.raises(ValueError, match="shape"):
                reader.read_into(target)
            assert reader.read_into(np.zeros((20, 30, 4), np.uint8)) == 1
            reader.close()


def test_a_new_writer_with_more_metadata_does_not_overflow_the_old_buffer(run_id: str) -> None:
    out = np.zeros((20, 30, 3), np.uint8)
    reader = None
    for size in (4, 5000, 0, 200_000):
        config = FastLaneConfig(width=30, height=20, capacity=2, metadata_size=size)
        with FastLaneWriter.create(run_id, config) as writer:
            writer.publish(picture(size), metadata=bytes(size))
            if reader is None:
                reader = FastLaneReader.attach(run_id)
            assert reader.wait(patience())
            for _ in range(3):
                assert reader.read_into(out) == 1
            info = reader.last_frame_info
            assert info is not None
            assert info.metadata == bytes(size)
            frame = reader.latest_frame()
            assert frame is not None
            assert frame.metadata == bytes(size)
    assert reader is not None
    reader.close()


def test_a_reader_is_connected_again_when_a_new_writer_is_there(run_id: str) -> None:
    first = FastLaneWriter.create(run_id, CONFIG)
    with FastLaneReader.attach(run_id) as reader:
        assert reader.connected
        first.unlink()
        first.close()
        assert not reader.connected
        with FastLaneWriter.create(run_id, CONFIG):
            while not reader.connected:
                time.sleep(0.01)


def test_a_dropped_reservation_is_given_back(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        writer.reserve()  # and forgotten
        gc.collect()
        assert writer.publish(picture(1)) == 1


def test_an_error_inside_a_reservation_is_the_one_that_is_seen(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        with pytest.raises(ZeroDivisionError), writer.reserve():
            writer.close()
            _ = 1 // 0


def test_published_memory_that_is_not_the_arrays_own_is_let_go(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        memory = mmap.mmap(-1, 1800)
        for _ in range(40):
            writer.publish(memory)
            writer.publish(memoryview(memory))
        array = np.frombuffer(memory, np.uint8).reshape(CONFIG.shape)
        for _ in range(40):
            writer.publish(array)
        del array
        memory.close()  # would raise BufferError while somebody holds on to it


@pytest.mark.parametrize("copy_it", [pickle.dumps, copy.copy, copy.deepcopy])
def test_handles_can_not_be_copied_or_sent_to_another_process(run_id: str, copy_it: Any) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        with pytest.raises(TypeError, match="create it in the process"):
            copy_it(writer)
        with pytest.raises(TypeError, match="attach by run id"):
            copy_it(reader)


def test_odd_timeouts_are_refused_or_mean_what_they_say(run_id: str) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer, FastLaneReader.attach(run_id) as reader:
        assert not reader.wait(-1)
        writer.publish(picture(1))
        assert reader.wait(math.inf)
        assert reader.wait(np.float32(0.5))
        for timeout, error in ((math.nan, ValueError), ("1", TypeError)):
            with pytest.raises(error, match="timeout"):
                reader.wait(timeout)  # type: ignore[arg-type]
            with pytest.raises(error, match="timeout"):
                FastLaneReader.attach(run_id, timeout=timeout)  # type: ignore[arg-type]
