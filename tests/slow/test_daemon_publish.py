"""Publishing to a real daemon: committed, then acknowledged, each event once."""

from __future__ import annotations

import sqlite3
import threading
import time

import grpc
import pytest
from daemon_process import (
    DaemonProcess,
    OpenCall,
    columns,
    event_names,
    events,
    failure_of,
    history,
    publish,
    publish_steps,
    register,
    run_of,
    steps,
)

from lanekit.slow.limits import MAX_RECEIVED_BYTES
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from patience import patience, until


def test_an_acknowledged_step_is_in_the_file(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    register(stub, "r")
    call = OpenCall(stub.PublishRunSteps)
    for seq in range(1, 50):
        call.send(steps("r", seq, 1))
        call.read_until(seq)
        with sqlite3.connect(f"file:{daemon.store}?mode=ro", uri=True) as file:
            assert file.execute("SELECT count(*) FROM steps").fetchone() == (seq,)
        file.close()
    assert call.finish() == []


def test_acknowledgements_are_gathered_and_the_last_covers_everything(
    stub: TrainerServiceStub,
) -> None:
    register(stub, "r")
    requests = [steps("r", 1 + 100 * i, 100) for i in range(300)]
    acks = publish(stub.PublishRunSteps, *requests)
    assert acks == sorted(acks)
    assert acks[-1] == 30_000
    assert len(acks) < 300
    assert run_of(stub, "r").steps == 30_000


def test_the_three_kinds_are_numbered_apart(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    assert publish(stub.PublishRunSteps, steps("r", 1, 7)) == [7]
    episodes = [pb.Episode(episode=i, episode_return=i / 2, length=3) for i in range(5)]
    request = pb.PublishRunEpisodesRequest(
        run_id="r", stream_id="s1", first_seq=1, episodes=episodes
    )
    assert publish(stub.PublishRunEpisodes, request) == [5]
    assert publish(stub.PublishRunEvents, events("r", 1, "run_started", "hello")) == [2]
    committed = register(stub, "r")
    assert (committed.committed_steps, committed.committed_episodes) == (7, 5)
    assert committed.committed_events == 2
    assert committed.max_message_bytes == MAX_RECEIVED_BYTES
    assert committed.max_request_bytes > 64 * 2**20
    run = run_of(stub, "r")
    assert (run.steps, run.episodes, run.events, run.state) == (7, 5, 2, pb.RUN_STATE_RUNNING)


def test_what_is_sent_again_is_acknowledged_and_not_stored_again(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    publish(stub.PublishRunSteps, steps("r", 1, 10))
    assert publish(stub.PublishRunSteps, steps("r", 1, 10))[-1] == 10
    assert publish(stub.PublishRunSteps, steps("r", 6, 10))[-1] == 15
    assert [step.seq for step in history(stub, "r")] == list(range(1, 16))
    assert [step.step for step in history(stub, "r")] == list(range(15))


def test_a_gap_is_refused_and_what_came_before_it_is_kept(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    call = OpenCall(stub.PublishRunSteps)
    call.send(steps("r", 1, 10), steps("r", 12, 10), steps("r", 22, 1))
    error = call.failure()
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "11" in error.details()
    assert register(stub, "r").committed_steps == 10


def test_an_unregistered_stream_is_not_found(stub: TrainerServiceStub) -> None:
    error = failure_of(lambda: publish(stub.PublishRunSteps, steps("r", 1, 1)))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert "register" in error.details()


def test_a_second_publisher_of_a_stream_takes_over(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    first, second = OpenCall(stub.PublishRunSteps), OpenCall(stub.PublishRunSteps)
    first.send(steps("r", 1, 5))
    first.read_until(5)
    second.send(steps("r", 6, 5))
    second.read_until(10)
    error = first.failure()
    assert error.code() is grpc.StatusCode.ABORTED
    assert "another call" in error.details()
    second.send(steps("r", 11, 5))
    second.read_until(15)
    assert second.finish() == []
    # The other kinds of the stream are other publishers' business.
    assert publish(stub.PublishRunEvents, events("r", 1, "hello")) == [1]


def test_one_call_publishes_one_stream(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    register(stub, "r", "s2")
    call = OpenCall(stub.PublishRunSteps)
    call.send(steps("r", 1, 5), steps("r", 1, 5, stream="s2"))
    error = call.failure()
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "'s1'" in error.details()
    assert "'s2'" in error.details()
    assert register(stub, "r").committed_steps == 5


def test_many_senders_publish_at_once_and_every_row_is_there(stub: TrainerServiceStub) -> None:
    def send(stream: str) -> None:
        publish_steps(stub, "r", 5_000, stream, agent=stream)

    threads = [threading.Thread(target=send, args=(f"s{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = history(stub, "r")
    assert len(rows) == 40_000
    for i in range(8):
        own = [step.seq for step in rows if step.stream_id == f"s{i}"]
        assert own == list(range(1, 5_001))


def test_unknown_fields_come_back_with_their_step(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    # Field 1000, a string: a newer sender's.
    unknown = b"\xc2\x3e\x05hello"
    newer = pb.Step(episode=1, step=2)
    newer.MergeFromString(unknown)
    request = pb.PublishRunStepsRequest(
        run_id="r", stream_id="s1", first_seq=1, steps=[pb.Step(step=1), newer]
    )
    publish(stub.PublishRunSteps, request)
    event = pb.RunEvent(name="odd")
    event.MergeFromString(unknown)
    episode = pb.Episode(episode=3)
    episode.MergeFromString(unknown)
    publish(
        stub.PublishRunEvents,
        pb.PublishRunEventsRequest(run_id="r", stream_id="s1", first_seq=1, events=[event]),
    )
    publish(
        stub.PublishRunEpisodes,
        pb.PublishRunEpisodesRequest(run_id="r", stream_id="s1", first_seq=1, episodes=[episode]),
    )
    plain, back = history(stub, "r")
    assert unknown not in plain.SerializeToString()
    assert back.SerializeToString().endswith(unknown)
    (page,) = stub.StreamRunEvents(pb.StreamRunEventsRequest(run_id="r", history_only=True))
    assert page.events[0].SerializeToString().endswith(unknown)
    (page,) = stub.StreamRunEpisodes(pb.StreamRunEpisodesRequest(run_id="r", history_only=True))
    assert page.episodes[0].SerializeToString().endswith(unknown)


@pytest.mark.once
def test_a_locked_store_holds_senders_back_and_loses_nothing(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    """The handler reads no further while the queue is full, so memory stays as it is."""
    register(stub, "r")
    blocker = sqlite3.connect(daemon.store, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    try:
        before = daemon.memory()
        text = b'"' + b"x" * 2**16 + b'"'
        sent = 0

        def requests():  # type: ignore[no-untyped-def]
            nonlocal sent
            for i in range(400):  # 400 MiB, if anybody took them
                yield pb.PublishRunStepsRequest(
                    run_id="r",
                    stream_id="s1",
                    first_seq=1 + 16 * i,
                    columns=columns(16, 16 * i, text=text),
                )
                sent += 1

        call = stub.PublishRunSteps(requests(), timeout=patience(240))
        seen = -1
        while sent != seen:  # until nothing moves any more
            seen = sent
            time.sleep(2)
        assert 0 < sent < 200
        assert daemon.memory() - before < 300 * 2**20
        # What needs no store still answers; what needs it says why not.
        error = failure_of(lambda: register(stub, "other"))
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert "locked" in error.details()
    finally:
        blocker.execute("ROLLBACK")
        blocker.close()
    assert list(call)[-1].committed_seq == 6400
    assert run_of(stub, "r").steps == 6400


def test_a_call_that_is_cut_off_leaves_what_it_sent_to_be_sent_again(
    stub: TrainerServiceStub,
) -> None:
    register(stub, "r")
    call = OpenCall(stub.PublishRunSteps)
    call.send(*(steps("r", 1 + 100 * i, 100) for i in range(20)))
    call.cancel()

    def goes_on() -> bool:
        first = register(stub, "r").committed_steps + 1
        return publish(stub.PublishRunSteps, steps("r", first, 10))[-1] == first + 9

    assert goes_on()
    rows = history(stub, "r")
    assert [step.seq for step in rows] == list(range(1, len(rows) + 1))


@pytest.mark.parametrize("durability", ["normal", "full"])
def test_both_durabilities_commit(make_daemon, durability: str) -> None:  # type: ignore[no-untyped-def]
    daemon = make_daemon("--durability", durability).start()
    with daemon.connect() as stub:
        publish_steps(stub, "r", 3_000)
        assert len(history(stub, "r")) == 3_000


def test_life_cycle_events_move_the_run(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    assert run_of(stub, "r").state == pb.RUN_STATE_SUBMITTED
    publish(stub.PublishRunEvents, events("r", 1, "run_started"))
    assert run_of(stub, "r").state == pb.RUN_STATE_RUNNING
    publish(stub.PublishRunEvents, events("r", 2, "run_failed", payload=b'{"error": "boom"}'))
    publish(stub.PublishRunEvents, events("r", 3, "worker_exited", payload=b'{"status": 3}'))
    run = run_of(stub, "r")
    assert (run.state, run.reason, run.exit_status) == (pb.RUN_STATE_FAILED, "boom", 3)
    assert event_names(stub, "r") == ["run_started", "run_failed", "worker_exited"]
    until(lambda: run_of(stub, "r").ended_wall_time_ns)
