"""Stores with recorded runs in them, written the way the daemon writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lanekit.slow.batches import episodes_batch, events_batch, steps_batch
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore

SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND
RUN = "cartpole-7"


class Recording:
    """One stream of one run, appended to in order."""

    def __init__(
        self, store: TelemetrySQLiteStore, run_id: str, stream_id: str = "s1", worker: str = "w0"
    ) -> None:
        self.store, self.run_id, self.stream_id, self.worker = store, run_id, stream_id, worker
        self.steps_sent = self.episodes_sent = self.events_sent = 0
        store.register_stream(run_id, stream_id, worker, 4242, "host", "/var/spool/w0")

    def append(self, batch: Any) -> None:
        (outcome,) = self.store.append([batch])
        assert not isinstance(outcome, Exception), outcome

    def steps(self, steps: Iterable[pb.Step]) -> None:
        rows = list(steps)
        for row in rows:
            row.worker_id = row.worker_id or self.worker
        self.append(
            steps_batch(
                pb.PublishRunStepsRequest(
                    run_id=self.run_id,
                    stream_id=self.stream_id,
                    first_seq=self.steps_sent + 1,
                    steps=rows,
                )
            )
        )
        self.steps_sent += len(rows)

    def episodes(self, episodes: Iterable[pb.Episode]) -> None:
        rows = list(episodes)
        for row in rows:
            row.worker_id = row.worker_id or self.worker
        self.append(
            episodes_batch(
                pb.PublishRunEpisodesRequest(
                    run_id=self.run_id,
                    stream_id=self.stream_id,
                    first_seq=self.episodes_sent + 1,
                    episodes=rows,
                )
            )
        )
        self.episodes_sent += len(rows)

    def event(self, name: str, payload: Any = None, wall_time_ns: int = BEGIN) -> None:
        row = pb.RunEvent(worker_id=self.worker, name=name, wall_time_ns=wall_time_ns)
        if payload is not None:
            row.payload_json = json.dumps(payload).encode()
        self.append(
            events_batch(
                pb.PublishRunEventsRequest(
                    run_id=self.run_id,
                    stream_id=self.stream_id,
                    first_seq=self.events_sent + 1,
                    events=[row],
                )
            )
        )
        self.events_sent += 1


@contextmanager
def open_store(path: Path) -> Iterator[TelemetrySQLiteStore]:
    store = TelemetrySQLiteStore.open(path)
    try:
        yield store
    finally:
        store.close()


def picture(
    number: int, width: int = 6, height: int = 4, channels: int = 3
) -> npt.NDArray[np.uint8]:
    """A frame that tells which one it is."""
    pixels = np.zeros((height, width, channels), np.uint8)
    pixels[...] = number % 251
    pixels[0, 0] = number // 251
    return pixels


def number_of(pixels: npt.NDArray[np.uint8]) -> int:
    return int(pixels[0, 0, 0]) * 251 + int(pixels[-1, -1, 0])


def frame_message(pixels: npt.NDArray[np.uint8]) -> pb.Frame:
    height, width, channels = pixels.shape
    return pb.Frame(width=width, height=height, channels=channels, pixels=pixels.tobytes())


def filmed_steps(
    episodes: int, length: int, *, every: int = 1, interval_ns: int = SECOND // 50, agent: str = ""
) -> list[pb.Step]:
    """Steps whose reward is 1, 2, 3 … within the episode, and each `every`-th has a frame."""
    steps = []
    for number in range(episodes * length):
        episode, step = divmod(number, length)
        row = pb.Step(
            agent_id=agent,
            episode=episode,
            step=step,
            reward=step + 1.0,
            wall_time_ns=BEGIN + number * interval_ns,
            action_json=b"1",
            observation_json=b"[0.5, 1.5]",
        )
        if step % every == 0:
            row.frame.CopyFrom(frame_message(picture(number)))
        steps.append(row)
    return steps


def write_training_run(path: Path, run_id: str = RUN) -> None:
    """A finished run of two agents, with all kinds of values."""
    with open_store(path) as store:
        store.create_run(run_id, command=["python", "train.py"], config_json=b'{"lr": 0.5}')
        one = Recording(store, run_id)
        one.event("run_started", {"pid": 4242})
        steps = []
        for i in range(300):
            agent = ("red", "blue")[i % 2]
            row = pb.Step(
                agent_id=agent,
                episode=i // 100,
                step=i // 2 % 50,
                reward=i / 8,
                wall_time_ns=BEGIN + i * SECOND // 100,
                action_json=b"%d" % (i % 4),
                observation_json=b"[%d, 0.25, -1e-3]" % i,
                terminated=i % 100 >= 98,
                seed=7 if i < 100 else None,
            )
            steps.append(row)
        steps[3].ClearField("reward")
        steps[4].info_json = '{"naïve": "comma, \\"quote\\"\\nline"}'.encode()
        steps[5].extra_json = b'{"mood": [1, {"deep": null}]}'
        steps[6].render_hint_json = b'{\n "camera": 2\n}'
        steps[7].frame.CopyFrom(frame_message(picture(7)))
        one.steps(steps[:100])
        one.steps(steps[100:])
        one.episodes(
            pb.Episode(
                agent_id=agent,
                episode=e,
                episode_return=e * 10.0 + (agent == "blue"),
                length=50,
                terminated=True,
                wall_time_ns=BEGIN + e * SECOND,
                info_json=b'{"won": true}',
            )
            for e in range(3)
            for agent in ("red", "blue")
        )
        one.event("checkpoint", {"path": "a, b"}, BEGIN + SECOND)
        one.event("run_completed", None, BEGIN + 3 * SECOND)
        one.event("worker_exited", {"status": 0}, BEGIN + 3 * SECOND)


def beside_the_store(directory: Path) -> list[str]:
    """What a test has put into the directory in which write_training_run wrote runs.db."""
    return [path.name for path in directory.iterdir() if not path.name.startswith("runs.db")]
