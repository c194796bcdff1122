"""Parsed lines to publish requests, serialised.

Steps travel as columns. Nothing here runs once per event in Python: each property is pulled out of
all rows by `map`, and defaults are left out where every row has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Raw

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.sending.lines import EpisodeLine, EventLine, StepLine

_episode: Callable[[StepLine], int] = attrgetter("episode_index")
_step: Callable[[StepLine], int] = attrgetter("step_index")
_worker: Callable[[StepLine], str] = attrgetter("worker_id")
_agent: Callable[[StepLine], str] = attrgetter("agent_id")
_reward: Callable[[StepLine], float] = attrgetter("reward")
_terminated: Callable[[StepLine], bool] = attrgetter("terminated")
_truncated: Callable[[StepLine], bool] = attrgetter("truncated")
_seed: Callable[[StepLine], int | None] = attrgetter("seed")
_time_ns: Callable[[StepLine], int] = attrgetter("time_ns")
_frame: Callable[[StepLine], Any] = attrgetter("frame")
_JSON_COLUMNS: list[tuple[str, Callable[[StepLine], Raw]]] = [
    ("action_json", attrgetter("action")),
    ("observation_json", attrgetter("observation")),
    ("info_json", attrgetter("info")),
    ("render_hint_json", attrgetter("render_hint")),
]


class RequestBuilder:
    """Builds the requests of one stream."""

    def __init__(self, run_id: str, stream_id: str, worker_id: str) -> None:
        self._run_id = run_id
        self._stream_id = stream_id
        self._worker_id = worker_id

    def steps(
        self, rows: Sequence[StepLine], extras: dict[int, bytes], first_seq: int, arrival_ns: int
    ) -> bytes:
        """Return the request that stores `rows`; `extras` go by index in them."""
        request = pb.PublishRunStepsRequest(
            run_id=self._run_id, stream_id=self._stream_id, first_seq=first_seq
        )
        columns = request.columns
        columns.rows = len(rows)
        columns.episode.extend(map(_episode, rows))
        columns.step.extend(map(_step, rows))
        columns.reward.extend(map(_reward, rows))
        for name, value in _JSON_COLUMNS:
            texts = list(map(bytes, map(value, rows)))
            if texts.count(b"") != len(texts):
                getattr(columns, name).extend(texts)
        for flag, column in ((_terminated, columns.terminated), (_truncated, columns.truncated)):
            flags = list(map(flag, rows))
            if True in flags:
                column.extend(flags)
        times = list(map(_time_ns, rows))
        if 0 in times:
            times = [_wall_time(row, arrival_ns) for row in rows]
        columns.wall_time_ns.extend(times)
        self._add_names(columns, rows)
        seeds = list(map(_seed, rows))
        if seeds.count(None) != len(seeds):
            columns.seed_row.extend(i for i, seed in enumerate(seeds) if seed is not None)
            columns.seed.extend(seed for seed in seeds if seed is not None)
        frames = list(map(_frame, rows))
        if frames.count(None) != len(frames):
            for i, frame in enumerate(frames):
                if frame is not None:
                    columns.frame_row.append(i)
                    columns.frame.add(
                        width=frame.width,
                        height=frame.height,
                        channels=frame.channels,
                        pixels=frame.pixels,
                    )
        for i, extra in extras.items():
            columns.extra_row.append(i)
            columns.extra_json.append(extra)
        return request.SerializeToString()

    def episodes(
        self, rows: Sequence[tuple[EpisodeLine, bytes]], first_seq: int, arrival_ns: int
    ) -> bytes:
        """Return the request that stores finished episodes."""
        return pb.PublishRunEpisodesRequest(
            run_id=self._run_id,
            stream_id=self._stream_id,
            first_seq=first_seq,
            episodes=[
                pb.Episode(
                    worker_id=row.worker_id or self._worker_id,
                    agent_id=row.agent_id,
                    episode=row.episode_index,
                    episode_return=row.episode_return,
                    length=row.length,
                    terminated=row.terminated,
                    truncated=row.truncated,
                    seed=row.seed,
                    wall_time_ns=_wall_time(row, arrival_ns),
                    info_json=bytes(row.info),
                    extra_json=extra,
                )
                for row, extra in rows
            ],
        ).SerializeToString()

    def events(
        self, rows: Sequence[tuple[EventLine, bytes]], first_seq: int, arrival_ns: int
    ) -> bytes:
        """Return the request that stores log events."""
        return pb.PublishRunEventsRequest(
            run_id=self._run_id,
            stream_id=self._stream_id,
            first_seq=first_seq,
            events=[
                pb.RunEvent(
                    worker_id=row.worker_id or self._worker_id,
                    name=row.event,
                    wall_time_ns=_wall_time(row, arrival_ns),
                    payload_json=bytes(row.payload),
                    extra_json=extra,
                )
                for row, extra in rows
            ],
        ).SerializeToString()

    def _add_names(self, columns: pb.StepColumns, rows: Sequence[StepLine]) -> None:
        workers, agents = list(map(_worker, rows)), list(map(_agent, rows))
        names = {self._worker_id: 0}
        for name in {*workers, *agents}:
            names.setdefault(name, len(names))
        # Where a line names no worker, it is the stream's own.
        index = {**names, "": 0}
        if workers.count("") != len(workers):
            columns.worker_index.extend(map(index.__getitem__, workers))
        elif self._worker_id:
            columns.worker_index.extend([0] * len(rows))
        if agents.count("") != len(agents):
            columns.agent_index.extend(map(names.__getitem__, agents))
        if columns.worker_index or columns.agent_index:
            columns.names.extend(names)


def _wall_time(row: StepLine | EpisodeLine | EventLine, arrival_ns: int) -> int:
    """Return when it happened, by the worker's clock; else when it was read."""
    return row.time_ns or round(row.timestamp * 1e9) or arrival_ns
