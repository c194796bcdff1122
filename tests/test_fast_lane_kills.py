"""SIGKILL, at any instant: no torn frame, no stuck peer, nothing left behind.

The roles at the end of this file run in processes of their own: `python <this file> ROLE ...`.
Those that kill thousands of children fork them from a small single-threaded process that holds no
lanekit handle which the children use: each child creates or attaches for itself.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import random
import struct
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import lanekit
from lanekit._core import ffi, lib
from patience import patience, until
from role_processes import Processes, fork, kill, outcome

pytestmark = pytest.mark.once  # the core does the work, whatever the Python

WIDTH, HEIGHT, CAPACITY = 512, 128, 4
LAST_LIFE = 1 << 40  # readers end when they see this writer
TABLE_SIZE = 32  # viewer entries of a segment


# --- frames that check themselves -----------------------------------------------------------------


def config() -> lanekit.FastLaneConfig:
    return lanekit.FastLaneConfig(
        WIDTH, HEIGHT, 1, "GRAY", capacity=CAPACITY, metadata_size=struct.calcsize("<QQ") * 4
    )


def word_of(seq: int, life: int) -> int:
    """What every 8 bytes of a frame hold; `life` numbers the writers of a run."""
    return (seq * 0x9E3779B97F4A7C15 + life * 0xC2B2AE3D27D4EB4F) & (2**64 - 1)


def metadata_of(seq: int, life: int) -> bytes | None:
    return struct.pack("<QQ", seq, life) * (seq % 5) if seq % 5 else None


def metrics_of(seq: int, life: int) -> lanekit.FastLaneMetrics:
    return lanekit.FastLaneMetrics(float(seq), -seq / 2, float(life))


def fill(pixels: np.ndarray, seq: int, life: int) -> None:
    pixels.reshape(-1).view(np.uint64)[:] = word_of(seq, life)


def holds(pixels: np.ndarray, seq: int, life: int) -> bool:
    return bool((pixels.reshape(-1).view(np.uint64) == np.uint64(word_of(seq, life))).all())


def check(pixels: np.ndarray, seq: int, metrics: lanekit.FastLaneMetrics, metadata: Any) -> int:
    """Assert that all parts of a frame belong together; return its writer's number."""
    life = int(metrics.step_rate_hz)
    assert metrics == metrics_of(seq, life), f"frame {seq} carries the metrics {metrics}"
    assert metadata == metadata_of(seq, life), f"frame {seq} carries the metadata {metadata!r}"
    assert holds(pixels, seq, life), f"frame {seq} of writer {life} is torn"
    return life


def check_frame(frame: lanekit.FastLaneFrame) -> int:
    return check(frame.array, frame.seq, frame.metrics, frame.metadata)


def publish(writer: lanekit.FastLaneWriter, pixels: np.ndarray, seq: int, life: int) -> None:
    """Publish frame `seq`, by copy and in place by turns."""
    metrics, metadata = metrics_of(seq, life), metadata_of(seq, life)
    if seq % 2:
        fill(pixels, seq, life)
        assert writer.publish(pixels, metrics=metrics, metadata=metadata) == seq
    else:
        reservation = writer.reserve()
        fill(reservation.array, seq, life)
        assert reservation.commit(metrics=metrics, metadata=metadata) == seq


# --- starting processes ---------------------------------------------------------------------------


def viewers(run_id: str) -> int:
    out = ffi.new("struct lk_frame_status *")
    assert lib.lk_frame_inspect(lanekit.segment_name("frame", run_id).encode(), out) == 0
    return out.viewers


def path_of(run_id: str) -> str:
    return f"/dev/shm/{lanekit.segment_name('frame', run_id)}"


@pytest.fixture
def run_id() -> Iterator[str]:
    name = f"kills-{uuid.uuid4().hex}"
    yield name
    if os.path.exists(path_of(name)):
        os.unlink(path_of(name))


# --- the tests ------------------------------------------------------------------------------------


def test_readers_never_see_a_torn_frame_while_writers_are_killed(
    run_id: str, seed: int, processes: Processes
) -> None:
    kills = 1500
    readers = [processes.start(watch_all_lives, run_id, seed + i) for i in range(2)]
    killer = processes.start(kill_writers, run_id, kills, seed, "newest")
    assert killer.stdout is not None
    if killer.stdout.readline() == "the last writer is there\n":
        for reader in readers:
            seen = outcome(reader)  # it ends when it has moved to the last writer by itself
            assert seen["frames"] > 0
            assert seen["lives"] > 1
            assert seen["reattached"] > 1
    found = outcome(killer)
    assert found["kills"] == kills
    assert found["with_frames"] > kills // 4
    assert not os.path.exists(path_of(run_id))


def test_the_frames_that_survive_a_killed_writer_can_be_read_in_order(
    run_id: str, seed: int, processes: Processes
) -> None:
    killer = processes.start(kill_writers, run_id, 300, seed, "in order")
    assert killer.stdout is not None
    killer.stdout.readline()
    assert outcome(killer)["kills"] == 300


def test_a_slot_that_is_being_written_does_not_hide_the_frames_after_it(run_id: str) -> None:
    """The state a killed writer leaves in a full ring, made without a kill."""
    pixels = np.zeros((HEIGHT, WIDTH, 1), np.uint8)
    with (
        lanekit.FastLaneWriter.create(run_id, config()) as writer,
        lanekit.FastLaneReader.attach(run_id) as reader,
    ):
        for seq in range(1, CAPACITY + 1):
            publish(writer, pixels, seq, 1)
        reservation = writer.reserve()  # takes the slot of frame 1
        frame = reader.next_frame()
        assert frame is not None
        assert (frame.seq, frame.skipped) == (2, 1)
        reservation.abandon()
        frame = reader.next_frame()
        assert frame is not None
        assert (frame.seq, frame.skipped) == (3, 0)


def test_a_writer_killed_while_it_creates_never_blocks_the_next_one(
    run_id: str, seed: int, processes: Processes
) -> None:
    found = processes.run(kill_creators, run_id, 1000, seed)
    assert found["kills"] == 1000
    assert found["left_behind"] > 0, "no kill hit a creation"
    assert not os.path.exists(path_of(run_id))


def test_killed_readers_do_not_disturb_the_writer(
    run_id: str, seed: int, processes: Processes
) -> None:
    found = processes.run(kill_readers, run_id, 300, seed)
    assert found["kills"] == 300
    assert found["most_viewers"] <= TABLE_SIZE
    assert found["viewers_in_the_end"] == 0
    assert found["viewers_after_three_more"] == 3


def test_more_readers_than_the_table_holds_all_read(run_id: str) -> None:
    pixels = np.zeros((HEIGHT, WIDTH, 1), np.uint8)
    with lanekit.FastLaneWriter.create(run_id, config()) as writer:
        publish(writer, pixels, 1, 1)
        readers = [lanekit.FastLaneReader.attach(run_id) for _ in range(TABLE_SIZE + 8)]
        for reader in readers:
            frame = reader.latest_frame()
            assert frame is not None
            check_frame(frame)
        assert viewers(run_id) == TABLE_SIZE
        for reader in readers:
            reader.close()
        assert viewers(run_id) == 0
        with lanekit.FastLaneReader.attach(run_id):
            assert viewers(run_id) == 1


def test_a_reader_that_is_overtaken_counts_every_frame_it_missed(
    run_id: str, processes: Processes
) -> None:
    processes.start(publish_as_fast_as_possible, run_id, 1024 * 64, 16)
    with lanekit.FastLaneReader.attach(run_id, timeout=patience()) as reader:
        frames: list[lanekit.FastLaneFrame] = []
        for calls in itertools.count(1):  # a busy machine may let the writer run only later
            if (frame := reader.next_frame()) is not None:
                frames.append(frame)
            if calls >= 3000 and len(frames) > 1:
                break
        for before, frame in itertools.pairwise(frames):
            assert frame.seq == before.seq + 1 + frame.skipped
        assert reader.stats().frames_read == len(frames)


def test_a_slow_reader_in_order_gets_frames_from_a_writer_that_never_pauses(
    run_id: str, processes: Processes
) -> None:
    """Frames that were overwritten are skipped over; they do not stand in the way."""
    processes.start(publish_as_fast_as_possible, run_id, 1024 * 1024, 8)
    with lanekit.FastLaneReader.attach(run_id, timeout=patience()) as reader:
        calls = 500
        frames = 0
        for _ in range(calls):
            assert reader.wait(patience())  # there is a new one
            frames += reader.next_frame() is not None
        assert frames > calls // 10


# --- roles ----------------------------------------------------------------------------------------


def publish_for_ever(run_id: str, life: int, acknowledged: np.ndarray) -> None:
    """Publish until killed, noting after each call that the frame is out."""
    pixels = np.zeros((HEIGHT, WIDTH, 1), np.uint8)
    writer = lanekit.FastLaneWriter.create(run_id, config())
    seq = 0
    while True:
        seq += 1
        publish(writer, pixels, seq, life)
        acknowledged[0] = seq


def examine(run_id: str, life: int, acknowledged: int, order: str) -> bool:
    """Look at what a killed writer left; return whether it left a frame."""
    try:
        reader = lanekit.FastLaneReader.attach(run_id, lease=0)
    except (lanekit.SegmentNotFound, lanekit.SegmentNotReady):
        assert acknowledged == 0
        return False
    with reader:
        if order == "in order":
            frames = list(iter(reader.next_frame, None))
            for frame in frames:
                assert check_frame(frame) <= life
            head = reader.latest_frame()
            assert (head is None) == (not frames)
            if head is not None:
                numbers = [frame.seq for frame in frames]
                first = max(1, head.seq - CAPACITY + 1)
                whole = list(range(first, head.seq + 1))
                assert numbers in (whole, whole[1:]), f"head {head.seq}, but read {numbers}"
        newest = reader.latest_frame()
        reader.metrics()
        if newest is None:
            assert acknowledged == 0
            return False
        if check_frame(newest) == life:
            assert acknowledged <= newest.seq <= acknowledged + 1
            return True
        assert acknowledged == 0, "an earlier writer's frame, though this one had published"
        return False


def kill_writers(run_id: str, kills: str, seed: str, order: str) -> None:
    chance = random.Random(int(seed))
    acknowledged = np.frombuffer(mmap.mmap(-1, 8), np.uint64)  # shared with the children
    with_frames = 0
    for life in range(1, int(kills) + 1):
        acknowledged[0] = 0
        child = fork(lambda life=life: publish_for_ever(run_id, life, acknowledged))
        if chance.random() < 0.5:  # else it may be killed before its first frame
            until(lambda: acknowledged[0] > 0, "a frame")
        time.sleep(chance.random() * 0.006)
        kill(child)
        with_frames += examine(run_id, life, int(acknowledged[0]), order)
    with lanekit.FastLaneWriter.create(run_id, config()) as writer:
        pixels = np.zeros((HEIGHT, WIDTH, 1), np.uint8)
        for seq in range(1, 2 * CAPACITY):
            publish(writer, pixels, seq, LAST_LIFE)
        print("the last writer is there", flush=True)
        sys.stdin.read()
    print(json.dumps({"kills": int(kills), "with_frames": with_frames}))


def watch_all_lives(run_id: str, seed: str) -> None:
    """Read in every way there is, check everything, end at the last writer's frames."""
    chance = random.Random(int(seed))
    buffer = np.zeros((HEIGHT, WIDTH, 1), np.uint8)
    lives: set[int] = set()

    def see(frame: lanekit.FastLaneFrame | None) -> None:
        if frame is not None:
            lives.add(check_frame(frame))

    def read_into(reader: lanekit.FastLaneReader) -> None:
        if reader.read_into(buffer, fresh=chance.random() < 0.5):
            info = reader.last_frame_info
            assert info is not None
            lives.add(check(buffer, info.seq, info.metrics, info.metadata))

    def peek(reader: lanekit.FastLaneReader) -> None:
        look = reader.peek()
        info = reader.last_frame_info
        if look.array is not None and info is not None:
            whole = holds(look.array, look.seq, int(info.metrics.step_rate_hz))
            assert whole or not look.valid, f"frame {look.seq} is torn, but called valid"

    def metrics(reader: lanekit.FastLaneReader) -> None:
        now = reader.metrics()
        assert now == metrics_of(int(now.last_reward), int(now.step_rate_hz))

    ways: list[Callable[[lanekit.FastLaneReader], Any]] = [
        lambda reader: see(reader.latest_frame()),
        lambda reader: see(reader.latest_frame(fresh=True)),
        lambda reader: see(reader.next_frame()),
        read_into,
        peek,
        metrics,
        lambda reader: reader.wait(0.002),
        lambda reader: reader.connected,
    ]
    with lanekit.FastLaneReader.attach(run_id, timeout=patience()) as reader:
        while LAST_LIFE not in lives:
            chance.choice(ways)(reader)
        stats = reader.stats()
    found = {"frames": stats.frames_read, "lives": len(lives), "reattached": stats.reattached}
    print(json.dumps(found))


def kill_creators(run_id: str, kills: str, seed: str) -> None:
    chance = random.Random(int(seed))
    large = lanekit.FastLaneConfig(256, 256, 4, "RGBA", capacity=4)
    left_behind = 0

    def create_for_ever() -> None:
        while True:
            with lanekit.FastLaneWriter.create(run_id, large):
                pass

    for life in range(1, int(kills) + 1):
        child = fork(create_for_ever)
        time.sleep(chance.random() * 0.003)
        kill(child)
        left_behind += os.path.exists(path_of(run_id))
        with lanekit.FastLaneWriter.create(run_id, config()) as writer:
            publish(writer, np.zeros((HEIGHT, WIDTH, 1), np.uint8), 1, life)
            with lanekit.FastLaneReader.attach(run_id) as reader:
                frame = reader.latest_frame()
                assert frame is not None
                assert check_frame(frame) == life
        assert not os.path.exists(path_of(run_id))
    print(json.dumps({"kills": int(kills), "left_behind": left_behind}))


def read_for_ever(run_id: str, seed: int) -> None:
    chance = random.Random(seed)
    reader = lanekit.FastLaneReader.attach(run_id)
    while True:
        frame = reader.next_frame() if chance.random() < 0.5 else reader.latest_frame()
        if frame is not None:
            check_frame(frame)
        if chance.random() < 0.3:
            reader.wait(0.01, strategy="block")


def kill_readers(run_id: str, kills: str, seed: str) -> None:
    chance = random.Random(int(seed))
    pixels = np.zeros((HEIGHT, WIDTH, 1), np.uint8)
    children: list[tuple[int, float]] = []
    started = killed = seq = most_viewers = 0
    was_watched = False
    with lanekit.FastLaneWriter.create(run_id, config()) as writer:
        while killed < int(kills):
            seq += 1
            publish(writer, pixels, seq, 1)
            was_watched = was_watched or writer.watched
            if started < int(kills) and len(children) < 6:
                child = fork(lambda: read_for_ever(run_id, chance.getrandbits(32)))
                children.append((child, time.monotonic() + chance.random() * 0.03))
                started += 1
            for child in [child for child in children if child[1] <= time.monotonic()]:
                children.remove(child)
                kill(child[0])
                killed += 1
                most_viewers = max(most_viewers, viewers(run_id))
        assert was_watched
        while writer.watched:  # ends with the lease of the last one killed
            time.sleep(0.01)
        while left := viewers(run_id):  # a dead one still counts for a moment
            time.sleep(0.05)
        three = [lanekit.FastLaneReader.attach(run_id) for _ in range(3)]
        assert writer.watched
        more = viewers(run_id)
        for reader in three:
            reader.close()
        assert not writer.watched or viewers(run_id) == 0
    print(
        json.dumps(
            {
                "kills": killed,
                "most_viewers": most_viewers,
                "viewers_in_the_end": left,
                "viewers_after_three_more": more,
            }
        )
    )


def publish_as_fast_as_possible(run_id: str, size: str, capacity: str) -> None:
    flat = lanekit.FastLaneConfig(1024, int(size) // 1024, 1, "GRAY", capacity=int(capacity))
    pixels = np.zeros(flat.shape, np.uint8)
    writer = lanekit.FastLaneWriter.create(run_id, flat)
    while True:
        writer.publish(pixels)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
