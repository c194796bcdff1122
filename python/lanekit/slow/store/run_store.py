"""Reading the store back: from any process and thread, while the daemon writes or without it."""

from __future__ import annotations

import threading
import weakref
from typing import NamedTuple, Self

import numpy as np

from lanekit.errors import RunNotFound, StoreError
from lanekit.slow.batches import Kind
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.address import PostgresAddress, StoreAddress
from lanekit.slow.store.answers import episode_answer, event_answer, step_answer
from lanekit.slow.store.commit_order import (
    BY_RANGE,
    SEQ_MASK,
    TrackTable,
    cut_to_bytes,
    read_rows,
    read_windows,
)
from lanekit.slow.store.frames import Frames
from lanekit.slow.store.readable import Readable, open_readable
from lanekit.slow.store.records import EventRecord, RunRecord, decode_json, decode_object
from lanekit.slow.store.results import Episodes, Row, Steps, TrackName
from lanekit.slow.store.run_rows import select_runs
from lanekit.slow.store.selection import Selection, id_ranges, places, select
from lanekit.slow.store.sql_connection import SqlConnection
from lanekit.slow.store.step_ids import TRACK_SHIFT
from lanekit.slow.store.store_file import store_errors

__all__ = ["Counts", "Frames", "RunStore"]

ANSWER_BYTES = 8 * 2**20
"""What the rows of one answer take at most, unless one alone takes more."""


class Counts(NamedTuple):
    """How many of each kind a run has."""

    steps: int
    episodes: int
    events: int


class RunStore:
    """A store, to read. Each thread that uses it gets a connection of its own."""

    def __init__(self, store: Readable) -> None:
        self.path = store.path
        """How messages call it."""
        self.address = store.address
        """Where it is, to open it again elsewhere."""
        self._store = store
        self._local = threading.local()
        self._connections: weakref.WeakSet[SqlConnection] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, address: StoreAddress | None = None) -> Self:
        """Open the store at a path or URL, or the daemon's usual one.

        Never writes, or makes a new one.
        """
        return cls(open_readable(address))

    @property
    def is_shared(self) -> bool:
        """Whether several daemons may write to it."""
        return isinstance(self.address, PostgresAddress)

    def close(self) -> None:
        """Close all connections. Harmless when repeated; no thread may be reading."""
        with self._lock:
            self._closed = True
            for connection in list(self._connections):
                connection.close()
            self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- runs ------------------------------------------------------------------------------------

    def runs(self, include_archived: bool = False) -> list[RunRecord]:
        """The runs there are, newest first."""
        where = "" if include_archived else "WHERE archived = 0 "
        with store_errors(self.path):
            messages = select_runs(self.connection(), f"{where}ORDER BY run DESC")
        return [RunRecord.from_message(message) for message in messages]

    def run(self, run_id: str) -> RunRecord:
        """One run as it is now, or `RunNotFound`."""
        with store_errors(self.path):
            found = select_runs(self.connection(), "WHERE run_id = ?", (run_id,))
        if not found:
            raise self._not_found(run_id)
        return RunRecord.from_message(found[0])

    def counts(self, run_id: str) -> Counts:
        """How many steps, episodes and events a run has."""
        with store_errors(self.path):
            row = (
                self.connection()
                .execute("SELECT steps, episodes, events FROM runs WHERE run_id = ?", (run_id,))
                .fetchone()
            )
        if row is None:
            raise self._not_found(run_id)
        return Counts(*row)

    def agents(self, run_id: str) -> list[str]:
        """The agents that took steps or finished episodes, in alphabetical order."""
        with store_errors(self.path):
            connection = self.connection()
            rows = connection.execute(
                "SELECT DISTINCT agent_id FROM tracks WHERE run = ?1 AND ("
                " EXISTS (SELECT 1 FROM steps WHERE id BETWEEN track << 40"
                " AND ((track + 1) << 40) - 1) OR EXISTS (SELECT 1 FROM episodes"
                " WHERE id BETWEEN track << 40 AND ((track + 1) << 40) - 1)) ORDER BY agent_id",
                (self.run_number(connection, run_id, Kind.STEPS)[0],),
            ).fetchall()
        return [str(agent_id) for (agent_id,) in rows]

    # --- rows, to work with ----------------------------------------------------------------------

    def steps(
        self,
        run_id: str,
        *,
        agent: str | None = None,
        worker: str | None = None,
        episode: int | None = None,
        last: int | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> Steps:
        """Steps of a run, of all agents or of one, in the order in which they were committed.

        `last`: of those, the last so many; `limit`: the first so many. `after`: without the run's
        first so many steps, whosever they are (a cursor, as `step_columns` gives it).
        """
        chosen = Selection(agent, worker, episode, last, after, limit)
        return Steps(run_id, *self._select(Kind.STEPS, run_id, chosen))

    def episodes(
        self,
        run_id: str,
        *,
        agent: str | None = None,
        worker: str | None = None,
        episode: int | None = None,
        last: int | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> Episodes:
        """Finished episodes of a run; see `steps`."""
        chosen = Selection(agent, worker, episode, last, after, limit)
        return Episodes(run_id, *self._select(Kind.EPISODES, run_id, chosen))

    def events(
        self,
        run_id: str,
        *,
        worker: str | None = None,
        last: int | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> list[EventRecord]:
        """A run's log; see `steps`."""
        chosen = Selection(worker=worker, last=last, after=after, limit=limit)
        rows, tracks = self._select(Kind.EVENTS, run_id, chosen)
        return [
            EventRecord(
                run_id=run_id,
                name=name,
                wall_time_ns=wall_time_ns,
                payload=decode_json(payload),
                worker_id=tracks[row_id >> TRACK_SHIFT].worker_id,
                extra=decode_object(extra),
                stream_id=tracks[row_id >> TRACK_SHIFT].stream_id,
                seq=row_id & SEQ_MASK,
            )
            for row_id, name, wall_time_ns, payload, extra, _ in rows
        ]

    def frames(
        self,
        run_id: str,
        *,
        agent: str | None = None,
        worker: str | None = None,
        episode: int | None = None,
    ) -> Frames:
        """The recorded frames of a run, or of one agent or episode; pixels are read one by one."""
        chosen = Selection(agent, worker, episode)
        with store_errors(self.path):
            connection = self.connection()
            run, _ = self.run_number(connection, run_id, Kind.STEPS)
            tracks = TrackTable(connection, run)
            ids: list[int] = []
            for bounds in id_ranges(connection, Kind.STEPS, run, tracks, chosen):
                found = connection.execute(
                    "SELECT id FROM frames WHERE id BETWEEN ?1 AND ?2 AND"
                    " (?3 = (SELECT episode FROM steps WHERE steps.id = frames.id) OR ?3 IS NULL)"
                    " ORDER BY id",
                    (*bounds, chosen.episode),
                )
                ids += [row_id for (row_id,) in found]
            order = np.argsort(places(connection, Kind.STEPS, run, tracks, ids), kind="stable")
        return Frames(
            self.connection, self.path, run_id, [ids[index] for index in order], tracks.names
        )

    # --- rows, to send --------------------------------------------------------------------------

    def step_columns(
        self,
        run_id: str,
        cursor: int,
        limit: int,
        *,
        frames: bool = True,
        max_bytes: int = ANSWER_BYTES,
    ) -> tuple[pb.StepColumns, int]:
        """Steps from position `cursor` on, at most `limit`, and where to go on from.

        Fewer when `max_bytes` are reached, but always one if there is one. Nothing is left out and
        nothing comes twice, however many senders the run has.
        """
        pixels: dict[int, Row] = {}
        with store_errors(self.path):
            connection = self.connection()
            rows, tracks = self._page(
                connection, Kind.STEPS, run_id, cursor, limit, max_bytes, frames
            )
            if frames:
                seqs: dict[int, list[int]] = {}
                for row in rows:
                    seqs.setdefault(row[0] >> TRACK_SHIFT, []).append(row[0])
                for ids in seqs.values():
                    found = connection.execute(
                        f"SELECT id, width, height, channels, pixels FROM frames{BY_RANGE}",
                        (ids[0], ids[-1]),
                    )
                    pixels.update((row[0], row) for row in found)
        return step_answer(rows, pixels, tracks), cursor + len(rows)

    def episode_rows(
        self, run_id: str, cursor: int, limit: int, *, max_bytes: int = ANSWER_BYTES
    ) -> tuple[list[pb.Episode], int]:
        """Episodes from position `cursor` on; see `step_columns`."""
        with store_errors(self.path):
            rows, tracks = self._page(
                self.connection(), Kind.EPISODES, run_id, cursor, limit, max_bytes
            )
        return [episode_answer(row, run_id, tracks) for row in rows], cursor + len(rows)

    def event_rows(
        self, run_id: str, cursor: int, limit: int, *, max_bytes: int = ANSWER_BYTES
    ) -> tuple[list[pb.RunEvent], int]:
        """Log events from position `cursor` on; see `step_columns`."""
        with store_errors(self.path):
            rows, tracks = self._page(
                self.connection(), Kind.EVENTS, run_id, cursor, limit, max_bytes
            )
        return [event_answer(row, run_id, tracks) for row in rows], cursor + len(rows)

    def run_messages(self, after_revision: int = 0) -> list[pb.Run]:
        """The runs that changed after a revision, the latest change last."""
        with store_errors(self.path):
            connection = self.connection()
            # Asked first: what is committed after it may be missing below, and comes next time.
            settled = self._store.settled_revision(connection)
            messages = select_runs(
                connection, "WHERE revision > ? ORDER BY revision", (after_revision,)
            )
        for message in messages:
            message.revision = min(message.revision, settled)
        return messages

    # --- for other questions ----------------------------------------------------------------------

    def connection(self) -> SqlConnection:
        """This thread's own connection, which can only read, for plain SQL."""
        connection: SqlConnection | None = getattr(self._local, "connection", None)
        if self._closed:
            raise StoreError(f"{self.path}: this reader was closed; open it again")
        if connection is None:
            connection = self._store.connect()
            with self._lock:
                self._connections.add(connection)
            self._local.connection = connection
        return connection

    def run_number(self, connection: SqlConnection, run_id: str, kind: Kind) -> tuple[int, int]:
        """A run's number in the store, and how many rows of a kind it has."""
        row = connection.execute(
            f"SELECT run, {kind.value} FROM runs WHERE run_id = ?", (run_id,)
        ).fetchone()
        if row is None:
            raise self._not_found(run_id)
        return row[0], row[1]

    # --- within ----------------------------------------------------------------------------------

    def _not_found(self, run_id: str) -> RunNotFound:
        # Without the store's path: the daemon says this to callers from elsewhere, too.
        return RunNotFound(f"run {run_id!r} is not known; `lanekit runs` lists what there is")

    def _select(
        self, kind: Kind, run_id: str, chosen: Selection
    ) -> tuple[list[Row], dict[int, TrackName]]:
        with store_errors(self.path):
            connection = self.connection()
            run, total = self.run_number(connection, run_id, kind)
            rows, tracks = select(connection, kind, run, total, chosen)
        return rows, tracks.names

    def _page(
        self,
        connection: SqlConnection,
        kind: Kind,
        run_id: str,
        cursor: int,
        limit: int,
        max_bytes: int,
        frames: bool = False,
    ) -> tuple[list[Row], dict[int, TrackName]]:
        if cursor < 0 or limit < 1:
            raise ValueError(f"cursor must be at least 0 and limit 1, got {cursor} and {limit}")
        run, total = self.run_number(connection, run_id, kind)
        if cursor >= total:
            return [], {}
        windows = read_windows(connection, kind, run, cursor, min(total, cursor + limit))
        # After the windows, so that it knows their tracks.
        tracks = TrackTable(connection, run)
        windows = cut_to_bytes(connection, kind, tracks, windows, max_bytes, frames)
        return read_rows(connection, kind, tracks, windows), tracks.names
