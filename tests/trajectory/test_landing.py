"""Records of producers elsewhere, which land in the lane exactly once, whoever dies meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from landing_process import LandingProcess, SocketCarrier

from lanekit import PeerLost, PlaceTaken, SegmentNotFound, TooLarge, TrajectoryReader
from lanekit.errors import HandleClosed
from lanekit.trajectory.arrivals import Arrivals
from lanekit.trajectory.kept import KeptTrajectoryWriter
from lanekit.trajectory.landing import Landing
from lanekit.trajectory.remote import RemoteTrajectoryWriter
from patience import patience

SCHEMA = {"tokens": "int32[:]", "score": "float64", "extra": "float32[:,2]?"}


@pytest.fixture
def lane() -> Iterator[TrajectoryReader]:
    name = f"test-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    with TrajectoryReader.create(name, SCHEMA, producers=2, ring_bytes=1 << 16) as reader:
        yield reader


@pytest.fixture
def landing(lane: TrajectoryReader, tmp_path: Path) -> Iterator[LandingProcess]:
    process = LandingProcess(lane.name, tmp_path).start()
    yield process
    process.kill()


def arrays(n: int) -> dict[str, Any]:
    found: dict[str, Any] = {"tokens": np.arange(n, n + n % 7, dtype=np.int32), "score": n / 2}
    if n % 3 == 0:
        found["extra"] = np.full((n % 2, 2), n, np.float32)
    return found


def check_record(record: Any, n: int) -> None:
    expected = arrays(n)
    assert set(record) == set(expected)
    assert all(np.array_equal(record[name], value) for name, value in expected.items())


def writer_of(landing: LandingProcess, producer: str = "a", **options: Any) -> Any:
    carrier = SocketCarrier(landing.socket, twice=options.pop("twice", False))
    return RemoteTrajectoryWriter(carrier, landing.lane, producer, **options)


def take(lane: TrajectoryReader, count: int) -> list[tuple[str, int]]:
    """Take so many records, look at each, and see that no more come."""
    found = []
    for _ in range(count):
        record = lane.get(patience())
        assert record is not None
        meta = record.meta
        check_record(record, meta["n"])
        found.append((meta["who"], meta["n"]))
        record.release()
    assert lane.try_get() is None
    return found


def put(writer: RemoteTrajectoryWriter, n: int, **options: Any) -> int:
    return writer.put(arrays(n), {"who": writer.producer, "n": n}, **options)


def test_a_record_put_from_elsewhere_is_in_the_lane_when_put_returns(
    lane: TrajectoryReader, landing: LandingProcess
) -> None:
    with writer_of(landing) as writer:
        assert [put(writer, n) for n in range(1, 6)] == [1, 2, 3, 4, 5]
        assert take(lane, 5) == [("a", n) for n in range(1, 6)]
        assert writer.put(arrays(1), b"\x00bytes") == 6
        assert writer.put(arrays(2)) == 7
        assert [lane.get(patience(10)).meta for _ in range(2)] == [b"\x00bytes", None]  # type: ignore[union-attr]


def test_what_a_carrier_brings_twice_is_put_once(
    lane: TrajectoryReader, landing: LandingProcess
) -> None:
    with writer_of(landing, twice=True, window=4) as writer:
        for n in range(1, 21):
            put(writer, n)
    assert take(lane, 20) == [("a", n) for n in range(1, 21)]


@pytest.mark.parametrize("die", ["announced:4", "committed:4"])
@pytest.mark.parametrize("window", [1, 8])
def test_a_landing_killed_around_a_put_neither_loses_nor_doubles_it(
    lane: TrajectoryReader, tmp_path: Path, die: str, window: int
) -> None:
    process = LandingProcess(lane.name, tmp_path).start(die)
    successors = threading.Thread(target=lambda: (process.wait(), process.start()))
    successors.start()
    with writer_of(process, window=window) as writer:
        for n in range(1, 11):
            put(writer, n)
    successors.join()
    assert take(lane, 10) == [("a", n) for n in range(1, 11)]
    process.kill()


def test_landings_killed_again_and_again_lose_nothing_of_several_producers(
    lane: TrajectoryReader, landing: LandingProcess
) -> None:
    count, failures = 60, []

    def produce(name: str, window: int) -> None:
        try:
            with writer_of(landing, name, window=window) as writer:
                for n in range(1, count + 1):
                    put(writer, n)
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=produce, args=(name, window))
        for name, window in (("a", 1), ("b", 5))
    ]
    for thread in threads:
        thread.start()
    found: list[tuple[str, int]] = []
    while len(found) < 2 * count and not failures:
        record = lane.get(patience())
        assert record is not None
        found.append((record.meta["who"], record.meta["n"]))
        record.release()
        if len(found) % 30 == 0:
            landing.kill()
            landing.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert lane.try_get() is None
    for who in "ab":
        assert [n for name, n in found if name == who] == list(range(1, count + 1))


def test_a_killed_producer_goes_on_where_it_was(
    lane: TrajectoryReader, landing: LandingProcess
) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from test_landing import SocketCarrier, RemoteTrajectoryWriter, put\n"
        "writer = RemoteTrajectoryWriter(SocketCarrier(Path(sys.argv[2])), sys.argv[3], 'a')\n"
        "for n in range(writer.arrived + 1, writer.arrived + 4): put(writer, n)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", code, here, str(landing.socket), lane.name]
    for _ in range(3):
        assert subprocess.run(command, timeout=patience(120)).returncode == -signal.SIGKILL
    assert take(lane, 9) == [("a", n) for n in range(1, 10)]


def test_work_that_is_done_again_from_the_beginning_is_not_put_twice(
    lane: TrajectoryReader, landing: LandingProcess
) -> None:
    first = writer_of(landing, "task-7")
    for n in range(1, 5):
        put(first, n)
    with writer_of(landing, "task-7", replay=True) as retried:
        assert retried.arrived == 4
        assert [put(retried, n) for n in range(1, 8)] == list(range(1, 8))
    assert take(lane, 7) == [("task-7", n) for n in range(1, 8)]


def test_of_two_producers_with_one_name_the_older_is_told(
    lane: TrajectoryReader, landing: LandingProcess
) -> None:
    old = writer_of(landing)
    put(old, 1)
    new = writer_of(landing)
    with pytest.raises(PlaceTaken, match="give each its own"):
        put(old, 2)
    with pytest.raises(PeerLost):
        put(old, 3)
    put(new, 2)
    assert take(lane, 2) == [("a", 1), ("a", 2)]


def test_a_full_lane_makes_producers_elsewhere_wait_and_drops_nothing(
    lane: TrajectoryReader, landing: LandingProcess
) -> None:
    big = {"tokens": np.zeros(5000, np.int32), "score": 0.0}
    with writer_of(landing) as writer:
        sent = 0
        while writer.put(big, {"n": sent}, timeout=0):
            sent += 1
        assert sent > 1
        assert writer.put(big, {"n": "never"}, timeout=0.3) == 0
        assert writer.on_their_way == 0
        record = lane.get(patience(10))
        assert record is not None
        record.release()
        del record
        assert writer.put(big, {"n": sent}) == sent + 1
    seen = [lane.get(patience(10)).meta["n"] for _ in range(sent)]  # type: ignore[union-attr]
    assert seen == list(range(1, sent + 1))


def test_a_window_is_full_when_the_lane_is(lane: TrajectoryReader, landing: LandingProcess) -> None:
    big = {"tokens": np.zeros(5000, np.int32), "score": 0.0}
    writer = writer_of(landing, window=3)
    sent = 0
    while writer.put(big, {"n": sent + 1}, timeout=0.5):
        sent += 1
    assert writer.on_their_way == 3
    assert not writer.flush(timeout=0.2)
    for n in range(1, sent + 1):
        record = lane.get(patience(30))
        assert record is not None
        assert record.meta["n"] == n
        record.release()
        del record
        if n > sent - 3:
            continue
        writer.flush(timeout=0.2)
    writer.close()


def test_one_who_leaves_in_order_gives_the_ring_back(
    lane: TrajectoryReader, landing: LandingProcess
) -> None:
    with writer_of(landing) as writer:
        put(writer, 1)
        landing.stop()
        landing.start()
        put(writer, 2)
    landing.stop()
    assert lane.stats().producers == ()
    assert take(lane, 2) == [("a", 1), ("a", 2)]


def test_bad_records_are_refused_where_they_are_put(
    lane: TrajectoryReader, landing: LandingProcess
) -> None:
    with writer_of(landing) as writer:
        with pytest.raises(ValueError, match="unknown field 'tokns'"):
            writer.put({"tokns": [1], "tokens": [1], "score": 1.0})
        with pytest.raises(ValueError, match="missing field 'score'"):
            writer.put({"tokens": [1]})
        with pytest.raises(TypeError, match=r"astype\('int32'\)"):
            writer.put({"tokens": np.zeros(3), "score": 1.0})
        with pytest.raises(ValueError, match="has shape"):
            writer.put({"tokens": np.int32(3), "score": 1.0})
        with pytest.raises(TooLarge, match="ring_bytes"):
            writer.put({"tokens": np.zeros(20_000, np.int32), "score": 1.0})
        with pytest.raises(TypeError, match="JSON"):
            writer.put(arrays(1), object())
        assert put(writer, 1) == 1
    with pytest.raises(HandleClosed):
        put(writer, 2)
    assert take(lane, 1) == [("a", 1)]


def test_a_writer_says_when_nobody_has_answered_for_too_long(tmp_path: Path) -> None:
    with pytest.raises(PeerLost, match="Is the trainer there"):
        RemoteTrajectoryWriter(SocketCarrier(tmp_path / "nobody"), "lane", "a", absence=0.1)


def test_a_landing_says_what_is_in_its_way(
    lane: TrajectoryReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lanekit.trajectory.arrivals.LOCK_SECONDS", 0.1)
    with pytest.raises(SegmentNotFound, match=r"TrajectoryReader\.create"):
        Landing("no-such-lane-anywhere", tmp_path / "book.db")
    with Landing(lane.name, tmp_path / "book.db") as landing:
        assert landing.admit("a").arrived == 0
        with pytest.raises(ValueError, match="non-empty"):
            landing.admit("")
        with pytest.raises(PeerLost, match="attach to the new one"):
            landing.deliver("another key", "a", 1, 1, [], patience=0.0)
        with pytest.raises(PlaceTaken, match="another process lands"):
            Arrivals(tmp_path / "book.db", "key")


def test_the_book_of_another_lane_says_nothing_about_this_one(tmp_path: Path) -> None:
    book = Arrivals(tmp_path / "book.db", "first")
    book.welcome("a")
    book.announce("a", 1, 0)
    book.announce("a", 2, 64)
    book.close()
    again = Arrivals(tmp_path / "book.db", "first")
    assert (again.producers["a"].arrived, again.intent) == (1, again.intent)
    assert again.intent is not None
    assert again.intent.number == 2
    again.settle(put=True)
    assert again.producers["a"].arrived == 2
    again.close()
    other = Arrivals(tmp_path / "book.db", "second")
    assert other.producers == {}
    assert other.intent is None
    other.close()


def test_a_kept_place_is_nobody_elses(lane: TrajectoryReader) -> None:
    with KeptTrajectoryWriter.take_place(lane.name) as writer:
        before = writer.position
        assert (writer.ring, writer.session) == (0, 1)
        writer.put(arrays(1))
        assert writer.position > before
        with pytest.raises(PlaceTaken, match="live producer"):
            KeptTrajectoryWriter.take_place(lane.name, 0)
    with pytest.raises(SegmentNotFound):
        KeptTrajectoryWriter.take_place("no-such-lane-anywhere")
