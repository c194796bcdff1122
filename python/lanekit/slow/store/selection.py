"""Some of a run's rows: those of an agent, a worker, an episode; the last, or from a cursor on.

Without a filter the order of commits leads; with one, each track it leaves is a range of ids. So
rows of an agent or a worker are found by their ids. Those of an episode are found by halving, where
the writer saw that the episodes of a track's steps never fall. Where they did, and in the table of
episodes, which is short, all rows of the tracks that are left are looked at.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np

from lanekit.slow.batches import Kind
from lanekit.slow.store.commit_order import (
    SELECT,
    SEQ_MASK,
    TrackTable,
    first_seqs_after,
    position_keys,
    read_rows,
    read_windows,
)
from lanekit.slow.store.results import Row
from lanekit.slow.store.sql_connection import NO_LIMIT, SqlConnection
from lanekit.slow.store.step_ids import TRACK_SHIFT

_BEYOND = 2**63
_FEW = 64
"""Rows that are looked at rather than halved once more."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows of a run. None and 0 leave nothing out."""

    agent: str | None = None
    worker: str | None = None
    episode: int | None = None
    last: int | None = None
    """Of those that fit, the last so many."""
    after: int = 0
    """Without the run's first so many rows, of whatever agent."""
    limit: int | None = None
    """Of those that fit, the first so many."""

    def __post_init__(self) -> None:
        for name in ("agent", "worker"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} must be a name, or None for all; got {value!r}")
        for name in ("episode", "last", "limit", "after"):
            value = getattr(self, name)
            if value is None and name != "after":
                continue
            try:
                number = operator.index(value)
            except TypeError:
                raise TypeError(f"{name} must be a whole number, got {value!r}") from None
            if name == "episode":
                if not -_BEYOND <= number < _BEYOND:
                    raise ValueError(f"episode must be a 64-bit number, got {number}")
            elif number < 0:
                raise ValueError(f"{name} must not be negative, got {number}")
            # No run has so many rows, and databases take no larger numbers.
            object.__setattr__(self, name, min(number, _BEYOND - 1))
        if self.last is not None and self.limit is not None:
            raise ValueError("give last or limit, not both: the last rows, or the first")

    @property
    def is_filtered(self) -> bool:
        """Whether rows are left out because of what is in them."""
        return not (self.agent is None and self.worker is None and self.episode is None)


def select(
    connection: SqlConnection, kind: Kind, run: int, total: int, chosen: Selection
) -> tuple[list[Row], TrackTable]:
    """Read the chosen rows of a run that has `total`, in the order of their commits."""
    if chosen.is_filtered:
        # The tracks may be younger than `total`; their rows are simply read, too.
        tracks = TrackTable(connection, run)
        return _filtered(connection, kind, run, tracks, chosen), tracks
    start = chosen.after
    if chosen.last is not None:
        start = max(start, total - chosen.last)
    stop = total if chosen.limit is None else min(total, start + chosen.limit)
    windows = read_windows(connection, kind, run, start, stop)
    tracks = TrackTable(connection, run)
    return read_rows(connection, kind, tracks, windows), tracks


def _filtered(
    connection: SqlConnection, kind: Kind, run: int, tracks: TrackTable, chosen: Selection
) -> list[Row]:
    ranges = id_ranges(connection, kind, run, tracks, chosen)
    where = "WHERE id BETWEEN ? AND ?"
    more: tuple[int, ...] = ()
    if chosen.episode is not None:
        where += " AND episode = ?"
        more = (chosen.episode,)
    order = "ORDER BY id" if chosen.last is None else "ORDER BY id DESC"
    most = chosen.last if chosen.last is not None else chosen.limit
    limit = NO_LIMIT if most is None else most
    if len(ranges) > 1 and most is not None:
        ranges = _narrowed(connection, kind, run, tracks, ranges, where, more, order, limit)
    rows: list[Row] = []
    for first, last in ranges:
        part = connection.execute(
            f"{SELECT[kind]} {where} {order} LIMIT ?", (first, last, *more, limit)
        ).fetchall()
        rows += part if chosen.last is None else reversed(part)
    if len(ranges) > 1:
        order_of = places(connection, kind, run, tracks, [row[0] for row in rows])
        rows = [rows[index] for index in np.argsort(order_of)]
    return rows


def id_ranges(
    connection: SqlConnection, kind: Kind, run: int, tracks: TrackTable, chosen: Selection
) -> list[tuple[int, int]]:
    """For each track of the chosen agents and workers, its first id and its last."""
    firsts: dict[int, int] = {}
    if chosen.after:
        firsts = first_seqs_after(
            read_windows(connection, kind, run, 0, chosen.after), chosen.after
        )
    ranges = [
        (
            (track << TRACK_SHIFT) + firsts.get(tracks.streams[track], 0),
            (track << TRACK_SHIFT) + SEQ_MASK,
        )
        for track, name in sorted(tracks.names.items())
        if chosen.agent in (None, name.agent_id) and chosen.worker in (None, name.worker_id)
    ]
    if kind is Kind.STEPS and chosen.episode is not None:
        return [_around(connection, chosen.episode, *bounds) for bounds in ranges]
    return ranges


def _around(connection: SqlConnection, episode: int, first: int, last: int) -> tuple[int, int]:
    """The part of one track's range of steps that holds all of an episode, and little else."""
    # In one statement, hence of one moment: the order is that of the rows up to the newest.
    row = connection.execute(
        "SELECT episodes_in_order, (SELECT max(id) FROM steps WHERE id BETWEEN ?1 AND ?2)"
        " FROM tracks WHERE track = ?3",
        (first, last, first >> TRACK_SHIFT),
    ).fetchone()
    if row is None or not row[0] or row[1] is None:
        return first, last
    newest = row[1]
    start, _ = _halved(connection, first, newest, episode)
    _, stop = _halved(connection, start, newest, episode + 1)
    return start, stop


def _halved(connection: SqlConnection, first: int, last: int, episode: int) -> tuple[int, int]:
    """Few ids of steps in order: before them are lower episodes, behind them `episode` or more."""
    while last - first > _FEW:
        middle = (first + last) // 2
        found = connection.execute(
            "SELECT id, episode FROM steps WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1",
            (middle, last),
        ).fetchone()
        if found is not None and found[1] < episode:
            first = found[0] + 1
        else:
            last = middle
    return first, last


def _narrowed(
    connection: SqlConnection,
    kind: Kind,
    run: int,
    tracks: TrackTable,
    ranges: list[tuple[int, int]],
    where: str,
    more: tuple[int, ...],
    order: str,
    limit: int,
) -> list[tuple[int, int]]:
    """The ranges without what `limit` leaves out, so that only rows that are wanted are read."""
    ids: list[int] = []
    for first, last in ranges:
        found = connection.execute(
            f"SELECT id FROM {kind.value} {where} {order} LIMIT ?", (first, last, *more, limit)
        )
        ids += [row_id for (row_id,) in found]
    order_of = places(connection, kind, run, tracks, ids)
    ranked = np.argsort(-order_of if order.endswith("DESC") else order_of)[:limit]
    bounds: dict[int, tuple[int, int]] = {}
    for index in ranked:
        row_id = ids[index]
        low, high = bounds.get(row_id >> TRACK_SHIFT, (row_id, row_id))
        bounds[row_id >> TRACK_SHIFT] = (min(low, row_id), max(high, row_id))
    return sorted(bounds.values())


def places(
    connection: SqlConnection, kind: Kind, run: int, tracks: TrackTable, ids: list[int]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Numbers that put ids into the order of their commits."""
    streams = {tracks.streams[track] for track in {row_id >> TRACK_SHIFT for row_id in ids}}
    if len(streams) == 1:
        return np.fromiter(ids, np.int64) & SEQ_MASK
    return position_keys(connection, kind, run, tracks, ids)
