"""A human's session: every step recorded, in the store and in the ring of JSON lines."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from daemon_process import DaemonProcess

from lanekit.errors import InvalidEvent
from lanekit.slow.human import store_recorder
from lanekit.slow.human.client_recorder import ClientRecorder
from lanekit.slow.human.record_codec import Record, to_line
from lanekit.slow.human.session_controller import SessionController
from lanekit.slow.human.storage_recorder import StorageRecorderService, ring_files
from lanekit.slow.human.store_recorder import RecordsLost, StoreRecorder
from lanekit.slow.human.telemetry_service import TelemetryService
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.run_bus import RunBus
from lanekit.slow.sending.lines import LineParser
from lanekit.slow.sending.telemetry_client import TelemetryClient
from lanekit.slow.store.db_sink import TelemetryDBSink
from lanekit.slow.store.records import EpisodeRecord, EventRecord, StepRecord
from lanekit.slow.store.run_store import RunStore
from patience import patience


class Corridor:
    """Walk to the right until the end: as small as an environment can be."""

    def __init__(self, length: int = 4) -> None:
        self.length = length
        self.place = 0
        self.rewards: dict[int, float] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.place = 0
        return np.array([self.place, self.length], np.int64), {"seeded": seed}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += int(action)
        observation = np.array([self.place, self.length], np.int64)
        reward = self.rewards.get(self.place, 1.0)
        return observation, reward, self.place >= self.length, False, {"place": self.place}

    def render(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        picture = np.zeros((2, self.length + 1, 3), np.uint8)
        picture[:, min(self.place, self.length)] = 255
        return picture


class Collected:
    """A sink that keeps everything in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.closed = False

    def record(self, record: Record) -> None:
        self.records.append(record)

    def close(self) -> None:
        self.closed = True


class Broken:
    """A sink that fails for as long as it is told to."""

    def __init__(self) -> None:
        self.broken = True
        self.records: list[Record] = []

    def record(self, record: Record) -> None:
        if self.broken:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.records.append(record)

    def close(self) -> None:
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[TelemetryDBSink]:
    with TelemetryDBSink(tmp_path / "runs.db", RunBus()) as opened:
        yield opened


# --- a session ----------------------------------------------------------------------------------


def test_a_session_is_stored_like_any_other_run(tmp_path: Path, sink: TelemetryDBSink) -> None:
    ring = StorageRecorderService(tmp_path / "ring")
    stored = StoreRecorder(sink, "ada-plays")
    with (
        TelemetryService({"store": stored, "ring": ring}) as telemetry,
        SessionController(Corridor(), telemetry, run_id="ada-plays", record_frames=True) as session,
    ):
        for seed in (7, 8):
            session.begin_episode(seed=seed)
            while not session.episode_over:
                session.act(np.int64(1))
    assert [(r.recorded, r.failed) for r in telemetry.report()] == [(14, 0), (14, 0)]
    with RunStore.open(tmp_path / "runs.db") as store:
        run = store.run("ada-plays")
        assert (run.steps, run.episodes, run.events) == (8, 2, 4)
        assert run.state == "completed"
        steps = list(store.steps("ada-plays", agent="human"))
        assert [step.step for step in steps] == [0, 1, 2, 3] * 2
        assert [step.observation for step in steps[:2]] == [[1, 4], [2, 4]]
        assert [step.action for step in steps[:2]] == [1, 1]
        assert steps[0].info == {"place": 1}
        assert [step.seed for step in steps[3:5]] == [7, 8]
        assert steps[3].terminated
        episodes = list(store.episodes("ada-plays"))
        assert [(e.episode_return, e.length, e.terminated) for e in episodes] == [
            (4.0, 4, True)
        ] * 2
        started = [e.payload for e in store.events("ada-plays") if e.name == "episode_started"]
        assert started[0]["observation"] == [0, 4]
        assert started[1]["info"] == {"seeded": 8}
        frames = store.frames("ada-plays")
        assert len(frames) == 8
        assert frames[0].pixels[0, 1].tolist() == [255, 255, 255]
    (file,) = ring_files(tmp_path / "ring")
    parsed = LineParser("ada-plays").parse(file.read_bytes())
    assert not parsed.rejected
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert len(lines) == 14
    kinds = [line.get("event_type") or line["event"] for line in lines]
    assert kinds[:3] == ["run_started", "episode_started", "step"]
    assert kinds[-2:] == ["episode", "run_completed"]


def test_an_episode_that_is_left_counts_as_truncated() -> None:
    collected = Collected()
    session = SessionController(Corridor(), TelemetryService({"all": collected}), run_id="r")
    session.begin_episode()
    session.act(1)
    session.begin_episode()
    session.end()
    session.end()
    episodes = [r for r in collected.records if isinstance(r, EpisodeRecord)]
    assert [(e.episode, e.length, e.terminated, e.truncated) for e in episodes] == [
        (0, 1, False, True),
        (1, 0, False, True),
    ]
    with pytest.raises(RuntimeError, match="session has ended"):
        session.act(1)


def test_acting_without_an_episode_is_refused() -> None:
    session = SessionController(Corridor(1), TelemetryService({"all": Collected()}), run_id="r")
    with pytest.raises(RuntimeError, match=r"call begin_episode\(\) first"):
        session.act(1)
    session.begin_episode()
    session.act(1)
    assert session.episode_over
    with pytest.raises(RuntimeError, match=r"call begin_episode\(\) first"):
        session.act(1)


def test_an_environment_that_raises_ends_the_run_as_failed() -> None:
    collected = Collected()
    with pytest.raises(ValueError, match="invalid literal"):
        with SessionController(
            Corridor(), TelemetryService({"all": collected}), run_id="r"
        ) as session:
            session.begin_episode()
            session.act("left")
    last = collected.records[-1]
    assert isinstance(last, EventRecord)
    assert last.name == "run_failed"
    assert "invalid literal" in last.payload["error"]


def test_a_reward_that_is_no_number_does_not_stop_the_game(
    tmp_path: Path, sink: TelemetryDBSink
) -> None:
    env = Corridor()
    env.rewards = {2: math.nan, 3: math.inf}
    stored = StoreRecorder(sink, "r")
    with TelemetryService({"store": stored}) as telemetry:
        session = SessionController(env, telemetry, run_id="r")
        session.begin_episode()
        while not session.episode_over:
            session.act(1)
    assert telemetry.report()[0].failed == 0
    with RunStore.open(tmp_path / "runs.db") as store:
        steps = list(store.steps("r"))
        assert [step.reward for step in steps] == [1.0, None, None, 1.0]
        assert steps[1].extra == {"reward_not_finite": "nan"}
        assert store.episodes("r").episode_return.tolist() == [2.0]


def test_values_without_a_json_form_are_recorded_as_text() -> None:
    record = StepRecord(
        run_id="r",
        episode=0,
        step=0,
        observation={"grid": np.eye(2), "bounds": (1, 2), "policy": Corridor},
        info={"reward": np.float32(0.5)},
    )
    line = json.loads(to_line(record))
    assert line["observation"]["grid"] == [[1.0, 0.0], [0.0, 1.0]]
    assert line["observation"]["bounds"] == [1, 2]
    assert "Corridor" in line["observation"]["policy"]
    assert line["info"] == {"reward": 0.5}


# --- several sinks ------------------------------------------------------------------------------


def test_a_sink_that_fails_does_not_stop_the_others_and_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken, collected = Broken(), Collected()
    telemetry = TelemetryService({"disk": broken, "memory": collected})
    with caplog.at_level(logging.WARNING):
        taken = [telemetry.record(EventRecord("r", f"e{i}")) for i in range(5)]
        broken.broken = False
        assert telemetry.record(EventRecord("r", "e5")) == 2
        broken.broken = True
        reports = telemetry.close()
    assert taken == [1] * 5
    assert len(collected.records) == 6
    assert collected.closed
    disk, memory = reports
    assert (disk.recorded, disk.failed) == (1, 5)
    assert "Input/output error" in disk.last_error
    assert (memory.recorded, memory.failed, memory.last_error) == (6, 0, "")
    said = [record.getMessage() for record in caplog.records]
    assert [text.split()[1] for text in said] == ["failed,", "works", "could", "5"]
    with pytest.raises(RuntimeError, match="closed"):
        telemetry.record(EventRecord("r", "late"))


def test_an_event_that_can_not_be_stored_takes_no_number(
    tmp_path: Path, sink: TelemetryDBSink
) -> None:
    stored = StoreRecorder(sink, "r")
    telemetry = TelemetryService({"store": stored})
    telemetry.record(StepRecord("r", 0, 0))
    telemetry.record(StepRecord("r", 0, 1, agent_id="x" * 1000))
    telemetry.record(StepRecord("r", 0, 2))
    (report,) = telemetry.close()
    assert (report.recorded, report.failed) == (2, 1)
    assert "InvalidEvent" in report.last_error
    with RunStore.open(tmp_path / "runs.db") as store:
        assert [step.step for step in store.steps("r")] == [0, 2]


def test_records_wait_for_a_store_that_is_locked_and_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with TelemetryDBSink(path, RunBus(), queue_batches=4) as sink:
        stored = StoreRecorder(sink, "r")
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        for i in range(50):
            stored.record(StepRecord("r", 0, i))  # does not wait
        assert not stored.flush(0.2)
        other.execute("ROLLBACK")
        other.close()
        assert stored.flush(60)
        stored.close()
    with RunStore.open(path) as store:
        assert store.steps("r").step.tolist() == list(range(50))


def test_too_many_waiting_records_are_refused_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_recorder, "MOST_WAITING", 10)
    path = tmp_path / "runs.db"
    with TelemetryDBSink(path, RunBus()) as sink:
        stored = StoreRecorder(sink, "r")
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        telemetry = TelemetryService({"store": stored})
        for i in range(12):
            telemetry.record(StepRecord("r", 0, i))
        (report,) = telemetry.report()
        assert (report.recorded, report.failed) == (10, 2)
        assert "wait for the store already" in report.last_error
        with pytest.raises(RecordsLost, match="10 records are not stored") as lost:
            stored.close(timeout=0.1)
        assert lost.value.records == 10
        other.close()


def test_several_threads_may_record_at_once(tmp_path: Path, sink: TelemetryDBSink) -> None:
    stored = StoreRecorder(sink, "r")

    def play(agent: str) -> None:
        for i in range(100):
            stored.record(StepRecord("r", 0, i, agent_id=agent))

    threads = [threading.Thread(target=play, args=(f"a{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored.close()
    with RunStore.open(tmp_path / "runs.db") as store:
        assert store.counts("r").steps == 400
        for i in range(4):
            assert store.steps("r", agent=f"a{i}").step.tolist() == list(range(100))
        assert sorted(store.steps("r").seq.tolist()) == list(range(1, 401))


# --- the ring -----------------------------------------------------------------------------------


def names_in(directory: Path) -> list[str]:
    lines = [line for path in ring_files(directory) for line in path.read_bytes().splitlines()]
    return [json.loads(line)["event"] for line in lines]


def test_the_ring_keeps_the_newest_within_its_bound(tmp_path: Path) -> None:
    ring = StorageRecorderService(tmp_path, max_file_bytes=400, max_total_bytes=1000)
    for i in range(200):
        ring.record(EventRecord("r", f"event-{i}"))
        on_disk = sum(path.stat().st_size for path in ring_files(tmp_path))
        assert on_disk == ring.total_bytes <= 1000
    ring.close()
    names = names_in(tmp_path)
    assert names == [f"event-{i}" for i in range(200 - len(names), 200)]
    assert len(names) >= 5
    assert ring.deleted_bytes > 0


def test_a_later_recorder_goes_on_with_the_ring(tmp_path: Path) -> None:
    for session in range(5):
        ring = StorageRecorderService(tmp_path, max_file_bytes=200, max_total_bytes=600)
        for i in range(3):
            ring.record(EventRecord("r", f"event-{session}-{i}"))
        ring.close()
        ring.close()
    names = names_in(tmp_path)
    assert names[-4:] == ["event-3-2", "event-4-0", "event-4-1", "event-4-2"]
    assert sum(path.stat().st_size for path in ring_files(tmp_path)) <= 600
    StorageRecorderService(tmp_path, max_file_bytes=100, max_total_bytes=200)
    assert sum(path.stat().st_size for path in ring_files(tmp_path)) <= 200


def test_other_files_in_the_ring_directory_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text("x" * 5000)
    ring = StorageRecorderService(tmp_path, max_file_bytes=100, max_total_bytes=200)
    for i in range(20):
        ring.record(EventRecord("r", f"event-{i}"))
    ring.close()
    assert (tmp_path / "notes.jsonl").exists()


def test_a_record_larger_than_a_file_gets_a_file_of_its_own(tmp_path: Path) -> None:
    ring = StorageRecorderService(tmp_path, max_file_bytes=100, max_total_bytes=2000)
    ring.record(EventRecord("r", "small"))
    ring.record(EventRecord("r", "large", payload="x" * 500))
    ring.record(EventRecord("r", "small again"))
    with pytest.raises(InvalidEvent, match="does not fit into a ring of 2,000"):
        ring.record(EventRecord("r", "huge", payload="x" * 5000))
    ring.close()
    assert names_in(tmp_path) == ["small", "large", "small again"]
    assert len(ring_files(tmp_path)) == 3


def test_two_recorders_in_one_directory_keep_to_their_own_files(tmp_path: Path) -> None:
    one, two = StorageRecorderService(tmp_path), StorageRecorderService(tmp_path)
    for i in range(3):
        one.record(EventRecord("r", f"one-{i}"))
        two.record(EventRecord("r", f"two-{i}"))
    one.close()
    two.close()
    assert sorted(names_in(tmp_path)) == [f"{who}-{i}" for who in ("one", "two") for i in range(3)]


def test_a_killed_recorder_loses_nothing_it_had_taken(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from lanekit.slow.human.storage_recorder import StorageRecorderService\n"
        "from lanekit.slow.store.records import EventRecord\n"
        "ring = StorageRecorderService(sys.argv[1])\n"
        "for i in range(100): ring.record(EventRecord('r', f'event-{i}'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], timeout=patience(), check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert names_in(tmp_path) == [f"event-{i}" for i in range(100)]


def test_a_full_disk_leaves_whole_lines_and_the_ring_goes_on(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys\n"
        "from lanekit.slow.human.storage_recorder import StorageRecorderService\n"
        "from lanekit.slow.human.telemetry_service import TelemetryService\n"
        "from lanekit.slow.store.records import EventRecord\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "service = TelemetryService({'ring': StorageRecorderService(sys.argv[1])})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        "for i in range(50): service.record(EventRecord('r', f'event-{i}'))\n"
        "infinity = resource.RLIM_INFINITY\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (infinity, infinity))\n"
        "service.record(EventRecord('r', 'freed'))\n"
        "(report,) = service.close()\n"
        "print(report.recorded, report.failed)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=True,
    )
    recorded, failed = map(int, done.stdout.split())
    names = names_in(tmp_path)
    assert recorded + failed == 51
    assert failed > 0
    assert len(names) == recorded
    assert names[-1] == "freed"
    assert names[:-1] == [f"event-{i}" for i in range(recorded - 1)]


def test_impossible_bounds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_file_bytes must be"):
        StorageRecorderService(tmp_path, max_file_bytes=100, max_total_bytes=50)
    with pytest.raises(ValueError, match="at least one sink"):
        TelemetryService({})
    assert os.listdir(tmp_path) == []


# --- through a daemon ---------------------------------------------------------------------------


def test_a_session_reaches_the_store_of_a_daemon(
    daemon: DaemonProcess, short_directory: Path
) -> None:
    client = TelemetryClient("ada", target=daemon.target, spool=short_directory / "ada")
    with TelemetryService({"daemon": ClientRecorder(client)}) as telemetry:
        with SessionController(Corridor(), telemetry, run_id="ada", record_frames=True) as session:
            session.begin_episode(seed=3)
            while not session.episode_over:
                session.act(1)
        assert telemetry.record(StepRecord("somebody else's", 0, 0)) == 0
    (report,) = telemetry.report()
    assert (report.recorded, report.failed) == (8, 1)
    assert "does not belong to this client" in report.last_error
    with daemon.connect() as stub:
        (run,) = stub.ListRuns(pb.ListRunsRequest(run_id="ada")).runs
        assert (run.steps, run.episodes, run.events) == (4, 1, 3)
        request = pb.StreamRunStepsRequest(run_id="ada", history_only=True, row_wise=True)
        steps = [step for answer in stub.StreamRunSteps(request) for step in answer.steps]
        assert [step.step for step in steps] == [0, 1, 2, 3]
        assert all(step.seed == 3 and step.agent_id == "human" for step in steps)
        assert steps[0].frame.width == 5


def test_what_the_daemon_did_not_get_is_said_to_be_in_the_spool(
    short_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = TelemetryClient(
        "ada",
        target=f"unix:{short_directory}/nobody.sock",
        spool=short_directory / "ada",
        report=lambda message: None,
    )
    close = client.close
    monkeypatch.setattr(client, "close", lambda: close(0.2))
    telemetry = TelemetryService({"daemon": ClientRecorder(client)})
    telemetry.record(EventRecord("ada", "hello"))
    (report,) = telemetry.close()
    assert "bytes are not acknowledged and stay in" in report.last_error
    assert b'"hello"' in b"".join(
        path.read_bytes() for path in (short_directory / "ada").glob("journal-*")
    )
