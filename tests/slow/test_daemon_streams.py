"""Reading back over gRPC: history, then live; nothing missing, nothing twice; nobody held up."""

from __future__ import annotations

import threading
import time
from typing import Any

import grpc
import pytest
from daemon_process import (
    DaemonProcess,
    OpenCall,
    columns,
    events,
    failure_of,
    history,
    publish,
    publish_steps,
    register,
    run_of,
    steps,
)

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.proto.telemetry_pb2_grpc import TrainerServiceStub
from patience import patience, until


class Follower(threading.Thread):
    """Reads a run's steps until it has so many."""

    def __init__(self, stub: TrainerServiceStub, wanted: int, **request: Any) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[str, int]] = []
        self.cursors: list[int] = []
        self._wanted = wanted
        self._call = stub.StreamRunSteps(
            pb.StreamRunStepsRequest(run_id="r", **request), timeout=patience(240)
        )
        self.start()

    def run(self) -> None:
        for page in self._call:
            streams = page.columns.streams
            self.seen += [
                (streams[stream], seq)
                for stream, seq in zip(page.columns.stream_index, page.columns.seq, strict=True)
            ]
            self.cursors.append(page.next_cursor)
            if len(self.seen) >= self._wanted:
                self._call.cancel()
                return

    def result(self) -> list[tuple[str, int]]:
        self.join(patience(240))
        assert not self.is_alive()
        return self.seen


def test_history_and_live_meet_without_gap_or_repeat_while_events_pour_in(
    stub: TrainerServiceStub,
) -> None:
    register(stub, "r")
    total = 60_000
    done = threading.Event()

    def pour() -> None:
        requests = (steps("r", 1 + 100 * i, 100) for i in range(total // 100))
        publish(stub.PublishRunSteps, *requests)
        done.set()

    threading.Thread(target=pour, daemon=True).start()
    followers = []
    for share in range(6):
        until(lambda share=share: run_of(stub, "r").steps >= share * total // 8)
        followers.append((0, Follower(stub, total)))
        cursor = share * 777
        followers.append((cursor, Follower(stub, total - cursor, cursor=cursor)))
    for cursor, follower in followers:
        assert follower.result() == [("s1", seq) for seq in range(cursor + 1, total + 1)]
        assert follower.cursors[-1] == total
        assert follower.cursors == sorted(set(follower.cursors))
    assert done.wait(patience())


def test_history_ends_where_it_ended_when_asked_for(stub: TrainerServiceStub) -> None:
    """However fast more comes."""
    register(stub, "r")
    stop = threading.Event()

    def pour() -> None:
        def requests() -> Any:
            seq = 1
            while not stop.is_set():
                yield steps("r", seq, 1000)
                seq += 1000

        list(stub.PublishRunSteps(requests(), timeout=patience(120)))

    thread = threading.Thread(target=pour)
    thread.start()
    try:
        before = until(lambda: run_of(stub, "r").steps)
        request = pb.StreamRunStepsRequest(run_id="r", history_only=True)
        pages = list(stub.StreamRunSteps(request, timeout=patience(120)))
        assert sum(page.columns.rows for page in pages) == pages[-1].next_cursor >= before
        until(lambda: run_of(stub, "r").steps > pages[-1].next_cursor)
    finally:
        stop.set()
        thread.join(patience())


def test_every_cursor_is_a_place_to_begin(stub: TrainerServiceStub) -> None:
    for stream in ("s1", "s2"):
        publish_steps(stub, "r", 30, stream)
        publish_steps(stub, "r", 30, stream)
    everything = [(step.stream_id, step.seq) for step in history(stub, "r")]
    assert len(everything) == len(set(everything)) == 120
    for cursor in range(125):
        rest = [(step.stream_id, step.seq) for step in history(stub, "r", cursor)]
        assert rest == everything[cursor:]


@pytest.mark.parametrize("cursor", [2**62, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_cursor_beyond_all_numbers_has_no_history(stub: TrainerServiceStub, cursor: int) -> None:
    publish_steps(stub, "r", 3)
    assert history(stub, "r", cursor) == []


def test_a_cursor_beyond_the_end_waits_for_it(stub: TrainerServiceStub) -> None:
    publish_steps(stub, "r", 10)
    follower = Follower(stub, 5, cursor=20)
    time.sleep(1.5)
    assert follower.seen == []
    publish_steps(stub, "r", 8)  # 18: not yet
    time.sleep(1.5)
    assert follower.seen == []
    publish_steps(stub, "r", 7)
    assert follower.result() == [("s1", seq) for seq in range(21, 26)]


def test_one_agents_steps_alone(stub: TrainerServiceStub) -> None:
    agents = ["a", "b", ""]
    register(stub, "r")
    mixed = columns(3000)
    del mixed.names[:]
    mixed.names.extend(agents)
    mixed.worker_index[:] = [0] * 3000
    mixed.agent_index[:] = [i % 3 for i in range(3000)]
    mixed.seed_row.extend([1, 4, 5])
    mixed.seed.extend([11, 44, 55])
    publish(
        stub.PublishRunSteps,
        pb.PublishRunStepsRequest(run_id="r", stream_id="s1", first_seq=1, columns=mixed),
    )
    for number, agent in enumerate(agents):
        rows = history(stub, "r", agent_id=agent)
        assert [step.step for step in rows] == list(range(number, 3000, 3))
        assert {step.agent_id for step in rows} == {agent}
    assert [step.seed for step in history(stub, "r", agent_id="b") if step.HasField("seed")] == [
        11,
        44,
    ]
    assert history(stub, "r", agent_id="nobody") == []


def test_the_cursor_moves_on_over_other_agents_steps(stub: TrainerServiceStub) -> None:
    publish_steps(stub, "r", 5_000, agent="a")
    request = pb.StreamRunStepsRequest(run_id="r", agent_id="b", history_only=True)
    pages = list(stub.StreamRunSteps(request))
    assert [page.next_cursor for page in pages] == [5_000]
    assert pages[0].columns.rows == 0


def test_columns_and_rows_say_the_same(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    step = pb.Step(
        worker_id="w",
        agent_id="ä",
        episode=2,
        step=2**62,
        action_json=b"[1, 2]",
        observation_json='{"ö": null}'.encode(),
        reward=-0.25,
        terminated=True,
        truncated=True,
        info_json=b"null",
        render_hint_json=b'"x"',
        seed=-(2**63),
        wall_time_ns=123,
        frame=pb.Frame(width=2, height=1, channels=3, pixels=b"abcdef"),
        extra_json=b'{"k": 1}',
    )
    bare = pb.Step()
    request = pb.PublishRunStepsRequest(run_id="r", stream_id="s1", first_seq=1, steps=[step, bare])
    publish(stub.PublishRunSteps, request)
    first, second = history(stub, "r")
    for expected, seq in ((step, 1), (bare, 2)):
        expected.run_id, expected.stream_id, expected.seq = "r", "s1", seq
    assert first == step
    assert second == bare
    request = pb.StreamRunStepsRequest(run_id="r", history_only=True)
    (page,) = stub.StreamRunSteps(request)
    assert page.columns.rows == 2
    assert list(page.columns.step) == [2**62, 0]
    assert page.columns.frame[0].pixels == b"abcdef"


def test_episodes_and_events_stream_too(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    seen: dict[str, list[int]] = {"episodes": [], "events": []}

    def follow(kind: str, call: Any) -> None:
        for page in call:
            seen[kind] += [row.seq for row in getattr(page, kind)]
            if len(seen[kind]) == 40:
                call.cancel()
                return

    calls = {
        "episodes": stub.StreamRunEpisodes(
            pb.StreamRunEpisodesRequest(run_id="r"), timeout=patience()
        ),
        "events": stub.StreamRunEvents(pb.StreamRunEventsRequest(run_id="r"), timeout=patience()),
    }
    threads = [threading.Thread(target=follow, args=item) for item in calls.items()]
    for thread in threads:
        thread.start()
    for first in range(1, 41, 10):
        publish(stub.PublishRunEvents, events("r", first, *["tick"] * 10))
        request = pb.PublishRunEpisodesRequest(
            run_id="r", stream_id="s1", first_seq=first, episodes=[pb.Episode()] * 10
        )
        publish(stub.PublishRunEpisodes, request)
    for thread in threads:
        thread.join(patience())
    assert seen == {"episodes": list(range(1, 41)), "events": list(range(1, 41))}


def test_an_unknown_run_is_not_found(stub: TrainerServiceStub) -> None:
    for call in (
        lambda: stub.StreamRunSteps(pb.StreamRunStepsRequest(run_id="no-such-run")),
        lambda: stub.StreamRunEpisodes(pb.StreamRunEpisodesRequest(run_id="no-such-run")),
        lambda: stub.StreamRunEvents(pb.StreamRunEventsRequest(run_id="no-such-run")),
    ):
        error = failure_of(call)
        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert "no-such-run" in error.details()


def test_two_hundred_watchers_do_not_disturb_publishing(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    publish_steps(stub, "r", 1_000)
    publish_steps(stub, "quiet", 1)
    followers = [Follower(stub, 6_000, cursor=1_000) for _ in range(100)]
    idle = [
        stub.StreamRunSteps(pb.StreamRunStepsRequest(run_id="quiet", cursor=1)) for _ in range(100)
    ]
    publish_steps(stub, "r", 6_000)
    for follower in followers:
        assert follower.result() == [("s1", seq) for seq in range(1_001, 7_001)]
    for call in idle:
        call.cancel()


def test_a_viewer_that_never_reads_holds_up_only_itself(
    daemon: DaemonProcess, stub: TrainerServiceStub
) -> None:
    publish_steps(stub, "r", 1)
    before = daemon.memory()
    with daemon.connect() as other:
        stalled = [
            other.StreamRunSteps(pb.StreamRunStepsRequest(run_id="r")) for _ in range(5)
        ]  # nobody iterates over them
        call = OpenCall(stub.PublishRunSteps)
        text = b'"' + b"x" * 4096 + b'"'
        for i in range(400):
            request = pb.PublishRunStepsRequest(
                run_id="r",
                stream_id="s1",
                first_seq=2 + 50 * i,
                columns=columns(50, 50 * i, text=text),
            )
            call.send(request)
            if i % 10 == 9:
                call.read_until(51 + 50 * i)
        call.finish()
        reader = Follower(stub, 20_001)
        assert [seq for _, seq in reader.result()] == list(range(1, 20_002))
        # 80 MB went by; each of the five holds a page or two.
        assert daemon.memory() - before < 250 * 2**20
        for slow in stalled:
            slow.cancel()


def test_rows_larger_than_a_page_still_come(stub: TrainerServiceStub) -> None:
    register(stub, "r")
    text = b'"' + b"x" * (12 * 2**20) + b'"'
    for i in range(4):
        request = pb.PublishRunStepsRequest(
            run_id="r", stream_id="s1", first_seq=1 + i, columns=columns(1, i, text=text)
        )
        publish(stub.PublishRunSteps, request)
    rows = history(stub, "r")
    assert [len(step.observation_json) for step in rows] == [len(text)] * 4


@pytest.mark.once
def test_heavy_reading_of_history_leaves_room_for_publishing(stub: TrainerServiceStub) -> None:
    publish_steps(stub, "r", 8_000)
    stop = threading.Event()

    def read_all_the_time() -> None:
        while not stop.is_set():
            assert len(history(stub, "r")) >= 8_000

    threads = [threading.Thread(target=read_all_the_time) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        register(stub, "other")
        for seq in range(1, 100):
            publish(stub.PublishRunSteps, steps("other", seq, 1))
    finally:
        stop.set()
        for thread in threads:
            thread.join(patience(120))
    assert run_of(stub, "other").steps == 99
