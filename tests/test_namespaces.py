"""Processes in other pid and time namespaces, as containers that share /dev/shm are: who lives and
who is dead is the same for everybody, and each lane keeps its promise across them.

Each role is a function of this file, run by `unshare` in namespaces of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lanekit
from lanekit import (
    FastLaneConfig,
    FastLaneReader,
    FastLaneWriter,
    StepClient,
    StepServer,
    TrajectoryReader,
    TrajectoryWriter,
    inspect_segment,
    segment_name,
)
from lanekit.fast.frame import inspect_frames
from patience import patience, until

CONFIG = FastLaneConfig(8, 4, capacity=2)
PIDS = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
TIME = ["unshare", "--time", "--boottime", "100000", "--fork", "--kill-child"]
NO_PROC = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /proc && exec "$@"', "sh"]
WITHIN = {"pid namespace": PIDS, "time namespace": TIME, "no /proc": NO_PROC}


def available(within: list[str]) -> bool:
    return subprocess.run([*within, "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(
    not all(available(within) for within in WITHIN.values()),
    reason="needs root, to unshare pid and time namespaces",
)


class Elsewhere:
    """A role in other namespaces: it tells one line at a time, and goes on when it is told to."""

    def __init__(self, within: list[str], role: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [*within, sys.executable, __file__, role, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LANEKIT_TEST_PATIENCE": "10"},  # no /proc, no load to ask for
        )

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"{self.process.args} ended with {self.process.wait()}"
        return json.loads(line)

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()  # unshare; --kill-child takes the role with it, soon after
        self.process.wait()

    def end(self) -> None:
        self.kill()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def elsewhere() -> Iterator[Any]:
    started: list[Elsewhere] = []

    def start(within: list[str], role: str, *arguments: object) -> Elsewhere:
        started.append(Elsewhere(within, role, *arguments))
        return started[-1]

    yield start
    for role in started:
        role.end()


@pytest.fixture(params=WITHIN)
def within(request: pytest.FixtureRequest) -> list[str]:
    return WITHIN[request.param]


# --- the fast lane --------------------------------------------------------------------------------


def test_a_living_writer_keeps_its_run(run_id: str, within: list[str], elsewhere: Any) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        stranger = elsewhere(within, "create_frames", run_id)
        assert stranger.hear()[0] == "SegmentExists"
        assert elsewhere(within, "look", writer.name).hear() == "alive"
        assert writer.publish(np.zeros(CONFIG.shape, np.uint8)) == 1


def test_a_writer_elsewhere_is_respected_while_it_lives_and_replaced_when_it_died(
    run_id: str, within: list[str], elsewhere: Any
) -> None:
    name = segment_name("frame", run_id)
    stranger = elsewhere(within, "create_frames", run_id)
    assert stranger.hear()[0] == "worked"
    assert inspect_segment(name).owner == "alive"
    assert inspect_segment(name).foreign == (within is not TIME)
    with pytest.raises(lanekit.SegmentExists):
        FastLaneWriter.create(run_id, CONFIG)
    with FastLaneReader.attach(run_id) as reader:
        assert reader.connected
        stranger.kill()
        until(lambda: not reader.connected, "the end of the writer")
        assert inspect_segment(name).owner == "dead"
        with FastLaneWriter.create(run_id, CONFIG) as writer:
            writer.publish(np.full(CONFIG.shape, 7, np.uint8))
            assert until(lambda: (f := reader.latest_frame()) and f.array.max() == 7)


def test_a_viewer_elsewhere_counts_until_it_dies(
    run_id: str, within: list[str], elsewhere: Any
) -> None:
    with FastLaneWriter.create(run_id, CONFIG) as writer:
        writer.publish(np.zeros(CONFIG.shape, np.uint8))
        viewer = elsewhere(within, "view", run_id)
        viewer.hear()
        assert inspect_frames(writer.name).viewers == 1
        viewer.kill()
        until(lambda: inspect_frames(writer.name).viewers == 0, "the end of the viewer")


# --- the step lane --------------------------------------------------------------------------------


def test_a_lane_has_one_trainer_whatever_its_number(run_id: str, elsewhere: Any) -> None:
    """In a pid namespace of its own each of them is process 1."""
    with StepServer.create(run_id, 1, 1, 1) as server:
        first = elsewhere(PIDS, "train", run_id)
        assert first.hear() == ["attached", 1]
        assert server.state.client_pid == 1
        assert server.state.client_alive
        for others in WITHIN.values():
            assert elsewhere(others, "train", run_id).hear()[0] == "PlaceTaken"
        with pytest.raises(lanekit.PlaceTaken):
            StepClient.attach(run_id)
        assert server.wait_actions(0) is None  # nobody is called dead who lives
        first.kill()
        second = elsewhere(PIDS, "train", run_id, 100)
        assert second.hear() == ["attached", 1]
        second.kill()
        with pytest.raises(lanekit.PeerLost):
            server.wait_actions(patience())  # that second one, though it has the first one's number
        with StepClient.attach(run_id) as client:
            assert client.state.client_pid == os.getpid()


def test_an_engine_that_dies_elsewhere_is_lost(
    run_id: str, within: list[str], elsewhere: Any
) -> None:
    engine = elsewhere(within, "serve", run_id)
    engine.hear()
    with StepClient.attach(run_id) as client:
        engine.kill()
        with pytest.raises(lanekit.PeerLost):
            client.step(np.zeros((1, 1), np.float32), timeout=patience())


# --- the trajectory lane --------------------------------------------------------------------------


def test_a_consumer_elsewhere_takes_over_what_another_left(
    run_id: str, within: list[str], elsewhere: Any
) -> None:
    reader = TrajectoryReader.create(run_id, {"x": "float32"})
    producer = elsewhere(PIDS, "put", run_id, 3)
    assert producer.hear() == 3
    with reader.get_batch(n=1, timeout=patience()) as batch:
        assert batch[0]["x"] == 1
    reader.leave()
    successor = elsewhere(within, "take", run_id, 2)
    assert successor.hear() == [2.0, 3.0]
    with pytest.raises(lanekit.SegmentExists):
        TrajectoryReader.create(run_id, {"x": "float32"})
    successor.kill()
    until(lambda: inspect_segment(segment_name("traj", run_id)).owner == "dead", "its end")
    with TrajectoryReader.create(run_id, {"x": "float32"}) as third:
        with TrajectoryWriter.attach(run_id) as writer:
            writer.put({"x": 9.0})
        with third.get_batch(n=1, timeout=patience()) as batch:
            assert batch[0]["x"] == 9


def test_a_ring_is_free_when_its_producer_elsewhere_has_died(
    run_id: str, within: list[str], elsewhere: Any
) -> None:
    with TrajectoryReader.create(run_id, {"x": "float32"}, producers=1) as reader:
        producer = elsewhere(within, "put", run_id, 2)
        assert producer.hear() == 2
        with pytest.raises(lanekit.PlaceTaken):
            TrajectoryWriter.attach(run_id)
        assert [ring.liveness for ring in reader.stats().rings] == ["alive"]
        producer.kill()
        with TrajectoryWriter.attach(run_id, timeout=patience()) as writer:
            writer.put({"x": 5.0})
            with reader.get_batch(n=3, timeout=patience()) as batch:
                assert [float(record["x"]) for record in batch] == [1, 2, 5]


# --- roles ----------------------------------------------------------------------------------------


def tell(answer: Any) -> None:
    print(json.dumps(answer), flush=True)


def stay() -> None:
    sys.stdin.read()


def create_frames(run_id: str) -> None:
    try:
        writer = FastLaneWriter.create(run_id, CONFIG)
    except lanekit.LanekitError as error:
        tell([type(error).__name__, str(error)])
        return
    writer.publish(np.zeros(CONFIG.shape, np.uint8))
    tell(["worked", ""])
    stay()


def look(name: str) -> None:
    tell(inspect_segment(name).owner)


def view(run_id: str) -> None:
    with FastLaneReader.attach(run_id) as reader:
        tell(reader.latest_frame() is not None)
        stay()


def train(run_id: str, timeout: str = "0") -> None:
    try:
        client = StepClient.attach(run_id, timeout=float(timeout))
    except lanekit.LanekitError as error:
        tell([type(error).__name__, str(error)])
        return
    tell(["attached", client.state.client_pid])
    stay()


def serve(run_id: str) -> None:
    with StepServer.create(run_id, 1, 1, 1):
        tell("serving")
        stay()


def put(run_id: str, count: str) -> None:
    with TrajectoryWriter.attach(run_id) as writer:
        for number in range(1, int(count) + 1):
            writer.put({"x": float(number)})
        tell(int(count))
        stay()


def take(run_id: str, count: str) -> None:
    with TrajectoryReader.create(run_id, {"x": "float32"}) as reader:
        with reader.get_batch(n=int(count), timeout=patience()) as batch:
            values = [float(record["x"]) for record in batch]
        tell(values)  # released by now
        stay()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
