"""Table rows into the messages that the Stream* calls answer with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.commit_order import SEQ_MASK
from lanekit.slow.store.results import Row, TrackName
from lanekit.slow.store.step_ids import TRACK_SHIFT

_NAN = float("nan")


def step_answer(
    rows: Sequence[Row], frames: Mapping[int, Row], tracks: Mapping[int, TrackName]
) -> pb.StepColumns:
    """Steps as answer columns; `frames` by id."""
    if not rows:
        return pb.StepColumns()
    (
        ids,
        episodes,
        steps,
        rewards,
        terminated,
        truncated,
        times,
        actions,
        observations,
        infos,
        hints,
        seeds,
        extras,
        unknowns,
    ) = zip(*rows, strict=True)
    track_of_row = [row_id >> TRACK_SHIFT for row_id in ids]
    names: dict[str, int] = {}
    streams: dict[str, int] = {}
    indexes = {}
    for track in dict.fromkeys(track_of_row):
        stream_id, worker_id, agent_id = tracks[track]
        indexes[track] = (
            streams.setdefault(stream_id, len(streams)),
            names.setdefault(worker_id, len(names)),
            names.setdefault(agent_id, len(names)),
        )
    stream_index, worker_index, agent_index = zip(
        *[indexes[track] for track in track_of_row], strict=True
    )
    seed_row, seed = _sparse(seeds)
    extra_row, extra_json = _sparse(extras)
    unknown_row, unknown_fields = _sparse(unknowns)
    frame_rows = [row for row, row_id in enumerate(ids) if row_id in frames] if frames else []
    return pb.StepColumns(
        rows=len(rows),
        names=list(names),
        worker_index=worker_index,
        agent_index=agent_index,
        episode=episodes,
        step=steps,
        action_json=_texts(actions),
        observation_json=_texts(observations),
        reward=[_NAN if reward is None else reward for reward in rewards],
        terminated=map(bool, terminated),
        truncated=map(bool, truncated),
        info_json=_texts(infos),
        render_hint_json=_texts(hints),
        seed_row=seed_row,
        seed=seed,
        wall_time_ns=times,
        frame_row=frame_rows,
        frame=[frame_message(frames[ids[row]]) for row in frame_rows],
        extra_row=extra_row,
        extra_json=extra_json,
        unknown_row=unknown_row,
        unknown_fields=unknown_fields,
        streams=list(streams),
        stream_index=stream_index,
        seq=[row_id & SEQ_MASK for row_id in ids],
    )


def frame_message(row: Row) -> pb.Frame:
    """A row of `frames`."""
    _, width, height, channels, pixels = row
    return pb.Frame(width=width, height=height, channels=channels, pixels=pixels)


def _texts(values: Iterable[bytes | None]) -> list[bytes]:
    texts = [value or b"" for value in values]
    return texts if any(texts) else []


def _sparse(values: Sequence[Any]) -> tuple[list[int], list[Any]]:
    rows = [row for row, value in enumerate(values) if value is not None]
    return rows, [values[row] for row in rows]


def episode_answer(row: Row, run_id: str, tracks: Mapping[int, TrackName]) -> pb.Episode:
    """A row of `episodes`."""
    row_id, episode, episode_return, length, terminated, truncated, time, seed, *rest = row
    info, extra, unknown = rest
    stream_id, worker_id, agent_id = tracks[row_id >> TRACK_SHIFT]
    message = pb.Episode(
        run_id=run_id,
        stream_id=stream_id,
        seq=row_id & SEQ_MASK,
        worker_id=worker_id,
        agent_id=agent_id,
        episode=episode,
        episode_return=episode_return,
        length=length,
        terminated=bool(terminated),
        truncated=bool(truncated),
        seed=seed,
        wall_time_ns=time,
        info_json=info or b"",
        extra_json=extra or b"",
    )
    if unknown:
        message.MergeFromString(unknown)
    return message


def event_answer(row: Row, run_id: str, tracks: Mapping[int, TrackName]) -> pb.RunEvent:
    """A row of `events`."""
    row_id, name, time, payload, extra, unknown = row
    stream_id, worker_id, _ = tracks[row_id >> TRACK_SHIFT]
    message = pb.RunEvent(
        run_id=run_id,
        stream_id=stream_id,
        seq=row_id & SEQ_MASK,
        worker_id=worker_id,
        name=name,
        wall_time_ns=time,
        payload_json=payload or b"",
        extra_json=extra or b"",
    )
    if unknown:
        message.MergeFromString(unknown)
    return message
