"""Reading back: what was stored, byte for byte, by cursor, by agent, from indexes."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_batches import RUN, STREAM, a_step, episodes, events, steps

from lanekit.errors import MissingExtra, RunNotFound, StoreError
from lanekit.slow.batches import (
    Kind,
    episodes_batch,
    events_batch,
    rows_to_steps,
    steps_batch,
)
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.commit_order import SELECT
from lanekit.slow.store.records import RunState
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore

NEWER = b"\xf8\x3f\x2a\xca\x3f\x03new"  # fields 1023 and 1017 of a version to come


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[TelemetrySQLiteStore]:
    with TelemetrySQLiteStore.open(path) as opened:
        opened.register_stream(RUN, STREAM, "worker", 42, "host", "/spool")
        yield opened


@pytest.fixture
def reader(store: TelemetrySQLiteStore, path: Path) -> Iterator[RunStore]:
    with RunStore.open(path) as opened:
        yield opened


def append_steps(store: TelemetrySQLiteStore, *made: pb.Step, stream_id: str = STREAM) -> None:
    committed = store.register_stream(RUN, stream_id).steps
    request = pb.PublishRunStepsRequest(
        run_id=RUN, stream_id=stream_id, first_seq=committed + 1, steps=made
    )
    store.append([steps_batch(request)])


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
    path: Path, store: TelemetrySQLiteStore, reader: RunStore, text: bytes, value: object
) -> None:
    append_steps(store, pb.Step(action_json=b"1"), pb.Step(action_json=b"2", info_json=b"3"))
    store.append([episodes(1, 1), events(1, ("odd", b"{}"))])
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE steps SET action = CAST(? AS TEXT) WHERE info = '3'", (text,))
        connection.execute("UPDATE episodes SET info = CAST(? AS TEXT)", (text,))
        connection.execute(
            "UPDATE events SET payload = CAST(?1 AS TEXT), extra = CAST(?1 AS TEXT)", (text,)
        )
    found = reader.steps(RUN)
    assert found.action == [1, value]
    assert [record.action for record in found] == [1, value]
    assert found.action_json == [b"1", text]
    assert [record.info for record in reader.episodes(RUN)] == [value]
    (event,) = reader.events(RUN)
    assert (event.payload, event.extra) == (value, {"extra": value})


@pytest.mark.parametrize(
    ("chosen", "error", "words"),
    [
        ({"agent": 3}, TypeError, "agent must be a name, or None for all; got 3"),
        ({"worker": b"w"}, TypeError, "worker must be a name"),
        ({"episode": "x"}, TypeError, "episode must be a whole number, got 'x'"),
        ({"last": 1.5}, TypeError, "last must be a whole number"),
        ({"after": None}, TypeError, "after must be a whole number"),
        ({"episode": 2**63}, ValueError, "episode must be a 64-bit number"),
        ({"limit": -1}, ValueError, "limit must not be negative"),
    ],
)
def test_a_choice_that_makes_no_sense_is_named(
    store: TelemetrySQLiteStore,
    reader: RunStore,
    chosen: dict[str, Any],
    error: type[Exception],
    words: str,
) -> None:
    append_steps(store, pb.Step())
    with pytest.raises(error, match=words):
        reader.steps(RUN, **chosen)


def test_numbers_beyond_every_run_leave_nothing_or_everything(
    store: TelemetrySQLiteStore, reader: RunStore
) -> None:
    append_steps(store, pb.Step(agent_id="a"), pb.Step(agent_id="b"))
    for agent in (None, "a"):
        assert len(reader.steps(RUN, agent=agent, after=10**30)) == 0
        assert len(reader.steps(RUN, agent=agent, last=10**30)) == (1 if agent else 2)
        assert len(reader.steps(RUN, agent=agent, limit=10**30)) == (1 if agent else 2)
    assert len(reader.steps(RUN, episode=np.int64(0))) == 2
    assert reader.step_columns(RUN, 2**64 - 1, 10)[1] == 2**64 - 1
    assert reader.event_rows(RUN, 2**64 - 1, 10) == ([], 2**64 - 1)


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


# --- by cursor -----------------------------------------------------------------------------------


def interleaved(store: TelemetrySQLiteStore) -> list[tuple[str, int]]:
    """Steps of three streams, in turn and several agents each; the order they were committed in."""
    order: list[tuple[str, int]] = []
    for turn in range(12):
        stream = f"s{turn % 3}"
        first = store.register_stream(RUN, stream).steps + 1
        rows = 1 + turn * 7 % 11
        store.append([steps(first, rows, stream_id=stream, agents=("a", "b", "c"))])
        order += [(stream, seq) for seq in range(first, first + rows)]
    return order


@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
def test_a_cursor_walks_through_all_streams_without_gap_or_repeat(
    store: TelemetrySQLiteStore, reader: RunStore, limit: int
) -> None:
    order = interleaved(store)
    walked: list[tuple[str, int]] = []
    cursor = 0
    while True:
        columns, after = reader.step_columns(RUN, cursor, limit)
        if after == cursor:
            break
        walked += [
            (columns.streams[index], seq)
            for index, seq in zip(columns.stream_index, columns.seq, strict=True)
        ]
        cursor = after
    assert walked == order
    assert cursor == reader.counts(RUN).steps == len(order)
    assert reader.step_columns(RUN, 10**12, 5) == (pb.StepColumns(), 10**12)


def test_an_answer_ends_at_its_bytes_but_never_holds_nothing(
    store: TelemetrySQLiteStore, reader: RunStore
) -> None:
    big = pb.Step(observation_json=b'"' + b"x" * 100_000 + b'"')
    framed = pb.Step(frame=pb.Frame(width=200, height=200, channels=3, pixels=b"p" * 120_000))
    append_steps(store, *[big] * 5, *[framed] * 5)
    sizes = []
    cursor = 0
    while cursor < 10:
        columns, cursor = reader.step_columns(RUN, cursor, 100, max_bytes=250_000)
        sizes.append(columns.rows)
    assert sizes == [2, 2, 2, 2, 2]
    assert reader.step_columns(RUN, 0, 100, max_bytes=1)[0].rows == 1
    without, cursor = reader.step_columns(RUN, 5, 100, frames=False, max_bytes=250_000)
    assert (without.rows, len(without.frame), cursor) == (5, 0, 10)


def test_reading_goes_on_while_another_thread_writes(
    store: TelemetrySQLiteStore, reader: RunStore
) -> None:
    for stream in ("x", "y"):
        store.register_stream(RUN, stream)
    total = 6_000

    def write() -> None:
        for first in range(1, total // 2, 30):
            store.append([steps(first, 30, stream_id=s, agents=("a", "b")) for s in ("x", "y")])

    writer = threading.Thread(target=write)
    writer.start()
    seen: dict[str, list[int]] = {"x": [], "y": []}
    cursor = 0
    while cursor < total:
        columns, cursor = reader.step_columns(RUN, cursor, 512)
        for index, seq in zip(columns.stream_index, columns.seq, strict=True):
            seen[columns.streams[index]].append(seq)
    writer.join()
    assert seen == {stream: list(range(1, total // 2 + 1)) for stream in ("x", "y")}


# --- by what is asked for ------------------------------------------------------------------------


def test_filters_limits_and_cursors_agree_with_a_plain_filter(
    store: TelemetrySQLiteStore, reader: RunStore
) -> None:
    interleaved(store)
    everything = list(enumerate(reader.steps(RUN)))
    for agent in (None, "a", "b", "nobody"):
        for episode in (None, 0, 1, 99):
            for after in (0, 1, 17, 60, 10**6):
                fitting = [
                    record
                    for position, record in everything
                    if agent in (None, record.agent_id)
                    and episode in (None, record.episode)
                    and position >= after
                ]
                asked = {"agent": agent, "episode": episode, "after": after}
                assert list(reader.steps(RUN, **asked)) == fitting  # type: ignore[arg-type]
                for count in (0, 1, 5, 1000):
                    last = reader.steps(RUN, last=count, **asked)  # type: ignore[arg-type]
                    first = reader.steps(RUN, limit=count, **asked)  # type: ignore[arg-type]
                    assert list(last) == (fitting[-count:] if count else [])
                    assert list(first) == fitting[:count]
    assert len(reader.steps(RUN, worker="worker")) == len(everything)
    assert len(reader.steps(RUN, worker="nobody")) == 0


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


# --- files, threads, plans -----------------------------------------------------------------------


def test_a_store_that_is_not_there_is_named_and_not_made(path: Path) -> None:
    with pytest.raises(StoreError, match="lanekit daemon"):
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
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
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
    store: TelemetrySQLiteStore, reader: RunStore, path: Path
) -> None:
    store.append([steps(1, 10)])
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM steps WHERE step = 5")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match=r"damaged.*integrity_check"):
        reader.steps(RUN)


PLANS = [
    (
        "the last steps of an agent",
        f"{SELECT[Kind.STEPS]} WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1000",
    ),
    (
        "the steps of an agent's episode",
        f"{SELECT[Kind.STEPS]} WHERE id BETWEEN ? AND ? AND episode = ? ORDER BY id",
    ),
    (
        "the episode returns of a run",
        "SELECT episode, episode_return FROM episodes WHERE id BETWEEN ? AND ? ORDER BY id",
    ),
    (
        "the same in one statement",
        "SELECT agent_id, episode, episode_return FROM tracks JOIN episodes"
        " ON episodes.id BETWEEN track << 40 AND ((track + 1) << 40) - 1"
        " WHERE run = (SELECT run FROM runs WHERE run_id = ?)",
    ),
    ("an agent's tracks", "SELECT track FROM tracks WHERE run = ? AND agent_id = ?"),
    (
        "the order of commits from a cursor on",
        "SELECT position, stream, first_seq, rows FROM batches WHERE kind = ? AND run = ?"
        " AND position >= ? ORDER BY position",
    ),
    ("a run by its id", "SELECT run, steps FROM runs WHERE run_id = ?"),
    ("the runs that changed", "SELECT run FROM runs WHERE revision > ? ORDER BY revision"),
    ("a stream by its id", "SELECT stream FROM streams WHERE run = ? AND stream_id = ?"),
    ("the frames of a track", "SELECT id FROM frames WHERE id BETWEEN ? AND ? ORDER BY id"),
]


@pytest.mark.parametrize(("what", "query"), PLANS, ids=[what for what, _ in PLANS])
def test_queries_are_answered_from_indexes(
    store: TelemetrySQLiteStore, reader: RunStore, what: str, query: str
) -> None:
    plan = [
        row[3]
        for row in reader.connection().execute(
            f"EXPLAIN QUERY PLAN {query}", (0,) * query.count("?")
        )
    ]
    lines = [line for line in plan if not line.startswith("SCALAR SUBQUERY")]
    assert lines
    assert all(line.startswith("SEARCH") for line in lines), plan
    assert not any("TEMP B-TREE" in line for line in plan), plan


def test_every_query_that_is_really_made_uses_an_index(
    store: TelemetrySQLiteStore, reader: RunStore
) -> None:
    """The statements themselves, caught on their way."""
    interleaved(store)
    store.append([episodes(1, 3), events(1, ("run_started", b""))])
    made: set[str] = set()
    connection = reader.connection()
    connection.set_exec_trace(lambda _cursor, sql, _bindings: made.add(sql) or True)
    reader.steps(RUN, agent="a", last=1000)
    reader.steps(RUN, agent="a", episode=1)
    reader.steps(RUN, last=5)
    reader.episodes(RUN)
    reader.episodes(RUN, agent="agent")
    reader.events(RUN, last=3)
    reader.frames(RUN, episode=1)
    reader.step_columns(RUN, 3, 7)
    reader.run(RUN)
    reader.agents(RUN)
    connection.set_exec_trace(None)
    assert len(made) > 10
    for sql in made:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", can_null(sql))]
        assert not any(line.startswith("SCAN") for line in plan), (sql, plan)


def can_null(sql: str) -> tuple[None, ...]:
    numbered = [int(piece[0]) for piece in sql.split("?")[1:] if piece[:1].isdigit()]
    return (None,) * (max(numbered) if numbered else sql.count("?"))
