"""Reading back some of a run: by cursor, by agent, by episode, from indexes."""

from __future__ import annotations

import threading
from typing import Any

import apsw
import numpy as np
import pytest
from made_batches import RUN, STREAM, append_steps, episodes, events, interleaved, steps

from lanekit.slow.batches import (
    Kind,
)
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.address import StoreAddress
from lanekit.slow.store.commit_order import SELECT
from lanekit.slow.store.opening import open_to_write
from lanekit.slow.store.results import Steps
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.telemetry_store import TelemetryStore

# --- by cursor -----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
def test_a_cursor_walks_through_all_streams_without_gap_or_repeat(
    store: TelemetryStore, reader: RunStore, limit: int
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
    store: TelemetryStore, reader: RunStore
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
    store: TelemetryStore, reader: RunStore
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
    store: TelemetryStore, reader: RunStore
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


def numbers_of(found: Steps) -> list[int]:
    return [int(seq) for seq in found.seq]


@pytest.mark.parametrize("order", ["rising", "falling once", "fallen in one batch", "by agent"])
def test_an_episode_is_found_whatever_the_order_of_episodes(
    store: TelemetryStore, reader: RunStore, order: str
) -> None:
    made = [pb.Step(episode=i // 7 - 20, step=i) for i in range(1500)]
    if order == "falling once":
        made += [pb.Step(episode=i // 7 - 20, step=i) for i in range(500)]
    elif order == "fallen in one batch":
        made[700], made[800] = made[800], made[700]
    elif order == "by agent":
        for i, step in enumerate(made):
            step.agent_id, step.episode = f"a{i % 3}", i // 7 + 40 * (i % 3)
    for start in range(0, len(made), 300):
        append_steps(store, *made[start : start + 300])
    in_order = order_flags(reader)
    assert in_order == {"rising": [1], "by agent": [1, 1, 1]}.get(order, [0])
    everything = list(enumerate(made, 1))
    for episode in (-21, -20, -19, 0, 93, 100, 194, 195, 10**6, 2**63 - 1, -(2**63)):
        wanted = [seq for seq, step in everything if step.episode == episode]
        assert numbers_of(reader.steps(RUN, episode=episode)) == wanted
        assert numbers_of(reader.steps(RUN, episode=episode, last=3)) == wanted[-3:]
        behind = [seq for seq in wanted if seq > 700]
        assert numbers_of(reader.steps(RUN, episode=episode, after=700)) == behind


def order_flags(reader: RunStore) -> list[int]:
    rows = reader.connection().execute("SELECT episodes_in_order FROM tracks ORDER BY track")
    return [flag for (flag,) in rows]


def test_a_writer_that_is_opened_anew_knows_where_the_episodes_stood(
    address: StoreAddress,
) -> None:
    for episode, in_order in ((5, 1), (5, 1), (4, 0), (9, 0)):
        with open_to_write(address) as store:
            store.register_stream(RUN, STREAM, "worker")
            append_steps(store, pb.Step(episode=episode))
        with RunStore.open(address) as reader:
            assert order_flags(reader) == [in_order]


def test_an_episode_of_an_ordered_track_is_found_without_reading_the_others(
    file_store: TelemetryStore, file_reader: RunStore
) -> None:
    append_steps(file_store, *(pb.Step(episode=i // 10, step=i) for i in range(20_000)))
    connection = file_reader.connection()
    before = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
    assert len(file_reader.steps(RUN, episode=1234)) == 10
    read = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0] - before
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    assert read < pages / 4


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
    store: TelemetryStore,
    reader: RunStore,
    chosen: dict[str, Any],
    error: type[Exception],
    words: str,
) -> None:
    append_steps(store, pb.Step())
    with pytest.raises(error, match=words):
        reader.steps(RUN, **chosen)


def test_numbers_beyond_every_run_leave_nothing_or_everything(
    store: TelemetryStore, reader: RunStore
) -> None:
    append_steps(store, pb.Step(agent_id="a"), pb.Step(agent_id="b"))
    for agent in (None, "a"):
        assert len(reader.steps(RUN, agent=agent, after=10**30)) == 0
        assert len(reader.steps(RUN, agent=agent, last=10**30)) == (1 if agent else 2)
        assert len(reader.steps(RUN, agent=agent, limit=10**30)) == (1 if agent else 2)
    assert len(reader.steps(RUN, episode=np.int64(0))) == 2
    assert reader.step_columns(RUN, 2**64 - 1, 10)[1] == 2**64 - 1
    assert reader.event_rows(RUN, 2**64 - 1, 10) == ([], 2**64 - 1)


# --- plans ---------------------------------------------------------------------------------------

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
    file_store: TelemetryStore, file_reader: RunStore, what: str, query: str
) -> None:
    plan = [
        row[3]
        for row in file_reader.connection().execute(
            f"EXPLAIN QUERY PLAN {query}", (0,) * query.count("?")
        )
    ]
    lines = [line for line in plan if not line.startswith("SCALAR SUBQUERY")]
    assert lines
    assert all(line.startswith("SEARCH") for line in lines), plan
    assert not any("TEMP B-TREE" in line for line in plan), plan


def test_every_query_that_is_really_made_uses_an_index(
    file_store: TelemetryStore, file_reader: RunStore
) -> None:
    """The statements themselves, caught on their way."""
    interleaved(file_store)
    file_store.append([episodes(1, 3), events(1, ("run_started", b""))])
    made: set[str] = set()
    connection = file_reader.connection()
    connection.set_exec_trace(lambda _cursor, sql, _bindings: made.add(sql) or True)
    file_reader.steps(RUN, agent="a", last=1000)
    file_reader.steps(RUN, agent="a", episode=1)
    file_reader.steps(RUN, last=5)
    file_reader.episodes(RUN)
    file_reader.episodes(RUN, agent="agent")
    file_reader.events(RUN, last=3)
    file_reader.frames(RUN, episode=1)
    file_reader.step_columns(RUN, 3, 7)
    file_reader.run(RUN)
    file_reader.agents(RUN)
    connection.set_exec_trace(None)
    assert len(made) > 10
    for sql in made:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", can_null(sql))]
        assert not any(line.startswith("SCAN") for line in plan), (sql, plan)


def can_null(sql: str) -> tuple[None, ...]:
    numbered = [int(piece[0]) for piece in sql.split("?")[1:] if piece[:1].isdigit()]
    return (None,) * (max(numbered) if numbered else sql.count("?"))
