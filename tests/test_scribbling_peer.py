"""A peer that goes mad, for every lane and for the tools that look at lanes from outside.

One process scribbles over all words of the lane's segment while another one uses every call. What
may come of it is a result or a LanekitError; not a crash, not a hang, not another exception.

Without sanitizers an access outside of a buffer shows only if it crashes, or if it returns more
than there can be. The same tests run under AddressSanitizer by hand: install with
``-Ccmake.define.LANEKIT_SANITIZE=address`` and set LD_PRELOAD to libasan.so. The core alone runs
under it in ``csrc/tests/test_scribble_*.c``. SCRIBBLE_SECONDS says for how long, for each lane.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanekit
from lanekit import (
    FastLaneConfig,
    FastLaneReader,
    FastLaneWriter,
    StepClient,
    StepLaneConfig,
    StepServer,
    TrajectoryReader,
    TrajectoryRecord,
    TrajectoryWriter,
    segment_name,
)
from lanekit.cli.columns import Paint
from lanekit.cli.lane_counters import Reading, movements, read_lanes
from lanekit.cli.ls import list_segments, newest_note
from lanekit.cli.top import cells
from lanekit.fast.frame import inspect_frames
from lanekit.integrations.showing.frame_note import FrameNote
from lanekit.segments import SegmentKind, inspect_segment, segment_path
from lanekit.step import inspect_steps
from lanekit.trajectory.statistics import inspect_trajectory_segment
from patience import patience
from role_processes import start_role
from scribbling_peer import scribble
from spoilt_lanes import Notebook, run

pytestmark = pytest.mark.once  # the core does the work, whatever the Python

SECONDS = float(os.environ.get("SCRIBBLE_SECONDS", "2"))
KINDS: tuple[SegmentKind, ...] = ("frame", "step", "traj")
SCHEMA = {"tokens": "int32[:]", "score": "float32", "image": "uint8[:,4,3]?"}


@pytest.fixture
def name() -> Iterator[str]:
    made = f"scribble-{uuid.uuid4().hex}"
    yield made
    for kind in KINDS:
        segment_path(segment_name(kind, made)).unlink(missing_ok=True)


def use_beside_a_scribbler(role: Callable[..., None], name: str, seed: int, note: Path) -> Any:
    segments = [segment_name(kind, name) for kind in KINDS]
    peer = start_role(scribble, *segments, seed)
    try:
        assert peer.stdout is not None
        assert peer.stdout.readline() == "begun\n"
        found = run(role, name, SECONDS, seed, note=note)
        words, _ = peer.communicate(timeout=patience())
    finally:
        peer.kill()
    assert int(words) > 0
    assert found["calls"] > 0
    return found


def test_a_frame_lane_beside_a_scribbler(name: str, seed: int, note: Path) -> None:
    assert use_beside_a_scribbler(use_frames, name, seed, note)["results"] > 0


def test_a_step_lane_and_its_commands_beside_a_scribbler(name: str, seed: int, note: Path) -> None:
    assert use_beside_a_scribbler(use_steps, name, seed, note)["results"] > 0


def test_a_trajectory_lane_beside_a_scribbler(name: str, seed: int, note: Path) -> None:
    assert use_beside_a_scribbler(use_records, name, seed, note)["results"] > 0


def test_ls_and_top_beside_a_scribbler(name: str, seed: int, note: Path) -> None:
    assert use_beside_a_scribbler(look_from_outside, name, seed, note)["results"] > 0


# --- roles ----------------------------------------------------------------------------------------


class Tally:
    """Makes calls until the time is over, and until one had a result; counts what came."""

    def __init__(self, seconds: str, seed: str, note: str) -> None:
        self.chance = random.Random(int(seed))
        self.end = time.monotonic() + float(seconds)
        self.outcomes: Counter[str] = Counter()
        self.results = 0
        self.notebook = Notebook(note)

    @property
    def on(self) -> bool:
        return time.monotonic() < self.end or self.results == 0

    def call(self, name: str, call: Callable[[], object]) -> Any:
        """Return what a call returns, None if it refuses."""
        self.notebook.write(name)
        try:
            found = call()
        except (lanekit.LanekitError, lanekit.WaitTimeout) as error:
            self.outcomes[type(error).__name__] += 1
            return None
        self.outcomes["returned"] += 1
        self.results += found is not None
        return found

    def any_of(self, calls: dict[str, Callable[[], object]]) -> None:
        name = self.chance.choice(list(calls))
        self.call(name, calls[name])

    def report(self) -> None:
        calls = sum(self.outcomes.values())
        print(json.dumps({"calls": calls, "results": self.results, **self.outcomes}))


def make(tally: Tally, kind: SegmentKind, name: str, make_one: Callable[[], Any]) -> Any:
    """Create a lane; what lies under its name and is spoilt too far to be replaced is removed."""
    while (made := tally.call("create", make_one)) is None:
        segment_path(segment_name(kind, name)).unlink(missing_ok=True)
    return made


def live(life: Callable[[Tally, str], None], *arguments: str) -> None:
    """Let a lane be made, used and ended again and again."""
    name, *rest = arguments
    tally = Tally(*rest)
    while tally.on:
        life(tally, name)
    tally.report()


def use_frames(*arguments: str) -> None:
    live(frame_life, *arguments)


def use_steps(*arguments: str) -> None:
    live(step_life, *arguments)


def use_records(*arguments: str) -> None:
    live(record_life, *arguments)


def look_from_outside(*arguments: str) -> None:
    live(life_seen_from_outside, *arguments)


# --- the fast lane --------------------------------------------------------------------------------


def frame_life(tally: Tally, name: str) -> None:
    chance = tally.chance
    config = FastLaneConfig(
        *(16, 8, 3, "RGB"), capacity=chance.randrange(1, 5), metadata_size=chance.choice([0, 64])
    )
    writer = make(tally, "frame", name, lambda: FastLaneWriter.create(name, config))
    reader = tally.call("attach", lambda: FastLaneReader.attach(name))
    frame = np.zeros(config.shape, np.uint8)
    metrics = lanekit.FastLaneMetrics(1, 2, 3)

    def publish() -> object:
        metadata = b"n" * chance.randrange(config.metadata_size + 1)
        return writer.publish(frame, metrics=metrics, metadata=metadata)

    for _ in range(300):
        tally.any_of(
            {
                "publish": publish,
                "watched": lambda: writer.watched,
                "heartbeat": writer.heartbeat,
            }
        )
        if reader is not None:
            read_frames(tally, reader)
    tally.call("close", writer.close)
    if reader is not None:
        tally.call("close the reader", reader.close)


def read_frames(tally: Tally, reader: FastLaneReader) -> None:
    def peek() -> Any:
        look = reader.peek()
        return None if look.array is None else (look.array.sum(), look.valid)

    tally.any_of(
        {
            "latest_frame": reader.latest_frame,
            "fresh": lambda: reader.latest_frame(fresh=True),
            "next_frame": reader.next_frame,
            "read_into": lambda: reader.read_into(np.zeros(reader.config.shape, np.uint8)),
            "peek": peek,
            "metrics": reader.metrics,
            "stats": reader.stats,
            "wait": lambda: reader.wait(tally.chance.choice([0, 0.0005])),
            "connected": lambda: reader.connected,
        }
    )
    info = tally.call("last_frame_info", lambda: reader.last_frame_info)
    if info is not None and info.metadata is not None:
        assert len(info.metadata) <= reader.config.metadata_size


# --- the step lane and its commands ---------------------------------------------------------------


def step_life(tally: Tally, name: str) -> None:
    shape = StepLaneConfig(5, 3, 2, infos=("speed",), description="text", command_ring=4096)
    server = make(tally, "step", name, lambda: StepServer.create(name, shape))
    client = tally.call("attach", lambda: StepClient.attach(name))
    for _ in range(200):
        tally.any_of(
            {
                "wait_actions": lambda: server.wait_actions(0),
                "commit": server.commit,
                "server state": lambda: server.state,
                "server receives": lambda: server.commands.receive(0),
                "server sends": lambda: server.commands.send(b"x" * 40, 0),
            }
        )
        if client is not None:
            tally.any_of(step_calls(client))
    if tally.chance.randrange(2):
        tally.call("fail", lambda: server.fail("over"))
    if client is not None:
        tally.call("failure", lambda: client.failure)
        tally.call("close the client", client.close)
    tally.call("close", server.close)


def step_calls(client: StepClient) -> dict[str, Callable[[], object]]:
    return {
        "step": lambda: client.step(timeout=0),
        "send": client.send,
        "recv": lambda: client.recv(0),
        "reset": lambda: client.reset(timeout=0),
        "under_way": lambda: client.under_way,
        "state": lambda: client.state,
        "failure": lambda: client.failure,
        "client receives": lambda: client.commands.receive(0),
        "client sends": lambda: client.commands.send(b"y" * 90, 0),
        "observations": client.obs.tobytes,
    }


# --- the trajectory lane --------------------------------------------------------------------------


def record_life(tally: Tally, name: str) -> None:
    chance = tally.chance
    resume = bool(chance.randrange(2))
    reader = make(
        tally,
        "traj",
        name,
        lambda: TrajectoryReader.create(name, SCHEMA, producers=2, ring_bytes=8192, resume=resume),
    )
    writer = tally.call("attach", lambda: TrajectoryWriter.attach(name, absence=0))
    held: list[TrajectoryRecord] = []
    for _ in range(200):
        if writer is not None:
            tally.any_of(put_calls(writer, chance.randrange(60)))
        record = tally.call("try_get", reader.try_get)
        if record is not None:
            look_at(tally, record)
            held.append(record)
        if held and chance.randrange(2):
            held.pop(chance.randrange(len(held))).release()
        tally.any_of({"stats": reader.stats, "get": lambda: reader.get(0)})
    if writer is not None:
        tally.call("close the writer", writer.close)
    tally.call("end", chance.choice([reader.leave, reader.close]))


def look_at(tally: Tally, record: TrajectoryRecord) -> None:
    tally.call("arrays", lambda: [array.tobytes() for array in record.values()])
    tally.call("meta", lambda: record.meta)


def put_calls(writer: TrajectoryWriter, rows: int) -> dict[str, Callable[[], object]]:
    # With the lane's own schema, which may be a spoilt one that still is a schema.
    def put(meta: object) -> object:
        shapes = {name: ((rows,) if f.ragged else ()) + f.shape for name, f in writer.schema}
        if sum(math.prod(shape) for shape in shapes.values()) > 3000:
            return None
        fields = writer.schema.fields
        arrays = {name: np.zeros(shape, fields[name].dtype) for name, shape in shapes.items()}
        return writer.put(arrays, meta, timeout=0)

    return {
        "put": lambda: put(None),
        "put with JSON": lambda: put({"env": 3}),
        "put with bytes": lambda: put(b"bytes"),
        "writer stats": writer.stats,
    }


# --- from outside ---------------------------------------------------------------------------------


def life_seen_from_outside(tally: Tally, name: str) -> None:
    config = FastLaneConfig(16, 8, 3, "RGB", capacity=2, metadata_size=512)
    with contextlib.ExitStack() as lanes:
        writer = make(tally, "frame", name, lambda: FastLaneWriter.create(name, config))
        server = make(tally, "step", name, lambda: StepServer.create(name, 5, 3, 2))
        reader = make(tally, "traj", name, lambda: TrajectoryReader.create(name, SCHEMA))
        for end in (writer.close, server.close, reader.close):
            lanes.callback(end)
        with contextlib.suppress(lanekit.LanekitError):
            for _ in range(3):
                note = FrameNote("in-process", 1, 1).encode()
                writer.publish(np.zeros(config.shape, np.uint8), metadata=note)
        before = read_lanes()
        for _ in range(30):
            tally.any_of(looks(name, before, tally.chance))


def looks(
    name: str, before: dict[str, Reading], chance: random.Random
) -> dict[str, Callable[[], object]]:
    frames, steps, records = (segment_name(kind, name) for kind in KINDS)

    def ls() -> object:
        return [(row.to_cells(), json.dumps(row.to_json())) for row in list_segments()]

    def top() -> object:
        lanes = movements(before, read_lanes())
        return [(cells(lane, Paint()), json.dumps(lane.to_json())) for lane in lanes]

    return {
        "ls": ls,
        "top": top,
        "note": lambda: newest_note(name),
        "frames": lambda: inspect_frames(frames),
        "steps": lambda: inspect_steps(steps),
        "records": lambda: inspect_trajectory_segment(records),
        "segment": lambda: inspect_segment(chance.choice([frames, steps, records])),
    }


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
