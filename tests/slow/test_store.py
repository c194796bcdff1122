"""The store, in a file and in a database: each event once, runs as their events tell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_batches import RUN, STREAM, actions, episodes, events, steps

from lanekit.errors import RunExists, RunNotFound, SequenceGap
from lanekit.slow.batches import Batch, steps_batch
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.address import StoreAddress
from lanekit.slow.store.opening import open_to_write
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.telemetry_store import Committed, StreamCommitted, TelemetryStore

# --- exactly once --------------------------------------------------------------------------------


def test_a_batch_is_committed_and_a_resent_one_is_not_stored_again(
    store: TelemetryStore, address: StoreAddress
) -> None:
    assert store.append([steps(1, 5)]) == [Committed(5, 0, 5)]
    assert store.append([steps(1, 5)]) == [Committed(5, 5, 0)]
    assert store.append([steps(4, 4)]) == [Committed(7, 5, 2)]
    assert actions(address) == [(STREAM, seq, b"%d" % seq) for seq in range(1, 8)]


def test_a_gap_is_refused_and_the_batches_beside_it_are_stored(
    store: TelemetryStore, address: StoreAddress
) -> None:
    store.register_stream(RUN, "other")
    good, gap, also_good = store.append([steps(1, 2), steps(4, 2), steps(1, 3, stream_id="other")])
    assert good == Committed(2, 0, 2)
    assert isinstance(gap, SequenceGap)
    assert "committed up to 2" in str(gap)
    assert also_good == Committed(3, 2, 3)
    assert len(actions(address)) == 5


def test_a_stream_that_was_never_registered_is_refused(store: TelemetryStore) -> None:
    answers = store.append([steps(1, 1, stream_id="unheard"), steps(1, 1, run_id="unheard")])
    assert all(isinstance(answer, RunNotFound) for answer in answers)


streams = st.sampled_from(["s1", "s2", "s3"])


def test_resends_and_overlaps_of_several_streams_leave_each_event_once(
    address: StoreAddress,
) -> None:
    @settings(
        max_examples=60 if isinstance(address, Path) else 15,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.lists(
            st.lists(
                st.tuples(streams, st.integers(-6, 2), st.integers(1, 200)), min_size=1, max_size=4
            ),
            max_size=12,
        ),
        st.booleans(),
    )
    def check(groups: list[list[tuple[str, int, int]]], reopen: bool) -> None:
        store = open_to_write(address)
        run = f"run-{len(store.runs())}"
        for stream in ("s1", "s2", "s3"):
            store.register_stream(run, stream)
        committed = {"s1": 0, "s2": 0, "s3": 0}
        order: list[tuple[str, int, bytes | None]] = []
        for group in groups:
            batches: list[Batch] = []
            expected: list[int | None] = []
            for stream, offset, rows in group:
                first = max(1, committed[stream] + 1 + offset)
                batches.append(
                    steps(first, rows, run_id=run, stream_id=stream, agents=("a", "b", "c"))
                )
                if first > committed[stream] + 1:
                    expected.append(None)
                    continue
                for seq in range(committed[stream] + 1, first + rows):
                    order.append((stream, seq, b"%d" % seq))
                committed[stream] = max(committed[stream], first + rows - 1)
                expected.append(committed[stream])
            answers = store.append(batches)
            assert [
                a.committed_seq if isinstance(a, Committed) else None for a in answers
            ] == expected
            if reopen:
                store.close()
                store = open_to_write(address)
        assert store.run(run).steps == len(order)
        for stream, seq in committed.items():
            assert store.register_stream(run, stream) == StreamCommitted(seq, 0, 0)
        store.close()
        assert actions(address, run) == order

    check()


def test_several_agents_and_workers_with_the_same_step_index_keep_all_their_rows(
    store: TelemetryStore, address: StoreAddress
) -> None:
    store.register_stream(RUN, "other")
    rows = [
        pb.Step(worker_id=worker, agent_id=agent, episode=0, step=7, action_json=b"1")
        for worker in ("w1", "w2")
        for agent in ("a", "b", "")
    ]
    for stream in (STREAM, "other"):
        request = pb.PublishRunStepsRequest(run_id=RUN, stream_id=stream, first_seq=1, steps=rows)
        store.append([steps_batch(request)])
    with RunStore.open(address) as reader:
        found = reader.steps(RUN)
        assert list(zip(found.stream, found.worker, found.agent, strict=True)) == [
            (stream, row.worker_id, row.agent_id) for stream in (STREAM, "other") for row in rows
        ]
        assert set(found.step) == {7}
        assert len(reader.steps(RUN, agent="a")) == 4
        assert len(reader.steps(RUN, agent="", worker="w2")) == 2


def test_another_connection_that_writes_the_same_run_is_noticed(
    store: TelemetryStore, address: StoreAddress
) -> None:
    with open_to_write(address) as second:
        assert store.append([steps(1, 3)]) == [Committed(3, 0, 3)]
        assert second.append([steps(2, 4)]) == [Committed(5, 3, 2)]
        assert store.append([steps(4, 3)]) == [Committed(6, 5, 1)]
    assert [seq for _, seq, _ in actions(address)] == [1, 2, 3, 4, 5, 6]


# --- killed --------------------------------------------------------------------------------------

APPENDER = """
import sys
from made_batches import RUN, STREAM, steps
from lanekit.slow.store.opening import open_to_write
store = open_to_write(sys.argv[1])
at = store.register_stream(RUN, STREAM, "worker").steps
while True:
    store.append([steps(max(1, at - 3), 40, agents=("a", "b")), steps(at + 30, 20)])
    at = store.register_stream(RUN, STREAM, "worker").steps
    print(at, flush=True)
"""


@pytest.mark.once
def test_killed_while_appending_it_keeps_all_that_was_acknowledged(address: StoreAddress) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    acknowledged = kills = 0
    while kills < (36 if isinstance(address, Path) else 8):
        command = [sys.executable, "-c", APPENDER, str(address)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            # A different moment each time: after some acknowledgements, somewhere in an append.
            for _ in range(1 + kills % 7):
                acknowledged = int(process.stdout.readline())
            time.sleep(kills % 12 * 0.0003)
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
            acknowledged = max([acknowledged, *(int(n) for n in process.stdout.read().split())])
        stored = [(seq, action) for _, seq, action in actions(address)]
        assert len(stored) >= acknowledged
        assert stored == [(seq, b"%d" % seq) for seq in range(1, len(stored) + 1)]
    with open_to_write(address) as store:
        # Behind whatever the last one had under way: a server may commit it after its death.
        committed = store.register_stream(RUN, STREAM).steps
        assert committed == store.run(RUN).steps == len(actions(address))
    if isinstance(address, Path):
        assert apsw.Connection(str(address)).pragma("integrity_check") == "ok"


# --- runs ----------------------------------------------------------------------------------------


def test_a_run_is_made_once(store: TelemetryStore) -> None:
    made = store.create_run("new", command=["train", "--fast"], config_json=b'{"lr":  1e-3}')
    assert (made.state, list(made.command)) == (pb.RUN_STATE_SUBMITTED, ["train", "--fast"])
    assert made.config_json == b'{"lr":  1e-3}'
    with pytest.raises(RunExists, match="new exists"):
        store.create_run("new")
    with pytest.raises(RunExists):
        store.create_run(RUN)


def test_a_stream_of_a_run_that_must_exist_is_refused(store: TelemetryStore) -> None:
    with pytest.raises(RunNotFound):
        store.register_stream("unknown", "s", require_run=True)
    assert [run.run_id for run in store.runs()] == [RUN]


STORIES: list[tuple[list[tuple[str, bytes]], int, int | None, str]] = [
    ([("run_started", b"")], pb.RUN_STATE_RUNNING, None, ""),
    ([("heartbeat", b"{}")], pb.RUN_STATE_RUNNING, None, ""),
    (
        [("run_started", b""), ("control_applied", b'{"command_id": 1, "action": "pause"}')],
        pb.RUN_STATE_PAUSED,
        None,
        "",
    ),
    (
        [
            ("control_applied", b'{"action": "pause"}'),
            ("control_applied", b'{"action": "resume"}'),
        ],
        pb.RUN_STATE_RUNNING,
        None,
        "",
    ),
    ([("run_completed", b"")], pb.RUN_STATE_COMPLETED, None, ""),
    (
        [("run_completed", b""), ("worker_exited", b'{"status": 3}')],
        pb.RUN_STATE_COMPLETED,
        3,
        "",
    ),
    ([("run_failed", b'{"error": "boom"}')], pb.RUN_STATE_FAILED, None, "boom"),
    ([("worker_exited", b'{"status": 0}')], pb.RUN_STATE_COMPLETED, 0, ""),
    (
        [("worker_exited", b'{"status": -9}')],
        pb.RUN_STATE_FAILED,
        -9,
        "the worker was ended by signal 9",
    ),
    (
        [("worker_exited", b'{"status": 2}')],
        pb.RUN_STATE_FAILED,
        2,
        "the worker ended with status 2",
    ),
    ([("worker_exited", b'{"status": null}')], pb.RUN_STATE_LOST, None, ""),
    ([("worker_exited", b"[1]")], pb.RUN_STATE_LOST, None, ""),
    ([("worker_exited", b'{"status": 99999999999}')], pb.RUN_STATE_LOST, None, ""),
    ([("run_failed", b'{"error": {"code": 1}}')], pb.RUN_STATE_FAILED, None, '{"code":1}'),
]


@pytest.mark.parametrize(("story", "state", "status", "reason"), STORIES)
def test_life_cycle_events_tell_the_runs_state(
    store: TelemetryStore,
    story: list[tuple[str, bytes]],
    state: int,
    status: int | None,
    reason: str,
) -> None:
    store.append([events(1, *story)])
    run = store.run(RUN)
    assert run.state == state
    assert (run.exit_status if run.HasField("exit_status") else None) == status
    assert run.reason == reason
    assert run.events == len(story)


def test_a_cancelled_run_stays_cancelled_and_still_learns_its_exit_status(
    store: TelemetryStore,
) -> None:
    store.append([events(1, ("run_started", b""))])
    assert store.run(RUN).started_wall_time_ns == 7_000
    store.set_run_state(RUN, pb.RUN_STATE_CANCELLED, ended_ns=9, reason="asked for")
    store.append([events(2, ("run_completed", b""), ("worker_exited", b'{"status": -15}'))])
    run = store.run(RUN)
    assert (run.state, run.exit_status, run.reason) == (pb.RUN_STATE_CANCELLED, -15, "asked for")


def test_an_event_that_is_resent_is_not_interpreted_again(store: TelemetryStore) -> None:
    store.append([events(1, ("run_started", b""), ("run_completed", b""))])
    store.set_run_state(RUN, "running")
    store.append([events(1, ("run_started", b""), ("run_completed", b""))])
    assert store.run(RUN).state == pb.RUN_STATE_RUNNING


def test_every_change_of_a_run_has_a_revision(store: TelemetryStore, reader: RunStore) -> None:
    store.create_run("second")
    seen = max(run.revision for run in store.runs())

    def changed() -> list[str]:
        nonlocal seen
        runs = reader.run_messages(seen)
        seen = max([seen, *(run.revision for run in runs)])
        return [run.run_id for run in runs]

    assert changed() == []
    for change in (
        lambda: store.append([steps(1, 1)]),
        lambda: store.set_run_state(RUN, "failed"),
        lambda: store.archive_run(RUN),
        lambda: store.touch_stream(RUN, STREAM, rejected=3),
        lambda: store.register_stream(RUN, "another"),
    ):
        change()
        assert changed() == [RUN]
    store.append([steps(1, 1)])
    assert changed() == []
    store.create_run("third")
    store.archive_run("second")
    assert changed() == ["third", "second"]
    assert store.run(RUN).rejected_lines == 3


def test_an_archived_run_is_hidden_and_keeps_its_data(
    store: TelemetryStore, address: StoreAddress
) -> None:
    store.append([steps(1, 4), episodes(1, 2)])
    assert store.archive_run(RUN, True).archived
    assert store.runs() == []
    assert [run.run_id for run in store.runs(include_archived=True)] == [RUN]
    assert len(actions(address)) == 4
    assert not store.archive_run(RUN, False).archived
    assert [run.run_id for run in store.runs()] == [RUN]


def test_runs_come_newest_first(store: TelemetryStore) -> None:
    for name in ("b", "a", "c"):
        store.create_run(name)
    assert [run.run_id for run in store.runs(limit=3)] == ["c", "a", "b"]


def test_commands_are_numbered_within_their_run(store: TelemetryStore) -> None:
    store.create_run("other")
    assert store.add_command(RUN, pb.CONTROL_ACTION_PAUSE) == 1
    assert store.add_command(RUN, pb.CONTROL_ACTION_STOP) == 2
    assert store.add_command("other", pb.CONTROL_ACTION_RESUME) == 1
    assert [(c.command_id, c.action) for c in store.commands(RUN)] == [
        (1, pb.CONTROL_ACTION_PAUSE),
        (2, pb.CONTROL_ACTION_STOP),
    ]
    assert [c.command_id for c in store.commands(RUN, after=1)] == [2]
    with pytest.raises(RunNotFound):
        store.add_command("unknown", pb.CONTROL_ACTION_STOP)


@pytest.mark.parametrize("run_id", ["x'; DROP TABLE steps; --", "../../etc/passwd", ""])
def test_ids_that_look_like_sql_or_paths_change_nothing(store: TelemetryStore, run_id: str) -> None:
    with pytest.raises(RunNotFound):
        store.run(run_id)
    with pytest.raises(RunNotFound):
        store.set_run_state(run_id, "failed")
    assert [run.run_id for run in store.runs()] == [RUN]
