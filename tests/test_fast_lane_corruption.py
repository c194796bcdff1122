"""Overwritten bytes: an error or a true frame, never a crash.

What can not be told from a correct writer's bytes is not expected to be noticed: the values of
metrics, times and pixels carry no checksum. What must hold is that no corruption makes a process
crash, hang, or take a frame that was never published for one that was.

The roles at the end of this file run in processes of their own; see spoilt_lanes.py.
"""

from __future__ import annotations

import json
import os
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lanekit
from lanekit.cli.ls import newest_note
from patience import patience
from role_processes import Processes
from spoilt_frame_lane import (
    CAPACITY,
    CONFIG,
    PUBLISHED,
    STRIDE,
    expect_true,
    image_of_a_dead_writer,
    metadata_of,
    metrics_of,
    path_of,
    pixels_of,
    publish,
)
from spoilt_lanes import DAMAGES, Notebook, damaged, run

pytestmark = pytest.mark.once  # the core does the work, whatever the Python

# Every byte that steers something: the header, then each slot's first 64 bytes.
OFFSETS = [
    *range(4096),
    *(4096 + slot * STRIDE + byte for slot in range(CAPACITY) for byte in range(64)),
]

Refusals = tuple[type[lanekit.LanekitError], ...]
# (first byte, one past the last, what attaching must answer if the byte changed; none: it works)
FIELDS: list[tuple[int, int, Refusals]] = [
    (0, 4, (lanekit.WrongSegmentKind,)),
    (4, 6, (lanekit.WrongSegmentVersion,)),
    (8, 12, (lanekit.BadSegmentGeometry,)),
    (16, 24, (lanekit.BadSegmentGeometry, lanekit.SegmentTruncated)),
    (64, 68, (lanekit.WrongSegmentKind,)),
    (128, 132, (lanekit.SegmentNotFound, lanekit.BadSegmentGeometry)),
    (512, 532, (lanekit.BadSegmentGeometry,)),
    (533, 536, (lanekit.BadSegmentGeometry,)),  # byte 532 can change without a contradiction
    (536, 568, (lanekit.BadSegmentGeometry,)),
]


@pytest.fixture
def run_id(spoilt_run_id: str) -> str:
    return spoilt_run_id


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_reader_meets_any_overwritten_byte_with_an_error_or_a_true_frame(
    run_id: str, damage: str, seed: int, note: Path
) -> None:
    found = run(read_overwritten_bytes, run_id, damage, seed, note=note)
    assert found["cases"] == len(OFFSETS)
    assert found["frames"] > len(OFFSETS)  # most bytes are reserved: reading goes on


def test_a_writer_meets_any_overwritten_byte_with_an_error_or_goes_on(
    run_id: str, seed: int, note: Path
) -> None:
    assert run(write_over_overwritten_bytes, run_id, seed, note=note)["cases"] == len(OFFSETS)


def test_create_and_forced_reclaim_cope_with_any_overwritten_byte(
    run_id: str, seed: int, note: Path
) -> None:
    found = run(create_over_overwritten_bytes, run_id, seed, note=note)
    assert found["cases"] == 4096
    assert found["created"] > 3000
    assert not os.path.exists(path_of(run_id))


def test_many_overwritten_bytes_at_once_do_not_crash_a_reader(
    run_id: str, seed: int, note: Path
) -> None:
    assert run(read_random_headers, run_id, seed, note=note)["cases"] == 2000


def test_a_reader_that_came_while_the_head_was_garbage_sees_the_frames_that_follow(
    run_id: str,
) -> None:
    with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
        publish(writer, 1)
        with open(path_of(run_id), "r+b") as file:
            file.seek(576)
            file.write(struct.pack("<Q", 1 << 40))
        with lanekit.FastLaneReader.attach(run_id) as reader:
            for seq in (2, 3, 4):  # the writer knows its own count and puts the head right
                publish(writer, seq)
            assert reader.wait(patience())
            frame = reader.latest_frame(fresh=True)
            assert frame is not None
            assert frame.seq == 4
            publish(writer, 5)
            frame = reader.next_frame()
            assert frame is not None
            assert frame.seq == 5


def test_a_spoiled_slot_does_not_hide_the_frames_after_it(run_id: str) -> None:
    with (
        lanekit.FastLaneWriter.create(run_id, CONFIG) as writer,
        lanekit.FastLaneReader.attach(run_id) as reader,
    ):
        for seq in (1, 2, 3, 4):
            publish(writer, seq)
        with open(path_of(run_id), "r+b") as file:
            file.seek(4096 + STRIDE)  # frame 2
            file.write(struct.pack("<Q", 77))
        seen = []
        for _ in range(10):
            try:
                frame = reader.next_frame()
            except lanekit.SegmentCorrupt:
                continue
            if frame is not None:
                seen.append(frame.seq)
        assert seen == [1, 3, 4]


@pytest.mark.parametrize("way", ["latest_frame", "read_into", "peek", "next_frame"])
def test_a_frame_with_more_metadata_than_there_is_room_for_lends_no_other_memory(
    run_id: str, way: str, note: Path
) -> None:
    found = run(read_metadata_of_impossible_sizes, run_id, way, note=note)
    assert found == [{"error": "SegmentCorrupt", "last frame is true": True, "note": None}] * 6


def test_a_failed_read_does_not_pass_for_the_frame_before(run_id: str) -> None:
    with (
        lanekit.FastLaneWriter.create(run_id, CONFIG) as writer,
        lanekit.FastLaneReader.attach(run_id) as reader,
    ):
        publish(writer, 1)
        frame = reader.latest_frame()
        info = reader.last_frame_info
        assert frame is not None
        assert info is not None
        assert (info.seq, info.metadata) == (1, frame.metadata)
        assert reader.latest_frame(fresh=True) is None
        assert reader.last_frame_info == info  # nothing new: it is still the frame read last
        with open(path_of(run_id), "r+b") as file:
            file.seek(4096 + 40)
            file.write(struct.pack("<Q", 5000))
        with pytest.raises(lanekit.SegmentCorrupt):
            reader.read_into(np.zeros(CONFIG.shape, np.uint8))
        assert reader.last_frame_info is None
        publish(writer, 2)
        assert reader.read_into(np.zeros(CONFIG.shape, np.uint8)) == 2
        assert reader.last_frame_info is not None


# --- a writer that is ahead, and words that no writer leaves --------------------------------------


@pytest.mark.parametrize("capacity", [1, 2, 3, 4])
def test_a_writer_between_two_stores_is_not_called_corrupt(run_id: str, capacity: int) -> None:
    config = lanekit.FastLaneConfig(16, 8, 1, "GRAY", capacity=capacity)
    head = 7
    # Words that a correct writer can have left in the slot of the frame that the head names.
    honest = {2 * head}
    honest |= {2 * head + 1, 2 * head + 2} if capacity == 1 else set()
    honest |= {2 * head + 3} if capacity <= 2 else set()
    with (
        lanekit.FastLaneWriter.create(run_id, config) as writer,
        open(path_of(run_id), "r+b", buffering=0) as file,
    ):
        for _ in range(head):
            writer.publish(np.zeros(config.shape, np.uint8))
        stride = (config.segment_size - 4096) // capacity
        for word in [*range(2 * head + 12), 2**32, 2**62, 2**64 - 1]:
            os.pwrite(file.fileno(), struct.pack("<Q", word), 4096 + (head - 1) % capacity * stride)
            with lanekit.FastLaneReader.attach(run_id) as reader:
                if word in honest:
                    frame = reader.latest_frame()
                    assert (frame is not None) == (word == 2 * head)
                else:
                    with pytest.raises(lanekit.SegmentCorrupt):
                        reader.latest_frame()


@pytest.mark.parametrize("capacity", [1, 2])
def test_a_flat_out_writer_is_not_called_corrupt(
    run_id: str, capacity: int, processes: Processes
) -> None:
    config = lanekit.FastLaneConfig(64, 64, capacity=capacity, metadata_size=64)
    peer = processes.start(publish_flat_out, run_id, capacity)
    assert peer.stdout is not None
    assert peer.stdout.readline() == "begun\n"
    frames = 0
    buffer = np.zeros(config.shape, np.uint8)
    with lanekit.FastLaneReader.attach(run_id) as reader:
        for _ in range(50_000):
            frames += reader.latest_frame() is not None
            frames += reader.read_into(buffer) > 0
            frames += reader.next_frame() is not None
    peer.kill()
    peer.communicate()
    assert frames > 0
    lanekit.reclaim_segment(lanekit.segment_name("frame", run_id))


# --- roles ----------------------------------------------------------------------------------------


def publish_flat_out(run_id: str, capacity: str) -> None:
    config = lanekit.FastLaneConfig(64, 64, capacity=int(capacity), metadata_size=64)
    frame, number = np.zeros(config.shape, np.uint8), 0
    writer = lanekit.FastLaneWriter.create(run_id, config)
    print("begun", flush=True)
    while True:
        number += 1
        writer.publish(frame, metrics=lanekit.FastLaneMetrics(number), metadata=b"m" * 40)


def read_metadata_of_impossible_sizes(run_id: str, way: str, note: str) -> None:
    found = []
    for size in (101, 4096, 0x40000000, 2**62 + 64, 2**63, 2**64 - 2):
        Notebook(note).write(f"{way} of {size} bytes of metadata")
        found.append(read_metadata_of(size, run_id, way))
    print(json.dumps(found))


def read_metadata_of(size: int, run_id: str, way: str) -> dict[str, object]:
    with (
        lanekit.FastLaneWriter.create(run_id, CONFIG) as writer,
        lanekit.FastLaneReader.attach(run_id) as reader,
    ):
        publish(writer, 1)
        reader.latest_frame()
        publish(writer, 2)
        with open(path_of(run_id), "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), struct.pack("<Q", size), 4096 + STRIDE + 40)
        error = ""
        try:
            if way == "read_into":
                reader.read_into(np.zeros(CONFIG.shape, np.uint8))
            else:
                getattr(reader, way)()
        except lanekit.LanekitError as refusal:
            error = type(refusal).__name__
        info = reader.last_frame_info  # the frame before, or none
        true = info is None or (info.seq, info.metadata) == (1, metadata_of(1))
        return {"error": error, "last frame is true": true, "note": newest_note(run_id)}


def read_every_way(reader: lanekit.FastLaneReader, newest: int, offset: int) -> int:
    """Use all of a reader; each call answers with a true frame or a LanekitError."""
    buffer = np.zeros(CONFIG.shape, np.uint8)

    def peek() -> int:
        look = reader.peek()
        if look.array is None:
            return 0
        same = np.array_equal(look.array, pixels_of(look.seq))
        assert same or not look.valid, f"frame {look.seq}, looked at in place, has other pixels"
        return 1

    def read_into() -> int:
        seq = reader.read_into(buffer)
        assert not seq or np.array_equal(buffer, pixels_of(seq))
        return min(seq, 1)

    def metrics() -> int:
        found = reader.metrics()
        if offset not in range(704, 736):
            assert found == metrics_of(newest)
        return 0

    ways: list[Callable[[], int]] = [
        lambda: expect_true(reader.latest_frame(), newest, offset),
        *[lambda: expect_true(reader.next_frame(), newest, offset)] * (CAPACITY + 1),
        lambda: expect_true(reader.latest_frame(fresh=True), newest, offset),
        peek,
        read_into,
        metrics,
        lambda: reader.wait(0) and 0,
        lambda: reader.connected and 0,
        lambda: (reader.stats(), 0)[1],
    ]
    frames = 0
    for way in ways:
        try:
            frames += way()
        except lanekit.LanekitError:
            continue
    return frames


def expect_refusal(
    error: lanekit.LanekitError | None, offset: int, run_id: str, changed: bool
) -> None:
    expected: Refusals = ()
    for first, end, refusals in FIELDS:
        if first <= offset < end:
            expected = refusals
    if 136 <= offset < 136 + len(run_id):
        expected = (lanekit.SegmentNotFound,)
    if offset == 532:
        assert error is None or isinstance(error, lanekit.BadSegmentGeometry)
    elif expected and changed:
        assert type(error) in expected, f"byte {offset}: {error!r}, not one of {expected}"
    else:
        assert error is None, f"byte {offset}: {error!r}"


def read_overwritten_bytes(run_id: str, damage: str, seed: str, note: str) -> None:
    notebook, chance = Notebook(note), random.Random(int(seed))
    frames = 0
    with (
        lanekit.FastLaneWriter.create(run_id, CONFIG) as writer,
        open(path_of(run_id), "r+b", buffering=0) as file,
    ):
        for seq in range(1, PUBLISHED + 1):
            publish(writer, seq)
        for offset in OFFSETS:
            with lanekit.FastLaneReader.attach(run_id) as before:
                whole = os.pread(file.fileno(), CONFIG.segment_size, 0)
                bad = damaged(whole[offset], damage, chance)
                notebook.write(f"byte {offset}: {whole[offset]:#04x} -> {bad:#04x}")
                os.pwrite(file.fileno(), bytes([bad]), offset)
                frames += read_every_way(before, PUBLISHED, offset)
                os.pwrite(file.fileno(), whole[:4096], 0)
                os.pwrite(file.fileno(), bytes([bad]), offset)
                refusal = None
                try:
                    with lanekit.FastLaneReader.attach(run_id) as after:
                        frames += read_every_way(after, PUBLISHED, offset)
                except lanekit.LanekitError as error:
                    refusal = error
                expect_refusal(refusal, offset, run_id, bad != whole[offset])
                os.pwrite(file.fileno(), whole[:4096], 0)
                os.pwrite(file.fileno(), whole[offset : offset + 1], offset)
    print(json.dumps({"cases": len(OFFSETS), "frames": frames}))


def write_over_overwritten_bytes(run_id: str, seed: str, note: str) -> None:
    notebook, chance = Notebook(note), random.Random(int(seed))
    seq = 0
    writer = lanekit.FastLaneWriter.create(run_id, CONFIG)
    reader = lanekit.FastLaneReader.attach(run_id)
    with open(path_of(run_id), "r+b", buffering=0) as file:
        for offset in OFFSETS:
            (good,) = os.pread(file.fileno(), 1, offset)
            bad = damaged(good, chance.choice(DAMAGES), chance)
            notebook.write(f"byte {offset}: {good:#04x} -> {bad:#04x}")
            os.pwrite(file.fileno(), bytes([bad]), offset)
            published = False
            try:
                publish(writer, seq + 1)
                published = True
                seq += 1
                _ = writer.watched
                writer.heartbeat()
            except lanekit.LanekitError:
                pass
            if published:  # overwrote what matters: the newest frame is there and true
                frame = reader.latest_frame()
                assert frame is not None
                assert frame.seq == seq
                expect_true(frame, seq)
            if os.pread(file.fileno(), 1, offset) == bytes([bad]):
                os.pwrite(file.fileno(), bytes([good]), offset)
    reader.close()
    writer.close()
    writer.unlink()
    print(json.dumps({"cases": len(OFFSETS)}))


def create_over_overwritten_bytes(run_id: str, seed: str, note: str) -> None:
    notebook, chance = Notebook(note), random.Random(int(seed))
    image = image_of_a_dead_writer(run_id)
    path, name = Path(path_of(run_id)), lanekit.segment_name("frame", run_id)
    created = 0
    for offset in range(4096):
        bad = damaged(image[offset], chance.choice(DAMAGES), chance)
        notebook.write(f"byte {offset}: {image[offset]:#04x} -> {bad:#04x}")
        spoiled = image[:offset] + bytes([bad]) + image[offset + 1 :]
        path.write_bytes(spoiled)
        refusal = ""
        try:
            with lanekit.FastLaneWriter.create(run_id, CONFIG) as writer:
                publish(writer, 1)
            created += 1
        except lanekit.SegmentError as error:
            refusal = str(error)
        if refusal:
            assert name in refusal
            lanekit.reclaim_segment(name, force=True)
        assert not path.exists()
        if offset % 8 == 0:
            path.write_bytes(spoiled)
            lanekit.reclaim_segment(name, force=True)
            assert not path.exists()
    print(json.dumps({"cases": 4096, "created": created}))


def read_random_headers(run_id: str, seed: str, note: str) -> None:
    """Spoil many bytes at once; the words below are random, but never far from believable."""
    notebook, chance = Notebook(note), random.Random(int(seed))
    words = [0, 1, 2, 3, PUBLISHED, 2 * PUBLISHED, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]
    with (
        lanekit.FastLaneWriter.create(run_id, CONFIG) as writer,
        open(path_of(run_id), "r+b", buffering=0) as file,
    ):
        for seq in range(1, PUBLISHED + 1):
            publish(writer, seq)
        for case in range(2000):
            with lanekit.FastLaneReader.attach(run_id) as before:
                whole = os.pread(file.fileno(), CONFIG.segment_size, 0)
                for offset in chance.sample(OFFSETS[::8], chance.randrange(2, 200)):
                    word = struct.pack("<Q", chance.choice([*words, chance.getrandbits(64)]))
                    notebook.write(f"case {case} of seed {seed}")
                    os.pwrite(file.fileno(), word, offset)
                for reader in (before, None):
                    try:
                        reader = reader or lanekit.FastLaneReader.attach(run_id)
                        with reader:
                            buffer = np.zeros(reader.config.shape, np.uint8)
                            for way in (
                                reader.latest_frame,
                                *[reader.next_frame] * CAPACITY,
                                reader.metrics,
                                lambda reader=reader: reader.wait(0),
                                lambda reader=reader, buffer=buffer: reader.read_into(buffer),
                            ):
                                try:
                                    way()
                                except lanekit.LanekitError:
                                    continue
                    except lanekit.LanekitError:
                        continue
                os.pwrite(file.fileno(), whole, 0)
    print(json.dumps({"cases": 2000}))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
