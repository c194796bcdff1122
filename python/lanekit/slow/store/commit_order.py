"""A run's rows in the order of their commits, which the table `batches` keeps.

Rows lie in the file by track. A *window* says that a stretch of the run's positions is a stretch of
one stream's numbers; reading one means looking into each of that stream's tracks, by range of ids.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lanekit.errors import StoreError
from lanekit.slow.batches import Kind
from lanekit.slow.store.results import Row, TrackName
from lanekit.slow.store.sql_connection import SqlConnection
from lanekit.slow.store.step_ids import TRACK_SHIFT

SEQ_MASK = (1 << TRACK_SHIFT) - 1

# Byte for byte, what went in as text comes out as bytes.
SELECT = {
    Kind.STEPS: (
        "SELECT id, episode, step, reward, terminated, truncated, wall_time_ns,"
        " CAST(action AS BLOB), CAST(observation AS BLOB), CAST(info AS BLOB),"
        " CAST(render_hint AS BLOB), seed, CAST(extra AS BLOB), unknown FROM steps"
    ),
    Kind.EPISODES: (
        "SELECT id, episode, episode_return, length, terminated, truncated, wall_time_ns, seed,"
        " CAST(info AS BLOB), CAST(extra AS BLOB), unknown FROM episodes"
    ),
    Kind.EVENTS: (
        "SELECT id, name, wall_time_ns, CAST(payload AS BLOB), CAST(extra AS BLOB), unknown"
        " FROM events"
    ),
}
# Sizes come from the rows' headers: values that lie on pages of their own are not read for them.
_SELECT_SIZES = {
    Kind.STEPS: (
        "SELECT id, 100 + coalesce(octet_length(action), 0)"
        " + coalesce(octet_length(observation), 0) + coalesce(octet_length(info), 0)"
        " + coalesce(octet_length(render_hint), 0) + coalesce(octet_length(extra), 0)"
        " + coalesce(octet_length(unknown), 0) FROM steps"
    ),
    Kind.EPISODES: (
        "SELECT id, 100 + coalesce(octet_length(info), 0) + coalesce(octet_length(extra), 0)"
        " + coalesce(octet_length(unknown), 0) FROM episodes"
    ),
    Kind.EVENTS: (
        "SELECT id, 100 + coalesce(octet_length(payload), 0) + coalesce(octet_length(extra), 0)"
        " + coalesce(octet_length(unknown), 0) FROM events"
    ),
}
_SELECT_FRAME_SIZES = "SELECT id, octet_length(pixels) FROM frames"
BY_RANGE = " WHERE id BETWEEN ? AND ? ORDER BY id"


@dataclass(frozen=True, slots=True)
class Window:
    """Positions `position` on of a run are numbers `first_seq` on of `stream`, for `rows` rows."""

    position: int
    stream: int
    first_seq: int
    rows: int


class TrackTable:
    """The tracks of a run."""

    def __init__(self, connection: SqlConnection, run: int) -> None:
        self.names: dict[int, TrackName] = {}
        self.streams: dict[int, int] = {}
        self.of_stream: dict[int, list[int]] = {}
        rows = connection.execute(
            "SELECT track, stream, stream_id, tracks.worker_id, agent_id"
            " FROM tracks JOIN streams USING (stream) WHERE tracks.run = ?",
            (run,),
        )
        for track, stream, *names in rows:
            self.names[track] = TrackName(*names)
            self.streams[track] = stream
            self.of_stream.setdefault(stream, []).append(track)


def read_windows(
    connection: SqlConnection, kind: Kind, run: int, start: int, stop: int
) -> list[Window]:
    """The windows that cover positions `start` up to `stop`, cut to fit."""
    rows = connection.execute(
        "SELECT position, stream, first_seq, rows FROM batches WHERE kind = ?1 AND run = ?2"
        " AND position >= coalesce((SELECT max(position) FROM batches WHERE kind = ?1 AND run = ?2"
        " AND position <= ?3), 0) AND position < ?4 ORDER BY position",
        (kind.value, run, start, stop),
    )
    return list(_cut((Window(*row) for row in rows), start, stop))


def _cut(windows: Iterable[Window], start: int, stop: int) -> Iterable[Window]:
    for window in windows:
        skip = max(0, start - window.position)
        rows = min(window.rows, stop - window.position) - skip
        if rows > 0:
            yield Window(window.position + skip, window.stream, window.first_seq + skip, rows)


def read_rows(
    connection: SqlConnection, kind: Kind, tracks: TrackTable, windows: Iterable[Window]
) -> list[Row]:
    """The windows' rows, in order; the columns of `SELECT`."""
    return _gather(connection, SELECT[kind], tracks, windows, complete=True)


def cut_to_bytes(
    connection: SqlConnection,
    kind: Kind,
    tracks: TrackTable,
    windows: list[Window],
    max_bytes: int,
    frames: bool,
) -> list[Window]:
    """As many of the windows' rows as fit into `max_bytes`, and at least one."""
    if not windows:
        return windows
    sizes = _gather(connection, _SELECT_SIZES[kind], tracks, windows, complete=True)
    pixels: Mapping[int, int] = {}
    if frames and kind is Kind.STEPS:
        pixels = dict(_gather(connection, _SELECT_FRAME_SIZES, tracks, windows, complete=False))
    total = 0
    for count, (row_id, size) in enumerate(sizes):
        total += size + pixels.get(row_id, 0)
        if count and total > max_bytes:
            start = windows[0].position
            return list(_cut(windows, start, start + count))
    return windows


def _gather(
    connection: SqlConnection,
    select: str,
    tracks: TrackTable,
    windows: Iterable[Window],
    *,
    complete: bool,
) -> list[Row]:
    gathered: list[Row] = []
    for window in windows:
        rows: list[Row] = []
        parts = 0
        last_seq = window.first_seq + window.rows - 1
        for track in tracks.of_stream.get(window.stream, ()):
            first_id = track << TRACK_SHIFT
            part = connection.execute(
                select + BY_RANGE, (first_id + window.first_seq, first_id + last_seq)
            ).fetchall()
            rows += part
            parts += bool(part)
        if complete and len(rows) != window.rows:
            raise StoreError(
                f"damaged: the store should hold {window.rows} rows from number"
                f" {window.first_seq} of stream {window.stream}, and holds {len(rows)}; check it,"
                " for SQLite with `sqlite3 FILE 'PRAGMA integrity_check'`"
            )
        if parts > 1:
            rows.sort(key=lambda row: row[0] & SEQ_MASK)
        gathered += rows
    return gathered


def position_keys(
    connection: SqlConnection, kind: Kind, run: int, tracks: TrackTable, ids: Iterable[int]
) -> npt.NDArray[np.int64]:
    """Each id's position in its run."""
    numbers = np.fromiter(ids, np.int64)
    track_numbers = numbers >> TRACK_SHIFT
    seqs = numbers & SEQ_MASK
    positions = np.zeros(len(numbers), np.int64)
    windows = sorted(
        read_windows(connection, kind, run, 0, 2**62), key=lambda w: (w.stream, w.first_seq)
    )
    by_stream = {
        stream: np.array([(w.first_seq, w.position) for w in group], np.int64).T
        for stream, group in itertools.groupby(windows, key=lambda w: w.stream)
    }
    for track in np.unique(track_numbers):
        chosen = track_numbers == track
        firsts, starts = by_stream[tracks.streams[int(track)]]
        index = np.searchsorted(firsts, seqs[chosen], side="right") - 1
        positions[chosen] = starts[index] + seqs[chosen] - firsts[index]
    return positions


def first_seqs_after(windows: Iterable[Window], after: int) -> dict[int, int]:
    """For each stream the number of its first row at or behind position `after`."""
    firsts: dict[int, int] = {}
    for window in windows:
        before = min(window.rows, after - window.position)
        if before > 0:
            firsts[window.stream] = window.first_seq + before
    return firsts
