"""Records from all nodes in the trainer's lane: each once, in order, whoever is killed."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import rollouts
from raylets import Raylets

from lanekit import PeerLost, PlaceTaken, SchemaMismatch, TrajectoryReader
from lanekit.errors import LanekitError
from lanekit.integrations.ray import Forwarding, RemoteTrajectoryWriter, forward
from lanekit.integrations.ray.nodes import affinity
from patience import patience, until


@pytest.fixture
def lane(raylets: Raylets) -> Iterator[TrajectoryReader]:
    """The trainer's lane; this process is the trainer, on the head's node."""
    name = f"lane-{uuid.uuid4().hex[:8]}"
    with TrajectoryReader.create(name, rollouts.SCHEMA, producers=2, ring_bytes=1 << 18) as reader:
        yield reader


@pytest.fixture
def way_in(lane: TrajectoryReader) -> Iterator[Forwarding]:
    with forward(lane.name) as opened:
        yield opened


def on(raylets: Raylets, node: str, work: Any, *arguments: Any, **options: Any) -> Any:
    """Begin a task on a node; it is not retried unless that is asked for."""
    retries = options.pop("max_retries", 0)
    task = ray.remote(num_cpus=0, max_retries=retries)(work)
    strategy = affinity(raylets.node(node))
    return task.options(scheduling_strategy=strategy).remote(*arguments, **options)


def take(lane: TrajectoryReader, count: int, size: int = 0) -> dict[str, list[int]]:
    """Take so many records, each looked at and released; no more may come."""
    found: dict[str, list[int]] = {}
    for _ in range(count):
        record = lane.get(patience(120))
        assert record is not None, f"only {sum(map(len, found.values()))} of {count} came"
        assert rollouts.is_right(record, size)
        found.setdefault(record.meta["who"], []).append(record.meta["n"])
        record.release()
        del record
    return found


def nothing_more(lane: TrajectoryReader) -> bool:
    return lane.get(1.0) is None


def upto(last: int) -> list[int]:
    return list(range(1, last + 1))


def test_records_of_several_nodes_arrive_once_and_in_order(
    raylets: Raylets, lane: TrajectoryReader, way_in: Forwarding
) -> None:
    under_way = [
        on(raylets, "one", rollouts.produce, lane.name, "a", 100),
        on(raylets, "two", rollouts.produce, lane.name, "b", 100, window=16),
        on(raylets, "head", rollouts.produce, lane.name, "c", 100, window=16),
    ]
    assert take(lane, 300) == {"a": upto(100), "b": upto(100), "c": upto(100)}
    assert ray.get(under_way) == [0, 0, 0]
    assert nothing_more(lane)


def test_large_records_travel_through_the_object_store_and_wait_for_room(
    raylets: Raylets, lane: TrajectoryReader, way_in: Forwarding
) -> None:
    size = 25_000  # 100 kB of tokens; the ring holds two
    task = on(raylets, "one", rollouts.produce, lane.name, "big", 20, window=4, size=size)
    until(lambda: lane.stats().depth == 2)
    assert not ray.wait([task], timeout=2.0)[0]
    assert take(lane, 20, size) == {"big": upto(20)}
    assert ray.get(task) == 0
    assert nothing_more(lane)


def test_a_producer_killed_again_and_again_goes_on_where_it_was(
    raylets: Raylets, lane: TrajectoryReader, way_in: Forwarding
) -> None:
    for die_at, node in ((7, "one"), (15, "two"), (22, "one")):
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            ray.get(on(raylets, node, rollouts.produce, lane.name, "a", 30, die_at=die_at))
    assert ray.get(on(raylets, "two", rollouts.produce, lane.name, "a", 30)) == 22
    assert take(lane, 30) == {"a": upto(30)}
    assert nothing_more(lane)


def test_a_task_that_ray_retries_from_the_beginning_puts_nothing_twice(
    raylets: Raylets, lane: TrajectoryReader, way_in: Forwarding, tmp_path: Path
) -> None:
    marker = str(tmp_path / "died")
    task = on(raylets, "one", rollouts.do_again, lane.name, "task", 20, 12, marker, max_retries=3)
    assert take(lane, 20) == {"task": upto(20)}
    assert ray.get(task) == upto(20)
    assert os.path.exists(marker)
    assert nothing_more(lane)


def test_an_actor_that_ray_restarts_puts_the_rest(
    raylets: Raylets, lane: TrajectoryReader, way_in: Forwarding
) -> None:
    actor = (
        ray.remote(rollouts.Actor)
        .options(
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
            scheduling_strategy=affinity(raylets.node("two")),
        )
        .remote(lane.name, "actor")
    )
    pid = ray.get(actor.pid.remote())
    task = actor.roll_out.remote(200)
    seen = take(lane, 40)["actor"]
    os.kill(pid, signal.SIGKILL)
    seen += take(lane, 160)["actor"]
    assert seen == upto(200)
    assert ray.get(task) == 200
    assert nothing_more(lane)


def test_a_forwarder_killed_again_and_again_neither_loses_nor_doubles(
    raylets: Raylets, lane: TrajectoryReader, way_in: Forwarding
) -> None:
    under_way = [
        on(raylets, "one", rollouts.produce, lane.name, "a", 150),
        on(raylets, "two", rollouts.produce, lane.name, "b", 150, window=8),
    ]
    found: dict[str, list[int]] = {}
    for _ in range(6):
        for who, numbers in take(lane, 40).items():
            found.setdefault(who, []).extend(numbers)
        os.kill(way_in.pid(), signal.SIGKILL)
    for who, numbers in take(lane, 60).items():
        found.setdefault(who, []).extend(numbers)
    assert found == {"a": upto(150), "b": upto(150)}
    assert ray.get(under_way) == [0, 0]
    assert nothing_more(lane)


def test_a_killed_raylet_takes_its_producer_and_another_node_goes_on(
    raylets: Raylets, lane: TrajectoryReader, way_in: Forwarding
) -> None:
    raylets.add("frail", cpus=1)
    doomed = on(raylets, "frail", rollouts.produce, lane.name, "a", 100_000)
    other = on(raylets, "one", rollouts.produce, lane.name, "b", 50)
    found = take(lane, 100)
    raylets.kill("frail")
    with pytest.raises(ray.exceptions.RayError):
        ray.get(doomed)
    while (record := lane.get(3.0)) is not None:
        found.setdefault(record.meta["who"], []).append(record.meta["n"])
        record.release()
        del record
    reached = len(found["a"])
    task = on(raylets, "two", rollouts.produce, lane.name, "a", reached + 20)
    found["a"] += take(lane, 20)["a"]
    assert found == {"a": upto(reached + 20), "b": upto(50)}
    assert ray.get(task) == reached
    assert ray.get(other) == 0
    assert nothing_more(lane)


def test_a_trainer_that_comes_back_takes_over_lane_and_book(raylets: Raylets) -> None:
    name = f"lane-{uuid.uuid4().hex[:8]}"
    first = TrajectoryReader.create(name, rollouts.SCHEMA, producers=2)
    with forward(name):
        assert ray.get(on(raylets, "one", rollouts.produce, name, "a", 10)) == 0
        for n in upto(4):
            with first.get(patience()) as record:  # type: ignore[union-attr]
                assert record.meta["n"] == n
            del record
        first.leave()
    with TrajectoryReader.create(name, rollouts.SCHEMA) as second, forward(name):
        assert second.taken_over
        assert ray.get(on(raylets, "two", rollouts.produce, name, "a", 15)) == 10
        assert [second.get(patience()).meta["n"] for _ in range(11)] == list(range(5, 16))  # type: ignore[union-attr]


def test_the_end_of_a_lane_is_told_and_the_next_one_begins_anew(raylets: Raylets) -> None:
    name = f"lane-{uuid.uuid4().hex[:8]}"
    with TrajectoryReader.create(name, rollouts.SCHEMA), forward(name):
        writer = RemoteTrajectoryWriter.attach(name, producer="a", absence=20)
        writer.put(rollouts.arrays(1), {"who": "a", "n": 1})
    with TrajectoryReader.create(name, rollouts.SCHEMA) as lane, forward(name):
        with pytest.raises(PeerLost, match="attach to the new one"):
            writer.put(rollouts.arrays(2))
        with RemoteTrajectoryWriter.attach(name, producer="a") as again:
            assert again.arrived == 0
            assert again.put(rollouts.arrays(1), {"who": "a", "n": 1}) == 1
        assert take(lane, 1) == {"a": [1]}


def test_what_is_in_the_way_is_said(
    raylets: Raylets, lane: TrajectoryReader, way_in: Forwarding
) -> None:
    with pytest.raises(PlaceTaken, match="another program of this cluster forwards"):
        forward(lane.name, timeout=0.1)
    with pytest.raises(LanekitError, match=r"no such lane.*TrajectoryReader\.create"):
        forward("no-such-lane", timeout=0.1)
    with pytest.raises(PeerLost, match=r"lanekit.integrations.ray.forward\('nobodys'\)"):
        RemoteTrajectoryWriter.attach("nobodys", absence=0.5)
    with pytest.raises(SchemaMismatch, match="the field more missing"):
        RemoteTrajectoryWriter.attach(
            lane.name, schema={"tokens": "int32[:]", "score": "float64", "more": "int8"}
        )
