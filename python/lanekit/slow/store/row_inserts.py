"""Batches into rows of SQLite's tables: steps by column, without a Python object for each row."""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any, cast

import apsw

from lanekit.slow.batches import Batch, unknown_fields
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.database import Tracks
from lanekit.slow.store.step_ids import TRACK_SHIFT, step_ids

# Each statement that is run lets go of the interpreter's lock, and a busy thread may then keep it
# for milliseconds. So a statement takes many rows, where there are as many: these numbers in turn.
_ROWS_PER_INSERT = (128, 16, 1)
_STEP_TEXTS = frozenset({"action", "observation", "info", "render_hint", "extra"})
_INSERT_FRAME = "INSERT INTO frames VALUES (?, ?, ?, ?, ?)"
_INSERT_EPISODE = (
    "INSERT INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), CAST(? AS TEXT), ?)"
)
_INSERT_EVENT = "INSERT INTO events VALUES (?, ?, ?, CAST(? AS TEXT), CAST(? AS TEXT), ?)"
_EPISODE_FIELDS = [field.name for field in pb.Episode.DESCRIPTOR.fields]
_EVENT_FIELDS = [field.name for field in pb.RunEvent.DESCRIPTOR.fields]


def insert_steps(cursor: apsw.Cursor, batch: Batch, skip: int, tracks: Tracks) -> None:
    """Store the rows of `batch` behind its first `skip`."""
    columns = batch.content
    assert isinstance(columns, pb.StepColumns)
    ids = step_ids(columns, batch.first_seq, tracks)
    episodes = list(columns.episode)
    by_name: dict[str, Iterable[Any]] = {
        "id": ids,
        "episode": episodes or itertools.repeat(0),
        "step": list(columns.step) or itertools.repeat(0),
        # SQLite stores NaN, an absent reward, as NULL.
        "reward": list(columns.reward) or itertools.repeat(None),
        "terminated": list(columns.terminated) or itertools.repeat(False),
        "truncated": list(columns.truncated) or itertools.repeat(False),
        "wall_time_ns": list(columns.wall_time_ns) or itertools.repeat(0),
        "action": _texts(columns.action_json),
        "observation": _texts(columns.observation_json),
        "info": _texts(columns.info_json),
        "render_hint": _texts(columns.render_hint_json),
        "seed": _dense(columns.seed_row, columns.seed, batch.rows),
        "extra": _dense(columns.extra_row, columns.extra_json, batch.rows),
        "unknown": _dense(columns.unknown_row, columns.unknown_fields, batch.rows),
    }
    # Left out, a column is NULL, and costs nothing.
    given = {name: column for name, column in by_name.items() if column}
    rows: Iterable[tuple[Any, ...]] = zip(*given.values(), strict=False)
    if skip:
        rows = itertools.islice(rows, skip, None)
    if isinstance(ids, range):
        tracks.note_episodes(ids[0] >> TRACK_SHIFT, episodes[skip:] or [0])
    else:
        # Track by track: neighbours in the file are then written one after the other.
        rows = sorted(rows, key=operator.itemgetter(0))
        _note_episodes(rows, tracks)
    _insert_many(cursor, tuple(given), tuple(itertools.chain.from_iterable(rows)))
    if columns.frame_row:
        cursor.executemany(
            _INSERT_FRAME,
            (
                (ids[row], frame.width, frame.height, frame.channels, frame.pixels)
                for row, frame in zip(columns.frame_row, columns.frame, strict=True)
                if row >= skip
            ),
        )


def _note_episodes(rows: Sequence[tuple[Any, ...]], tracks: Tracks) -> None:
    """Tell of the episodes of rows that lie track by track."""
    episodes = list(map(operator.itemgetter(1), rows))
    start = 0
    while start < len(rows):
        track = rows[start][0] >> TRACK_SHIFT
        stop = bisect.bisect_left(rows, ((track + 1) << TRACK_SHIFT,), start)
        tracks.note_episodes(track, episodes[start:stop])
        start = stop


def _insert_many(cursor: apsw.Cursor, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
    """Store rows of steps, whose values lie one behind the other."""
    start = 0
    for rows in _ROWS_PER_INSERT:
        width = rows * len(names)
        stop = len(values) - (len(values) - start) % width
        if stop > start:
            pieces = [values[i : i + width] for i in range(start, stop, width)]
            cursor.executemany(_insert_steps_sql(names, rows), pieces)
            start = stop


@functools.lru_cache(maxsize=256)
def _insert_steps_sql(names: tuple[str, ...], rows: int) -> str:
    # JSON arrives as bytes and is text: the cast keeps it byte for byte.
    row = ",".join("CAST(? AS TEXT)" if name in _STEP_TEXTS else "?" for name in names)
    return f"INSERT INTO steps({','.join(names)})VALUES" + ",".join([f"({row})"] * rows)


def _dense(rows: Sequence[int], values: Iterable[Any], length: int) -> list[Any]:
    """A column from the few `rows` that have a value; empty when none has."""
    if not rows:
        return []
    column: list[Any] = [None] * length
    for row, value in zip(rows, values, strict=True):
        column[row] = value
    return column


def _texts(column: Sequence[bytes]) -> list[bytes | None]:
    texts: list[bytes | None] = list(column)
    return [text or None for text in texts] if b"" in texts else texts


def insert_episodes(cursor: apsw.Cursor, batch: Batch, skip: int, tracks: Tracks) -> None:
    """Store the rows of `batch` behind its first `skip`."""
    rows = cast(list[pb.Episode], batch.content)
    cursor.executemany(
        _INSERT_EPISODE,
        (
            (
                (tracks.find(row.worker_id, row.agent_id) << TRACK_SHIFT) + seq,
                row.episode,
                row.episode_return if row.HasField("episode_return") else None,
                row.length,
                row.terminated,
                row.truncated,
                row.wall_time_ns,
                row.seed if row.HasField("seed") else None,
                row.info_json or None,
                row.extra_json or None,
                unknown_fields(row, _EPISODE_FIELDS) or None,
            )
            for seq, row in enumerate(rows[skip:], batch.first_seq + skip)
        ),
    )


def insert_events(cursor: apsw.Cursor, batch: Batch, skip: int, tracks: Tracks) -> None:
    """Store the rows of `batch` behind its first `skip`."""
    rows = cast(list[pb.RunEvent], batch.content)
    cursor.executemany(
        _INSERT_EVENT,
        (
            (
                (tracks.find(row.worker_id, "") << TRACK_SHIFT) + seq,
                row.name,
                row.wall_time_ns,
                row.payload_json or None,
                row.extra_json or None,
                unknown_fields(row, _EVENT_FIELDS) or None,
            )
            for seq, row in enumerate(rows[skip:], batch.first_seq + skip)
        ),
    )
