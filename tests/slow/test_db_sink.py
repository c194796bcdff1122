"""The way into the store: group commits, back-pressure, and disks and locks that come and go."""

from __future__ import annotations

import logging
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import apsw
import pytest
from made_batches import RUN, STREAM, episodes, events, steps

from lanekit.errors import InvalidEvent, RunNotFound, SequenceGap, StoreBusy, StoreError
from lanekit.slow.batches import Batch, steps_batch
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.run_bus import RunBus, Topic
from lanekit.slow.store.address import StoreAddress
from lanekit.slow.store.db_sink import TelemetryDBSink
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore
from patience import patience, until

LONG = 60
"""Seconds after which a test gives up; nothing takes that long."""


@pytest.fixture
def bus() -> RunBus:
    return RunBus()


def open_sink(address: StoreAddress, bus: RunBus, **options: float) -> TelemetryDBSink:
    sink = TelemetryDBSink(address, bus, **options)  # type: ignore[arg-type]
    register(sink)
    return sink


def register(sink: TelemetryDBSink, stream_id: str = STREAM) -> None:
    sink.call(lambda store: store.register_stream(RUN, stream_id, "worker")).result(patience())


def seqs(address: StoreAddress) -> list[int]:
    with RunStore.open(address) as reader:
        return [int(seq) for seq in reader.steps(RUN).seq]


def test_a_future_gives_the_committed_number_after_the_commit(
    address: StoreAddress, bus: RunBus
) -> None:
    with open_sink(address, bus) as sink:
        assert sink.submit(steps(1, 10)).result(patience()) == 10
        assert seqs(address) == list(range(1, 11))
        assert sink.submit(steps(5, 10)).result(patience()) == 14
        status = sink.status()
        assert (status.committed, status.queued_batches, status.stalled) == (14, 0, None)


def test_what_keeps_a_batch_out_is_raised_by_its_future_alone(
    address: StoreAddress, bus: RunBus
) -> None:
    with open_sink(address, bus) as sink:
        good, gap = sink.submit(steps(1, 3)), sink.submit(steps(9, 1))
        unknown = sink.submit(steps(1, 1, stream_id="unknown"))
        assert good.result(patience()) == 3
        with pytest.raises(SequenceGap):
            gap.result(patience())
        with pytest.raises(RunNotFound):
            unknown.result(patience())


def test_batches_that_come_together_are_committed_together(
    address: StoreAddress, bus: RunBus
) -> None:
    with open_sink(address, bus, max_delay=LONG, batch_size=64) as sink:
        futures = [sink.submit(steps(seq, 1)) for seq in range(1, 65)]
        assert [future.result(patience()) for future in futures] == list(range(1, 65))
        assert sink.status().commits == 1


def test_a_single_event_is_committed_after_the_delay(address: StoreAddress, bus: RunBus) -> None:
    with open_sink(address, bus, max_delay=0.02, batch_size=10_000) as sink:
        assert sink.submit(steps(1, 1)).result(patience()) == 1


def test_calls_see_what_was_submitted_before_them(address: StoreAddress, bus: RunBus) -> None:
    with open_sink(address, bus, max_delay=LONG, batch_size=100_000) as sink:
        for seq in range(1, 301):
            sink.submit(steps(seq, 1))
        assert sink.call(lambda store: store.run(RUN).steps).result(patience()) == 300
        with pytest.raises(RunNotFound):
            sink.call(lambda store: store.run("unknown")).result(patience())
        assert sink.call(lambda store: store.run(RUN).steps).result(patience()) == 300


def test_closing_commits_what_is_queued_and_refuses_what_comes_after(
    address: StoreAddress, bus: RunBus
) -> None:
    sink = open_sink(address, bus, max_delay=LONG, batch_size=100_000)
    futures = [sink.submit(steps(seq, 1)) for seq in range(1, 101)]
    sink.close()
    sink.close()
    assert [future.result(0) for future in futures] == list(range(1, 101))
    assert seqs(address) == list(range(1, 101))
    with pytest.raises(StoreError, match="closed"):
        sink.submit(steps(101, 1))
    with pytest.raises(StoreError, match="closed"):
        sink.call(lambda store: store.runs())


def test_closing_without_draining_acknowledges_nothing_that_is_not_stored(
    address: StoreAddress, bus: RunBus
) -> None:
    sink = open_sink(address, bus, max_delay=LONG, batch_size=100_000)
    futures = [sink.submit(steps(seq, 1)) for seq in range(1, 11)]
    sink.close(drain=False)
    for future in futures:
        with pytest.raises(StoreError, match="before this was stored"):
            future.result(0)
    assert seqs(address) == []


# --- back-pressure -------------------------------------------------------------------------------


def block(sink: TelemetryDBSink) -> threading.Event:
    """Keep the writer busy until the event is set."""
    go, begun = threading.Event(), threading.Event()

    def wait(_: TelemetrySQLiteStore) -> None:
        begun.set()
        assert go.wait(patience())

    sink.call(wait)
    assert begun.wait(patience())
    return go


def test_a_full_queue_refuses_and_tells_when_there_is_room(
    address: StoreAddress, bus: RunBus
) -> None:
    with open_sink(address, bus, queue_batches=4) as sink:
        told = threading.Event()
        stop_telling = sink.on_space(told.set)
        sink.on_space(lambda: 1 / 0)  # must not hurt the others
        go = block(sink)
        futures = [sink.try_submit(steps(seq, 1)) for seq in range(1, 7)]
        assert [future is None for future in futures] == [False] * 4 + [True] * 2
        assert sink.status().queued_batches == 4
        with pytest.raises(TimeoutError, match="full"):
            sink.submit(steps(5, 1), timeout=0.01)
        assert not told.is_set()
        go.set()
        assert told.wait(patience())
        stop_telling()
        stop_telling()
        assert sink.submit(steps(5, 2)).result(patience()) == 6


def test_a_full_queue_is_bounded_by_bytes_and_one_large_batch_still_fits(
    address: StoreAddress, bus: RunBus
) -> None:
    small = steps(1, 1)
    with open_sink(address, bus, queue_bytes=3 * small.nbytes + 1) as sink:
        go = block(sink)
        taken = [sink.try_submit(steps(seq, 1)) for seq in range(1, 10)]
        assert sum(future is not None for future in taken) == 3
        assert sink.status().queued_bytes <= 3 * small.nbytes + 1
        go.set()
        until(lambda: sink.status().queued_batches == 0)
        assert sink.submit(steps(4, 500)).result(patience()) == 503


def test_senders_wait_for_room_and_nothing_is_lost(address: StoreAddress, bus: RunBus) -> None:
    with open_sink(address, bus, queue_batches=2, batch_size=1) as sink:
        for stream in ("a", "b", "c"):
            register(sink, stream)

        def send(stream: str) -> None:
            futures = [sink.submit(steps(seq, 3, stream_id=stream)) for seq in range(1, 120, 3)]
            assert futures[-1].result(patience()) == 120

        threads = [threading.Thread(target=send, args=(stream,)) for stream in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience())
        assert sink.status().committed == 360
    assert sorted(seqs(address)) == sorted(list(range(1, 121)) * 3)


# --- disks and locks -----------------------------------------------------------------------------


def fat_steps(first_seq: int, rows: int) -> Batch:
    text = b'"' + b"x" * 1000 + b'"'
    columns = pb.StepColumns(rows=rows, observation_json=[text] * rows)
    return steps_batch(
        pb.PublishRunStepsRequest(
            run_id=RUN, stream_id=STREAM, first_seq=first_seq, columns=columns
        )
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB; an empty directory when none may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    yield place
    if mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_stalls_the_sink_and_nothing_is_lost_once_it_is_freed(
    small_disk: Path, bus: RunBus, caplog: pytest.LogCaptureFixture
) -> None:
    path = small_disk / "store.db"
    ballast = small_disk / "ballast"
    if small_disk.is_mount():
        ballast.write_bytes(b"\0" * 2**20)

        def free() -> None:
            ballast.unlink()
    else:
        # No mount allowed here: a limit on the size of files, which a write runs into as well.
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**19, hard))

        def free() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    with open_sink(path, bus, queue_batches=8) as sink:
        waiting: list[Future[int]] = []
        with caplog.at_level(logging.WARNING):
            first = 1
            while (stalled := sink.status().stalled) is None:
                future = sink.try_submit(fat_steps(first, 50))
                if future is None:
                    time.sleep(0.005)
                    continue
                waiting.append(future)
                first += 50
                assert first < 10_000
            assert "disk full" in stalled or "input/output error" in stalled
            # What was acknowledged is there, what was not keeps its place, and the rest is refused.
            while (further := sink.try_submit(fat_steps(first, 50))) is not None:
                waiting.append(further)
                first += 50
            done = [future for future in waiting if future.done()]
            acknowledged = max((future.result(0) for future in done), default=0)
            assert seqs(path) == list(range(1, acknowledged + 1))
            assert sink.status().queued_batches > 0
            with pytest.raises(StoreError, match=r"disk full|input/output"):
                sink.call(lambda store: store.create_run("x", config_json=b" " * 2**20)).result(
                    patience()
                )
            free()
            for future in waiting:
                future.result(patience())
        assert sink.status().stalled is None
        assert sink.submit(fat_steps(1, 50)).result(patience()) == first - 1
        said = [r for r in caplog.records if "nothing can be stored" in r.message]
        assert len(said) == 1
        assert "storing again" in caplog.text
    assert seqs(path) == list(range(1, first))


def test_a_locked_file_stalls_the_sink_until_it_is_released(path: Path, bus: RunBus) -> None:
    holder = (
        "import sys, apsw; c = apsw.Connection(sys.argv[1]); c.execute('BEGIN EXCLUSIVE');"
        "print('held', flush=True); sys.stdin.read()"
    )
    with open_sink(path, bus) as sink:
        assert sink.submit(steps(1, 5)).result(patience()) == 5
        with subprocess.Popen(
            [sys.executable, "-c", holder, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "held\n"
            future = sink.submit(steps(6, 5))
            until(lambda: (sink.status().stalled or "").startswith("locked"))
            assert not future.done()
            with pytest.raises(StoreBusy, match="another process"):
                sink.call(lambda store: store.create_run("x")).result(patience())
            assert sink.submit(steps(11, 5)) is not None
            process.stdin.close()
        assert future.result(patience()) == 10
        until(lambda: sink.status().committed == 15)
        assert sink.status().stalled is None
    assert seqs(path) == list(range(1, 16))


def test_closing_while_stalled_gives_up_in_the_end_and_acknowledges_nothing(
    path: Path, bus: RunBus
) -> None:
    sink = open_sink(path, bus)
    other = apsw.Connection(str(path))
    other.execute("BEGIN EXCLUSIVE")
    futures = [sink.submit(steps(1, 5))]
    until(lambda: sink.status().stalled is not None)
    futures.append(sink.submit(steps(6, 5)))
    sink.close(timeout=0.1)
    for future in futures:
        with pytest.raises(StoreError):
            future.result(0)
    assert (sink.status().queued_batches, sink.status().queued_bytes) == (0, 0)
    other.close()
    assert seqs(path) == []


def test_an_agent_too_many_is_refused_and_the_others_go_on(
    address: StoreAddress, bus: RunBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lanekit.slow.store.stream_tracks.MAX_TRACK", 3)
    with open_sink(address, bus) as sink:
        register(sink, "b")
        go = block(sink)
        many = sink.submit(steps(1, 9, stream_id="b", agents=("1", "2", "3", "4")))
        few = sink.submit(steps(1, 9, agents=("1", "2")))
        go.set()
        with pytest.raises(InvalidEvent, match="name agents, not single events"):
            many.result(patience())
        assert few.result(patience()) == 9
        assert sink.status().stalled is None


def test_a_batch_that_breaks_the_writer_does_not_take_its_neighbours_with_it(
    address: StoreAddress, bus: RunBus
) -> None:
    """A batch that was never checked: what the checks are for, and what happens without them."""
    broken = Batch(RUN, "b", steps(1, 1).kind, 1, 2, 10, [pb.Episode()])
    with open_sink(address, bus) as sink:
        register(sink, "b")
        go = block(sink)
        futures = [sink.submit(steps(1, 5)), sink.submit(broken), sink.submit(steps(6, 5))]
        go.set()
        assert futures[0].result(patience()) == 5
        with pytest.raises(Exception, match="could not be stored"):
            futures[1].result(patience())
        assert futures[2].result(patience()) == 10


# --- the bus -------------------------------------------------------------------------------------


def test_the_bus_carries_what_is_committed_with_its_position(
    address: StoreAddress, bus: RunBus
) -> None:
    appended = [Topic.STEP_APPENDED, Topic.EPISODE_FINALIZED, Topic.EVENT_APPENDED]
    with bus.subscribe(appended) as everything, open_sink(address, bus) as sink:
        sink.submit(steps(1, 5)).result(patience())
        sink.submit(steps(4, 5)).result(patience())
        sink.submit(steps(1, 5)).result(patience())
        sink.submit(episodes(1, 2)).result(patience())
        sink.submit(events(1, ("heartbeat", b"{}"))).result(patience())
        sink.call(lambda store: None).result(patience())
        told = [(e.topic, e.position, e.rows) for e in everything.drain()]
        assert told == [
            (Topic.STEP_APPENDED, 0, 5),
            (Topic.STEP_APPENDED, 5, 3),
            (Topic.EPISODE_FINALIZED, 0, 2),
            (Topic.EVENT_APPENDED, 0, 1),
        ]


def test_the_bus_tells_of_runs_that_start_change_and_end(
    address: StoreAddress, bus: RunBus
) -> None:
    wanted = [Topic.RUN_STARTED, Topic.RUN_COMPLETED, Topic.RUN_CHANGED]
    with bus.subscribe(wanted) as news, open_sink(address, bus) as sink:
        sink.submit(events(1, ("run_started", b""))).result(patience())
        sink.submit(events(2, ("run_failed", b'{"error": "e"}'))).result(patience())
        sink.call(lambda store: store.archive_run(RUN)).result(patience())
        sink.call(lambda store: None).result(patience())
        told = news.drain()
    assert [e.topic for e in told] == [
        Topic.RUN_CHANGED,
        Topic.RUN_CHANGED,
        Topic.RUN_STARTED,
        Topic.RUN_CHANGED,
        Topic.RUN_COMPLETED,
        Topic.RUN_CHANGED,
    ]
    assert told[2].payload.state == pb.RUN_STATE_RUNNING
    assert told[4].payload.reason == "e"
    assert told[5].payload.archived


def test_a_subscriber_that_raises_or_never_reads_does_not_hold_up_the_store(
    address: StoreAddress, bus: RunBus, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> None:
        raise RuntimeError("a subscriber's mistake")

    bus.subscribe(Topic.STEP_APPENDED, notify=fails)
    sleeper = bus.subscribe(Topic.STEP_APPENDED, size=8)
    with caplog.at_level(logging.CRITICAL), open_sink(address, bus, batch_size=1) as sink:
        for seq in range(1, 201):
            sink.submit(steps(seq, 1))
        until(lambda: sink.status().committed == 200)
    assert len(sleeper) == 8
    assert sleeper.dropped == 192
    assert seqs(address) == list(range(1, 201))
