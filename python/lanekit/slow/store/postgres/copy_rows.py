"""Batches into rows of PostgreSQL's binary COPY format, column by column where there are many.

A row is the number of its fields and the fields; a field is its length and its bytes, or a length
of -1 for NULL. All numbers are big-endian.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from lanekit.slow.batches import Batch, unknown_fields
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.database import Tracks
from lanekit.slow.store.step_ids import TRACK_SHIFT, step_ids

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"

STEP_COLUMNS = (
    "id, episode, step, terminated, truncated, wall_time_ns, reward, action, observation, info,"
    " render_hint, seed, extra, unknown"
)
FRAME_COLUMNS = "id, width, height, channels, pixels"
EPISODE_COLUMNS = (
    "id, episode, episode_return, length, terminated, truncated, wall_time_ns, seed, info, extra,"
    " unknown"
)
EVENT_COLUMNS = "id, name, wall_time_ns, payload, extra, unknown"

# What every step has: a number of fields, then lengths and values in turn.
_STEP_HEAD = np.dtype(
    [
        ("fields", ">i2"),
        *(("id_size", ">i4"), ("id", ">i8")),
        *(("episode_size", ">i4"), ("episode", ">i8")),
        *(("step_size", ">i4"), ("step", ">i8")),
        *(("terminated_size", ">i4"), ("terminated", "u1")),
        *(("truncated_size", ">i4"), ("truncated", "u1")),
        *(("time_size", ">i4"), ("wall_time_ns", ">i8")),
    ]
)
_STEP_SIZES = {
    "fields": 14,
    **dict.fromkeys(("id_size", "episode_size", "step_size", "time_size"), 8),
    **dict.fromkeys(("terminated_size", "truncated_size"), 1),
}
_NULL = b"\xff\xff\xff\xff"
# The lengths of most texts, ready made. An empty one stands for none at all: the worker gave none.
_LENGTHS = [_NULL, *(struct.pack(">i", length) for length in range(1, 4096))]
_EPISODE_FIELDS = [field.name for field in pb.Episode.DESCRIPTOR.fields]
_EVENT_FIELDS = [field.name for field in pb.RunEvent.DESCRIPTOR.fields]

_pack_length = struct.Struct(">i").pack
_pack_int8 = struct.Struct(">iq").pack
_pack_float8 = struct.Struct(">id").pack


def step_rows(batch: Batch, skip: int, tracks: Tracks) -> tuple[bytes, bytes]:
    """The steps of `batch` behind its first `skip`, and the frames that came with them."""
    columns = batch.content
    assert isinstance(columns, pb.StepColumns)
    ids = step_ids(columns, batch.first_seq, tracks)
    taken, rows = ids[skip:], columns.rows - skip
    episodes = list(columns.episode)[skip:]
    _note_episodes(taken, episodes or [0] * rows, tracks)
    head = np.zeros(rows, _STEP_HEAD)
    for name, size in _STEP_SIZES.items():
        head[name] = size
    head["id"] = np.arange(taken.start, taken.stop) if isinstance(taken, range) else taken
    if episodes:
        head["episode"] = episodes
    for name in ("step", "terminated", "truncated", "wall_time_ns"):
        if values := list(getattr(columns, name))[skip:]:
            head[name] = values
    pieces: list[Iterable[bytes]] = [_cut(head.tobytes(), _STEP_HEAD.itemsize)]
    pieces.append(_rewards(np.array(list(columns.reward)[skip:], np.float64), rows))
    for texts in (
        columns.action_json,
        columns.observation_json,
        columns.info_json,
        columns.render_hint_json,
    ):
        pieces += _texts(list(texts)[skip:])
    if columns.seed_row or columns.extra_row or columns.unknown_row:
        seeds = zip(columns.seed_row, map(_int8, columns.seed), strict=True)
        extras = zip(columns.extra_row, map(_bytes, columns.extra_json), strict=True)
        unknowns = zip(columns.unknown_row, map(_bytes, columns.unknown_fields), strict=True)
        pieces += (_sparse(few, skip, rows) for few in (seeds, extras, unknowns))
    else:
        pieces.append(itertools.repeat(3 * _NULL))
    joined = b"".join(itertools.chain.from_iterable(zip(*pieces, strict=False)))
    return joined, _frame_rows(columns, ids, skip)


def _note_episodes(ids: Sequence[int], episodes: list[int], tracks: Tracks) -> None:
    if isinstance(ids, range):
        tracks.note_episodes(ids[0] >> TRACK_SHIFT, episodes)
        return
    by_track: dict[int, list[int]] = {}
    for row_id, episode in zip(ids, episodes, strict=True):
        by_track.setdefault(row_id >> TRACK_SHIFT, []).append(episode)
    for track, some in by_track.items():
        tracks.note_episodes(track, some)


def _cut(joined: bytes, size: int) -> list[bytes]:
    return [joined[start : start + size] for start in range(0, len(joined), size)]


def _rewards(rewards: npt.NDArray[np.float64], rows: int) -> Iterable[bytes]:
    if not len(rewards):
        return itertools.repeat(_NULL)
    fields = np.zeros(rows, np.dtype([("size", ">i4"), ("value", ">f8")]))
    fields["size"] = 8
    fields["value"] = rewards
    pieces = _cut(fields.tobytes(), fields.dtype.itemsize)
    for row in np.flatnonzero(np.isnan(rewards)):
        pieces[row] = _NULL
    return pieces


def _texts(texts: list[bytes]) -> list[Iterable[bytes]]:
    """A column's lengths and its texts."""
    if not texts:
        return [itertools.repeat(_NULL)]
    sizes = list(map(len, texts))
    if max(sizes) < len(_LENGTHS):
        return [map(_LENGTHS.__getitem__, sizes), texts]
    return [(_pack_length(size) if size else _NULL for size in sizes), texts]


def _sparse(few: Iterable[tuple[int, bytes]], skip: int, rows: int) -> list[bytes]:
    column = [_NULL] * rows
    for row, field in few:
        if row >= skip:
            column[row - skip] = field
    return column


def _frame_rows(columns: pb.StepColumns, ids: Sequence[int], skip: int) -> bytes:
    if not columns.frame_row:
        return b""
    return b"".join(
        piece
        for row, frame in zip(columns.frame_row, columns.frame, strict=True)
        if row >= skip
        for piece in (
            b"\0\5",
            _int8(ids[row]),
            *(_int8(frame.width), _int8(frame.height), _int8(frame.channels)),
            *(_pack_length(len(frame.pixels)), frame.pixels),
        )
    )


def episode_rows(batch: Batch, skip: int, tracks: Tracks) -> bytes:
    """The episodes of `batch` behind its first `skip`."""
    rows = cast(list[pb.Episode], batch.content)
    return b"".join(
        piece
        for seq, row in enumerate(rows[skip:], batch.first_seq + skip)
        for piece in (
            b"\0\13",
            _int8((tracks.find(row.worker_id, row.agent_id) << TRACK_SHIFT) + seq),
            _int8(row.episode),
            _pack_float8(8, row.episode_return) if row.HasField("episode_return") else _NULL,
            _int8(row.length),
            _boolean(row.terminated),
            _boolean(row.truncated),
            _int8(row.wall_time_ns),
            _int8(row.seed) if row.HasField("seed") else _NULL,
            _bytes(row.info_json),
            _bytes(row.extra_json),
            _bytes(unknown_fields(row, _EPISODE_FIELDS)),
        )
    )


def event_rows(batch: Batch, skip: int, tracks: Tracks) -> bytes:
    """The events of `batch` behind its first `skip`."""
    rows = cast(list[pb.RunEvent], batch.content)
    return b"".join(
        piece
        for seq, row in enumerate(rows[skip:], batch.first_seq + skip)
        for piece in (
            b"\0\6",
            _int8((tracks.find(row.worker_id, "") << TRACK_SHIFT) + seq),
            _bytes(row.name.encode()),
            _int8(row.wall_time_ns),
            _bytes(row.payload_json),
            _bytes(row.extra_json),
            _bytes(unknown_fields(row, _EVENT_FIELDS)),
        )
    )


def _int8(value: int) -> bytes:
    return _pack_int8(8, value)


def _boolean(value: bool) -> bytes:
    return b"\0\0\0\1\1" if value else b"\0\0\0\1\0"


def _bytes(value: bytes) -> bytes:
    """A text or bytes; empty stands for none at all."""
    return _pack_length(len(value)) + value if value else _NULL
