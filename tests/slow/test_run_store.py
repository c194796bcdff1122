"""Reading back: what was stored, byte for byte, from any file and thread."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_batches import RUN, STREAM, a_step, append_steps, episodes, events, steps

from lanekit.errors import MissingExtra, RunNotFound, StoreError
from lanekit.slow.batches import (
    episodes_batch,
    events_batch,
    rows_to_steps,
)
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.records import RunState
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore
from patience import patience

NEWER = b"\xf8\x3f\x2a\xca\x3f\x03new"  # fields 1023 and 1017 of a version to come


# --- round trips ---------------------------------------------------------------------------------

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
WRITTEN = [
    b'{"b":1,  "a":[1.0,2.50]}',
    b'"\xe2\x82\xac\xf0\x9f\x98\x80"',
    b'"\\u0000\\ud83d\\ude00"',
    b"  null ",
    b"-0.0",
    b"1e-400",
    b"123456789012345678901234567890",
    b'""',
    b"[]",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_json_comes_back_byte_for_byte(
    store: TelemetrySQLiteStore, reader: RunStore, text: bytes
) -> None:
    step = pb.Step(action_json=text, observation_json=text, info_json=text, render_hint_json=text)
    step.extra_json = b' {"kept": %b}' % text
    append_steps(store, pb.Step(), step, pb.Step())
    found = reader.steps(RUN)
    for column in (
        found.action_json,
        found.observation_json,
        found.info_json,
        found.render_hint_json,
    ):
        assert column == [None, text, None]
    assert found.extra_json == [None, step.extra_json, None]
    columns, _ = reader.step_columns(RUN, 1, 1)
    assert columns.action_json[0] == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"1e400", math.inf),
        (b"[1, -1e999]", [1, -math.inf]),
        # Never taken from a sender now, but a file may hold it.
        (b"NaN and more", "NaN and more"),
        (b'"\\ud800"', "\ud800"),
        (b"\xff", "\ufffd"),
        (b"[" * 100_000, "[" * 100_000),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_one_odd_value_never_keeps_the_others_from_being_read(
    path: Path, file_store: TelemetrySQLiteStore, file_reader: RunStore, text: bytes, value: object
) -> None:
    append_steps(file_store, pb.Step(action_json=b"1"), pb.Step(action_json=b"2", info_json=b"3"))
    file_store.append([episodes(1, 1), events(1, ("odd", b"{}"))])
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE steps SET action = CAST(? AS TEXT) WHERE info = '3'", (text,))
        connection.execute("UPDATE episodes SET info = CAST(? AS TEXT)", (text,))
        connection.execute(
            "UPDATE events SET payload = CAST(?1 AS TEXT), extra = CAST(?1 AS TEXT)", (text,)
        )
    found = file_reader.steps(RUN)
    assert found.action == [1, value]
    assert [record.action for record in found] == [1, value]
    assert found.action_json == [b"1", text]
    assert [record.info for record in file_reader.episodes(RUN)] == [value]
    (event,) = file_reader.events(RUN)
    assert (event.payload, event.extra) == (value, {"extra": value})


def test_without_a_path_the_daemons_usual_store_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANEKIT_STATE", str(tmp_path))
    with pytest.raises(StoreError, match="there is no store at"):
        RunStore.open()
    TelemetrySQLiteStore.open(tmp_path / "lanekit.db").close()
    with RunStore.open() as usual:
        assert usual.runs() == []


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(json_values, st.sampled_from(["", "a", "b"])), min_size=1, max_size=200))
def test_values_of_any_shape_come_back(
    store: TelemetrySQLiteStore, reader: RunStore, values: list[tuple[object, str]]
) -> None:
    import msgspec

    before = store.run(RUN).steps
    made = [
        pb.Step(agent_id=agent, action_json=msgspec.json.encode(value)) for value, agent in values
    ]
    append_steps(store, *made)
    found = reader.steps(RUN, after=before)
    assert found.action == [msgspec.json.decode(step.action_json) for step in made]
    assert found.agent.tolist() == [step.agent_id for step in made]


def test_every_field_and_those_not_known_yet_survive_a_round_trip(
    store: TelemetrySQLiteStore, reader: RunStore
) -> None:
    full = pb.Step(
        worker_id="w",
        agent_id="a",
        episode=-(2**63),
        step=2**63 - 1,
        action_json=b"[1, 2]",
        observation_json=b"{}",
        reward=-0.5,
        terminated=True,
        truncated=True,
        info_json=b'{"k":"v"}',
        render_hint_json=b'"dark"',
        seed=-3,
        wall_time_ns=2**62,
        frame=pb.Frame(width=2, height=1, channels=3, pixels=b"abcdef"),
        extra_json=b'{"x":1}',
    )
    full.MergeFromString(NEWER)
    made = [pb.Step(), full, a_step(3)]
    append_steps(store, *made)
    columns, cursor = reader.step_columns(RUN, 0, 10)
    assert cursor == 3
    for seq, step in enumerate(made, 1):
        step.run_id, step.stream_id, step.seq = RUN, STREAM, seq
    answered = rows_to_steps(columns, RUN)
    assert answered == made
    assert NEWER in answered[1].SerializeToString()


def test_episodes_and_events_survive_a_round_trip(
    store: TelemetrySQLiteStore, reader: RunStore
) -> None:
    episode = pb.Episode(worker_id="w", agent_id="a", episode=4, episode_return=0.0, length=9)
    episode.seed, episode.info_json, episode.extra_json = 0, b"{ }", b'{"z":0}'
    episode.MergeFromString(NEWER)
    event = pb.RunEvent(worker_id="w", name="custom", wall_time_ns=5, payload_json=b'{"p" :1}')
    event.MergeFromString(NEWER)
    plain_episode, plain_event = pb.Episode(), pb.RunEvent(name="x")
    store.append(
        [
            episodes_batch(
                pb.PublishRunEpisodesRequest(
                    run_id=RUN, stream_id=STREAM, first_seq=1, episodes=[episode, plain_episode]
                )
            ),
            events_batch(
                pb.PublishRunEventsRequest(
                    run_id=RUN, stream_id=STREAM, first_seq=1, events=[plain_event, event]
                )
            ),
        ]
    )
    for number, made in enumerate((episode, plain_episode), 1):
        made.run_id, made.stream_id, made.seq = RUN, STREAM, number
    for number, noted in enumerate((plain_event, event), 1):
        noted.run_id, noted.stream_id, noted.seq = RUN, STREAM, number
    assert reader.episode_rows(RUN, 0, 10) == ([episode, plain_episode], 2)
    assert reader.event_rows(RUN, 0, 10) == ([plain_event, event], 2)
    assert reader.event_rows(RUN, 1, 10) == ([event], 2)
    records = reader.events(RUN)
    assert [(r.name, r.payload, r.worker_id) for r in records] == [
        ("x", None, ""),
        ("custom", {"p": 1}, "w"),
    ]
    found = reader.episodes(RUN)
    assert found.episode_return[0] == 0.0
    assert math.isnan(found.episode_return[1])
    assert [(r.episode, r.seed, r.info) for r in found] == [(4, 0, {}), (0, None, None)]


def test_columns_are_arrays_of_the_right_kind(
    store: TelemetrySQLiteStore, reader: RunStore
) -> None:
    append_steps(store, pb.Step(episode=1, step=2, reward=0.5, terminated=True), pb.Step())
    found = reader.steps(RUN)
    assert len(found) == 2
    assert found.episode.dtype == found.step.dtype == found.wall_time_ns.dtype == np.int64
    assert found.reward.dtype == np.float64
    assert found.reward[0] == 0.5
    assert np.isnan(found.reward[1])
    assert found.terminated.tolist() == [True, False]
    assert found.seed == [None, None]
    nothing = reader.steps(RUN, agent="nobody")
    assert len(nothing) == len(nothing.reward) == len(nothing.agent) == len(nothing.action) == 0


def test_steps_and_episodes_become_arrow_tables(
    store: TelemetrySQLiteStore, reader: RunStore
) -> None:
    pytest.importorskip("pyarrow")
    append_steps(store, a_step(1), pb.Step())
    store.append([episodes(1, 2)])
    table = reader.steps(RUN).to_arrow()
    assert table.column("action").to_pylist() == ["1", None]
    assert table.column("reward").to_pylist() == [0.25, None]
    assert table.column("agent").to_pylist() == ["agent", ""]
    assert reader.episodes(RUN).to_arrow().column("episode_return").to_pylist() == [0.5, 1.0]
    assert reader.steps(RUN, agent="nobody").to_arrow().num_rows == 0


def test_arrow_tables_without_pyarrow_name_the_package(
    store: TelemetrySQLiteStore, reader: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'lanekit\[export\]'"):
        reader.steps(RUN).to_arrow()
    with pytest.raises(MissingExtra, match=r"pip install 'lanekit\[export\]'"):
        reader.episodes(RUN).to_arrow()


def test_frames_come_in_order_and_one_by_one(store: TelemetrySQLiteStore, reader: RunStore) -> None:
    def framed(number: int, agent: str) -> pb.Step:
        frame = pb.Frame(width=3, height=2, channels=1, pixels=bytes([number] * 6))
        return pb.Step(agent_id=agent, episode=number // 4, step=number, frame=frame)

    append_steps(store, *(framed(n, "ab"[n % 2]) for n in range(8)), pb.Step(step=99))
    append_steps(store, framed(8, "a"), stream_id="other")
    append_steps(store, framed(9, "a"))
    frames = reader.frames(RUN)
    assert [int(frame.pixels[0, 0, 0]) for frame in frames] == list(range(10))
    assert len(frames) == 10
    assert frames[3].pixels.shape == (2, 3, 1)
    assert not frames[3].pixels.flags.writeable
    assert [frame.step for frame in frames[-2:]] == [8, 9]
    assert [f.step for f in reader.frames(RUN, agent="a")] == [0, 2, 4, 6, 8, 9]
    assert [f.step for f in reader.frames(RUN, episode=1, agent="b")] == [5, 7]
    assert list(reader.frames(RUN, episode=77)) == []


def test_runs_are_records(store: TelemetrySQLiteStore, reader: RunStore) -> None:
    store.append([steps(1, 3, agents=("b", "a")), episodes(1, 1, agent="c")])
    store.append([events(1, ("run_started", b""), ("run_failed", b'{"error": "why"}'))])
    store.create_run("archived", command=["x"], config_json=b'{"lr": 1}')
    store.archive_run("archived")
    assert [run.run_id for run in reader.runs()] == [RUN]
    archived, run = reader.runs(include_archived=True)
    assert (archived.archived, archived.command, archived.config) == (True, ("x",), {"lr": 1})
    assert archived.state is RunState.SUBMITTED
    assert (run.state, run.reason, run.exit_status) == (RunState.FAILED, "why", None)
    assert run.state.is_over
    assert (run.steps, run.episodes, run.events) == tuple(reader.counts(RUN)) == (3, 1, 2)
    assert [(w.stream_id, w.pid, w.host, w.spool_directory) for w in run.workers] == [
        (STREAM, 42, "host", "/spool")
    ]
    assert reader.agents(RUN) == ["a", "b", "c"]
    assert [message.run_id for message in reader.run_messages(run.revision)] == ["archived"]


def test_a_run_that_is_not_there_is_named(store: TelemetrySQLiteStore, reader: RunStore) -> None:
    for ask in (reader.run, reader.steps, reader.episodes, reader.events, reader.counts):
        with pytest.raises(RunNotFound, match=r"nobody's.*lanekit runs"):
            ask("nobody's")
    for page in (reader.step_columns, reader.episode_rows, reader.event_rows):
        with pytest.raises(RunNotFound):
            page("nobody's", 0, 10)
        with pytest.raises(ValueError, match="cursor"):
            page(RUN, -1, 10)
    with pytest.raises(RunNotFound):
        reader.frames("nobody's")
    for wrong in ({"last": -1}, {"limit": -1}, {"after": -1}, {"last": 1, "limit": 1}):
        with pytest.raises(ValueError, match=r"must not be negative|not both"):
            reader.steps(RUN, **wrong)  # type: ignore[arg-type]


# --- files and threads ----------------------------------------------------------------------------


def test_a_store_that_is_not_there_is_named_and_not_made(path: Path) -> None:
    with pytest.raises(StoreError, match="lanekit demo"):
        RunStore.open(path)
    assert not path.exists()
    path.touch()
    with pytest.raises(StoreError, match="version 0"):
        RunStore.open(path)


READ_AS_NOBODY = """
import os, sys
from lanekit.slow.store.run_store import RunStore
if os.getuid() == 0:
    os.setuid(65534)
assert not os.access(os.path.dirname(sys.argv[1]), os.W_OK)
with RunStore.open(sys.argv[1]) as reader:
    print(len(reader.steps(sys.argv[2])))
"""


def test_a_finished_store_in_a_directory_that_may_not_be_written_is_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "store.db"
        with TelemetrySQLiteStore.open(path) as store:
            store.register_stream(RUN, STREAM)
            store.append([steps(1, 3)])
        path.chmod(0o444)
        path.parent.chmod(0o555)
        command = [sys.executable, "-c", READ_AS_NOBODY, str(path), RUN]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=patience()
        )
        path.parent.chmod(0o755)
        assert (answer.stdout, answer.stderr) == ("3\n", "")


def test_every_thread_reads_through_a_connection_of_its_own(
    store: TelemetrySQLiteStore, reader: RunStore
) -> None:
    store.append([steps(1, 500)])
    lengths: list[int] = []

    def read() -> None:
        lengths.extend(len(reader.steps(RUN)) for _ in range(5))

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lengths == [500] * 30
    reader.close()
    with pytest.raises(StoreError, match="closed"):
        reader.steps(RUN)


def test_rows_that_are_missing_are_noticed(
    file_store: TelemetrySQLiteStore, file_reader: RunStore, path: Path
) -> None:
    file_store.append([steps(1, 10)])
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM steps WHERE step = 5")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match=r"damaged.*integrity_check"):
        file_reader.steps(RUN)
