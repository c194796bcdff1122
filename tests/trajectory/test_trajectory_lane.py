"""The lane as a whole: waiting, full rings, leaving and following, threads, forks, Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numbered_records import SCHEMA, arrays_of, check_record, meta_of

import lanekit
from lanekit import TrajectoryReader, TrajectoryWriter, inspect_trajectory_lane, segment_name
from lanekit.segments import segment_path
from patience import patience

SMALL = {"tokens": "int32[:]", "score": "float32"}
BIG = {"tokens": np.zeros(300, np.int32), "score": np.float32(0)}


@pytest.fixture
def reader(lane: str) -> Iterator[TrajectoryReader]:
    with TrajectoryReader.create(lane, SMALL, producers=2, ring_bytes=4096) as made:
        yield made


def fill(writer: TrajectoryWriter) -> int:
    puts = 0
    while writer.put(BIG, timeout=0):
        puts += 1
    return puts


# --- waiting --------------------------------------------------------------------------------------


def test_get_and_put_return_at_their_timeouts(lane: str, reader: TrajectoryReader) -> None:
    assert reader.get(timeout=0) is None
    assert reader.get(timeout=0.05) is None
    with TrajectoryWriter.attach(lane) as writer:
        assert fill(writer) >= 2
        assert writer.put(BIG, timeout=0.05) == 0
        assert writer.reserve({"tokens": 300}, timeout=0.01) is None
        stats = writer.stats()
        assert stats.stalls == 1
        assert stats.stalled_seconds >= 0.05


@pytest.mark.parametrize("timeout", ["1", float("nan")])
def test_a_timeout_is_a_number(reader: TrajectoryReader, timeout: object) -> None:
    with pytest.raises((TypeError, ValueError), match="timeout"):
        reader.get(timeout=timeout)  # type: ignore[arg-type]


def test_a_waiting_get_is_woken_and_so_is_a_waiting_put(
    lane: str, reader: TrajectoryReader
) -> None:
    def produce() -> None:
        with TrajectoryWriter.attach(lane) as writer:
            for n in range(500):
                assert writer.put({"tokens": [n] * 250, "score": n}) == n + 1

    thread = threading.Thread(target=produce)
    thread.start()
    for n in range(500):
        record = reader.get()
        assert record is not None
        assert record["tokens"].tolist() == [n] * 250
        record.release()
    thread.join()


def test_a_waiting_put_takes_the_room_of_one_record_while_the_others_are_kept(lane: str) -> None:
    # Small records: their producer would rather be woken for many, and must not insist.
    tiny = {"tokens": np.zeros(8, np.int32), "score": np.float32(0)}
    with (
        TrajectoryReader.create(lane, SMALL, producers=1, ring_bytes=65536) as reader,
        TrajectoryWriter.attach(lane) as writer,
    ):
        while writer.put(tiny, timeout=0):
            pass
        held = list(reader.get_batch(writer.stats().records, timeout=patience()))
        assert len(held) > 100
        last = held[-1].number
        for _ in range(5):
            numbers: list[int] = []
            thread = threading.Thread(target=lambda: numbers.append(writer.put(tiny)))  # noqa: B023
            thread.start()
            while not reader.stats().rings[0].waiting:
                time.sleep(0.0001)
            held.pop(0).release()
            thread.join(patience())
            last += 1
            assert numbers == [last]
            record = reader.get(timeout=patience())
            assert record is not None
            assert record.number == last
            held.append(record)


def test_records_come_to_an_event_loop(lane: str, reader: TrajectoryReader) -> None:
    async def consume() -> list[int]:
        found = []
        async for record in reader:
            found.append(int(record["score"]))
            if len(found) == 100:
                break
        return found

    async def together() -> None:
        assert await reader.aget(timeout=0.01) is None
        loop = asyncio.get_running_loop()
        with TrajectoryWriter.attach(lane) as writer:
            consuming = asyncio.ensure_future(consume())
            for n in range(100):
                await loop.run_in_executor(None, writer.put, {"tokens": [n], "score": n})
            assert await consuming == list(range(100))

    asyncio.run(together())


def test_a_cancelled_wait_takes_nothing(lane: str, reader: TrajectoryReader) -> None:
    async def cancelled() -> None:
        task = asyncio.ensure_future(reader.aget())
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with TrajectoryWriter.attach(lane) as writer:
            writer.put({"tokens": [5], "score": 5})
        record = await reader.aget(timeout=patience())
        assert record is not None
        assert record["tokens"].tolist() == [5]

    asyncio.run(cancelled())


def test_a_standstill_of_ones_own_making_is_told(
    lane: str, reader: TrajectoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lanekit.trajectory.reader._STANDSTILL", 0.0)
    with TrajectoryWriter.attach(lane) as writer:
        kept = [reader.get(timeout=patience()) for _ in range(fill(writer))]
        thread = threading.Thread(target=writer.put, args=(BIG,))
        thread.start()

        def wait_until_told() -> None:
            while not reader._warned:
                assert reader.get(timeout=0.3) is None

        with pytest.warns(RuntimeWarning, match="not released"):
            wait_until_told()
        kept.clear()
        assert reader.get(timeout=patience()) is not None
        thread.join()


# --- producers come and go ------------------------------------------------------------------------


def test_all_rings_taken_is_said_and_one_that_is_left_is_taken(
    lane: str, reader: TrajectoryReader
) -> None:
    first, second = TrajectoryWriter.attach(lane), TrajectoryWriter.attach(lane)
    with pytest.raises(lanekit.PlaceTaken, match="more producers"):
        TrajectoryWriter.attach(lane)
    threading.Timer(0.05, first.close).start()
    with TrajectoryWriter.attach(lane, timeout=patience()) as third:
        assert third.put({"tokens": [3], "score": 3}) == 1
    assert first.closed
    with pytest.raises(lanekit.HandleClosed):
        first.put({"tokens": [1], "score": 1})
    second.close()


def test_a_lane_that_is_not_there_is_said_and_waited_for(lane: str) -> None:
    with pytest.raises(lanekit.SegmentNotFound, match=r"TrajectoryReader\.create"):
        TrajectoryWriter.attach(lane)
    made: list[TrajectoryReader] = []
    timer = threading.Timer(
        0.05, lambda: made.append(TrajectoryReader.create(lane, SMALL, producers=1))
    )
    timer.start()
    with TrajectoryWriter.attach(lane, timeout=patience()) as writer:
        assert writer.schema.names == ("tokens", "score")
    timer.join()
    made[0].close()


def test_statistics_count_for_each_producer(lane: str, reader: TrajectoryReader) -> None:
    with TrajectoryWriter.attach(lane) as one, TrajectoryWriter.attach(lane) as two:
        puts = fill(one)
        one.put(BIG, timeout=0)
        two.put({"tokens": [1], "score": 1})
        batch = reader.get_batch(2, timeout=patience())
        stats = reader.stats()
        assert (stats.records, stats.depth, stats.released) == (puts + 1, puts + 1, 0)
        assert {ring.records for ring in stats.producers} == {puts, 1}
        assert {ring.pid for ring in stats.producers} == {os.getpid()}
        assert stats.depth_bytes > puts * 1200
        assert stats.stalls == 1
        batch.release()
        assert reader.stats().released == 2
        info = inspect_trajectory_lane(lane)
        assert info.stats.records == puts + 1
        assert info.consumer_pid == os.getpid()
        assert (info.consumer, info.takeovers) == ("alive", 0)
        assert str(info.schema) == "tokens: int32[:], score: float32"
    assert reader.stats().producers == ()


# --- consumers follow each other ------------------------------------------------------------------


def test_a_second_consumer_is_refused_while_the_first_lives(
    lane: str, reader: TrajectoryReader
) -> None:
    with pytest.raises(lanekit.SegmentExists, match=f"process {os.getpid()}") as refused:
        TrajectoryReader.create(lane, SMALL)
    assert refused.value.owner_pid == os.getpid()
    with pytest.raises(lanekit.SegmentExists):
        TrajectoryReader.create(lane, SMALL, resume=False)


def test_what_was_not_released_comes_to_the_successor(lane: str) -> None:
    first = TrajectoryReader.create(lane, SCHEMA, producers=2, ring_bytes=16384)
    with TrajectoryWriter.attach(lane) as writer:
        for number in range(1, 11):
            writer.put(arrays_of(1, number), meta_of(1, number))
        batch = first.get_batch(6, timeout=patience())
        for index in (0, 2, 5):
            batch[index].release()
        first.leave()
        assert first.closed
        batch.release()  # too late: this one has gone
        with TrajectoryReader.create(lane, SCHEMA, producers=9) as second:
            assert second.taken_over
            assert second.producers == 2
            writer.put(arrays_of(1, 11), meta_of(1, 11))
            found = [check_record(record)[1] for record in second.get_batch(8, timeout=patience())]
            assert found == [2, 4, 5, 7, 8, 9, 10, 11]
            assert inspect_trajectory_lane(lane).takeovers == 1


def test_a_successor_waits_past_what_was_released_out_of_order(lane: str) -> None:
    first = TrajectoryReader.create(lane, SMALL, producers=1)
    with TrajectoryWriter.attach(lane) as writer:
        for n in range(3):
            writer.put({"tokens": [n], "score": n})
        batch = first.get_batch(3, timeout=patience())
        batch[1].release()
        batch[2].release()
        first.leave()
        with TrajectoryReader.create(lane, SMALL) as second:
            record = second.get(timeout=patience())
            assert record is not None
            assert record["tokens"].tolist() == [0]
            threading.Timer(0.05, writer.put, args=({"tokens": [3], "score": 3},)).start()
            record = second.get(timeout=patience())
            assert record is not None
            assert record["tokens"].tolist() == [3]
            assert second.stats().depth == 1


def test_a_successor_with_another_schema_is_refused_or_starts_anew(lane: str) -> None:
    first = TrajectoryReader.create(lane, SMALL, producers=2, ring_bytes=16384)
    with TrajectoryWriter.attach(lane) as writer:
        writer.put({"tokens": [1], "score": 1})
        first.leave()
        other = {"tokens": "int64[:]"}
        with pytest.raises(lanekit.SchemaMismatch, match=r"1 records.*resume=False"):
            TrajectoryReader.create(lane, other)
        with TrajectoryReader.create(lane, other, producers=1, resume=False) as second:
            assert not second.taken_over
            assert second.try_get() is None
            with pytest.raises(lanekit.PeerLost, match="attach again"):
                writer.put({"tokens": [1], "score": 1})


def test_a_closed_lane_tells_producers_that_wait(lane: str) -> None:
    reader = TrajectoryReader.create(lane, SMALL, producers=1, ring_bytes=4096)
    with TrajectoryWriter.attach(lane) as writer:
        fill(writer)
        threading.Timer(0.05, reader.close).start()
        with pytest.raises(lanekit.PeerLost):
            writer.put(BIG)
    with pytest.raises(lanekit.HandleClosed):
        reader.get()
    reader.close()


# --- misuse ---------------------------------------------------------------------------------------


def test_two_threads_in_one_reader_are_an_error_and_release_is_not(
    lane: str, reader: TrajectoryReader
) -> None:
    with TrajectoryWriter.attach(lane) as writer:
        puts = fill(writer)
        batch = reader.get_batch(puts, timeout=patience())

        def wait() -> None:
            while True:
                try:
                    assert reader.get() is not None
                    return
                except lanekit.ConcurrentUse:  # the other thread was inside
                    continue

        thread = threading.Thread(target=wait)
        thread.start()
        seen = 0
        while seen < 20:
            try:
                assert reader.try_get() is None
            except lanekit.ConcurrentUse:
                seen += 1
        batch.release()  # while the other thread is inside
        assert writer.put(BIG, timeout=patience())
        thread.join()


def test_a_forked_child_is_refused_and_harms_nobody(lane: str, root: Path) -> None:
    code = f"""
import os, numpy as np, lanekit
reader = lanekit.TrajectoryReader.create({lane!r}, {SMALL!r}, producers=1)
writer = lanekit.TrajectoryWriter.attach({lane!r})
writer.put({{"tokens": [1], "score": 1.0}})
record = reader.get()
pid = os.fork()
if pid == 0:
    one = {{"tokens": [1], "score": 1.0}}
    for call in (lambda: reader.get(timeout=0), lambda: writer.put(one)):
        try:
            call()
            os._exit(1)
        except lanekit.HandleForked:
            pass
    del record, call
    reader.close()
    writer.close()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert record["tokens"].tolist() == [1]
assert reader.stats().depth == 1
writer.put({{"tokens": [2], "score": 2.0}})
assert reader.get()["tokens"].tolist() == [2]
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=patience(120), env=environment)


@pytest.mark.parametrize("what", ["reader.get()", "reader.get_batch(1000)", "writer.put(big)"])
def test_ctrl_c_ends_a_wait_and_nothing_is_lost(lane: str, what: str) -> None:
    code = f"""
import numpy as np, lanekit
reader = lanekit.TrajectoryReader.create({lane!r}, {SMALL!r}, producers=1, ring_bytes=4096)
writer = lanekit.TrajectoryWriter.attach({lane!r})
big = {{"tokens": [7] * 300, "score": 1.0}}
puts = 1
writer.put(big)
if "put" in {what!r}:
    while writer.put(big, timeout=0):
        puts += 1
elif "batch" not in {what!r}:
    reader.get().release()
    puts = 0
try:
    print("ready", flush=True)
    {what}
except KeyboardInterrupt:
    assert len(reader.get_batch(10, timeout=0)) == puts
    print("left", puts, flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    with process:
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.05)  # for it to be inside; a signal that comes sooner ends it, too
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline().startswith("left")
            assert process.wait(timeout=patience()) == 0
        finally:
            process.kill()


def test_a_ring_that_was_overwritten_costs_that_producer_only(
    lane: str, reader: TrajectoryReader
) -> None:
    with TrajectoryWriter.attach(lane) as bad, TrajectoryWriter.attach(lane) as good:
        bad.put({"tokens": [1], "score": 1})
        good.put({"tokens": [2], "score": 2})
        path = segment_path(segment_name("traj", lane))
        with path.open("r+b") as file:
            header = file.read(4096)
            (control,) = struct.unpack_from("<Q", header, 512 + 40)
            file.seek(control)
            file.write(struct.pack("<Q", 1 << 50))  # the head of the first ring
        outcomes: list[object] = []
        for _ in range(4):
            try:
                record = reader.get(timeout=0)
                outcomes.append(record and record["tokens"].tolist())
            except lanekit.SegmentCorrupt as error:
                outcomes.append("ring 0" if "ring 0 was overwritten" in str(error) else error)
        assert sorted(map(str, outcomes)) == ["None", "None", "[2]", "ring 0"]
        with pytest.raises(lanekit.SegmentCorrupt, match="attach again"):
            bad.put({"tokens": [1], "score": 1})
        assert good.put({"tokens": [3], "score": 3}) == 2
        record = reader.get(timeout=patience())
        assert record is not None
        assert record["tokens"].tolist() == [3]
        assert [ring.spoiled for ring in reader.stats().rings] == [True, False]


def test_a_truncated_lane_is_an_error_and_no_crash(lane: str) -> None:
    code = f"""
import os, lanekit
reader = lanekit.TrajectoryReader.create({lane!r}, {SMALL!r}, producers=1)
writer = lanekit.TrajectoryWriter.attach({lane!r})
writer.put({{"tokens": [1], "score": 1.0}})
os.truncate("/dev/shm/" + lanekit.segment_name("traj", {lane!r}), 0)
for call in (lambda: reader.get(timeout=1), lambda: writer.put({{"tokens": [1], "score": 1.0}})):
    try:
        call()
    except lanekit.SegmentTruncated as error:
        print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
    assert (done.stdout, done.returncode) == ("refused\nrefused\n", 0), done.stderr
