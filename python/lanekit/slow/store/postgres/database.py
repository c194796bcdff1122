"""A PostgreSQL database as the writer's: others may write to it at the same time.

A transaction locks the runs that it is about, in the order of their ids, and sees by their revision
whether what this writer remembers of them still holds. So daemons with different runs never wait
for each other, and daemons with one run in common take turns. Rows are gathered while the
transaction goes on, and stored by one COPY for each table at its end.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lanekit.slow.batches import Batch, Kind
from lanekit.slow.store.address import PostgresAddress
from lanekit.slow.store.database import Durability, Tracks
from lanekit.slow.store.postgres import copy_rows
from lanekit.slow.store.postgres.connection import WRITER_SETTINGS, PostgresConnection

DAEMON_LOST_AFTER = 60
"""Seconds without a sign of life after which others look after a daemon's streams."""

# A commit is acknowledged, so it must be on the server's disk whatever the server's own default
# is: the server's process may be killed, too.
_COMMITS: dict[Durability, str] = {"normal": "local", "full": "on"}

_COLUMNS = {
    "steps": copy_rows.STEP_COLUMNS,
    "frames": copy_rows.FRAME_COLUMNS,
    "episodes": copy_rows.EPISODE_COLUMNS,
    "events": copy_rows.EVENT_COLUMNS,
}

_BEGIN = """
    WITH locked AS (
        SELECT run_id, revision FROM runs WHERE run_id = ANY(?) ORDER BY run_id FOR UPDATE
    )
    SELECT pg_current_xact_id()::text::bigint, run_id, revision
    FROM (SELECT 1) AS one LEFT JOIN locked ON TRUE
"""


class PostgresDatabase:
    """The writer's session, and what it gathers for the end of a transaction."""

    locking = " FOR UPDATE"

    def __init__(self, address: PostgresAddress, durability: Durability, daemon: str) -> None:
        self.path = str(address)
        self.connection = PostgresConnection(
            address,
            {
                **WRITER_SETTINGS,
                "synchronous_commit": _COMMITS[durability],
                "lanekit.daemon": daemon,
            },
        )
        self._daemon = daemon
        self._revision = 0
        self._drawn_tracks: list[int] = []
        self._spare_tracks: list[int] = []
        self._rows: dict[str, list[bytes]] = {table: [] for table in _COLUMNS}
        self._writes: list[tuple[str, list[tuple[Any, ...]]]] = []

    def begin(self, run_ids: Sequence[str], remembered: Mapping[str, int]) -> Iterable[str]:
        """Begin, and lock the runs. See `Database`."""
        self._discard()
        self.connection.begin()
        rows = self.connection.execute(_BEGIN, (list(run_ids),)).fetchall()
        self._revision = rows[0][0]
        found = {run_id: revision for _, run_id, revision in rows}
        return [run_id for run_id, known in remembered.items() if found.get(run_id) != known]

    def next_revision(self) -> int:
        """The transaction's number: the same for all that it changes."""
        return self._revision

    def new_track(self) -> int:
        """A number that was drawn in vain before, or a new one."""
        if self._spare_tracks:
            track = self._spare_tracks.pop()
        else:
            found = self.connection.execute("SELECT nextval('track_numbers')").fetchall()
            track = int(found[0][0])
        self._drawn_tracks.append(track)
        return track

    def write(self, statement: str, bindings: tuple[Any, ...]) -> None:
        """Run a statement at the end of the transaction, together with its like before it."""
        if not self._writes or self._writes[-1][0] != statement:
            self._writes.append((statement, []))
        self._writes[-1][1].append(bindings)

    def insert(self, batch: Batch, skip: int, tracks: Tracks) -> None:
        """Gather rows."""
        if batch.kind is Kind.STEPS:
            steps, frames = copy_rows.step_rows(batch, skip, tracks)
            self._rows["steps"].append(steps)
            if frames:
                self._rows["frames"].append(frames)
        elif batch.kind is Kind.EPISODES:
            self._rows["episodes"].append(copy_rows.episode_rows(batch, skip, tracks))
        else:
            self._rows["events"].append(copy_rows.event_rows(batch, skip, tracks))

    def commit(self) -> None:
        """Store what was gathered, and commit."""
        for table, rows in self._rows.items():
            if rows:
                data = b"".join((copy_rows.HEADER, *rows, copy_rows.TRAILER))
                self.connection.copy(table, _COLUMNS[table], data)
        for statement, bindings in self._writes:
            if len(bindings) == 1:
                self.connection.execute(statement, bindings[0])
            else:
                self.connection.execute_many(statement, bindings)
        # From here on nobody knows whether they are taken.
        self._drawn_tracks.clear()
        self.connection.commit()
        self._discard()

    def roll_back(self) -> None:
        """Undo the transaction."""
        self._spare_tracks += sorted(self._drawn_tracks, reverse=True)
        self._drawn_tracks.clear()
        self._discard()
        self.connection.roll_back()

    def probe(self) -> None:
        """Have the server write a transaction; the connection is made anew by itself."""
        self.begin((), {})
        self.commit()

    def _discard(self) -> None:
        for rows in self._rows.values():
            rows.clear()
        self._writes.clear()

    # --- several daemons in one database ---------------------------------------------------------

    def take_over(self, stream: int) -> None:
        """Note that this daemon looks after a stream."""
        self.write(
            "UPDATE streams SET daemon = ? WHERE stream = ? AND daemon != ?",
            (self._daemon, stream, self._daemon),
        )

    def sign_of_life(self) -> None:
        """Let other daemons know that this one lives. By the server's clock: all have that."""
        self.connection.execute(
            "INSERT INTO daemons VALUES (?, ?, now()) ON CONFLICT (daemon)"
            " DO UPDATE SET host = excluded.host, seen = excluded.seen",
            (self._daemon, socket.gethostname()),
        )

    def own_runs(self) -> str:
        """Those that were made through this daemon."""
        return "daemon = current_setting('lanekit.daemon')"

    def own_streams(self) -> str:
        """Those that were registered here last, or at a daemon that is gone."""
        return (
            "(streams.daemon = current_setting('lanekit.daemon') OR streams.daemon NOT IN"
            f" (SELECT daemon FROM daemons WHERE seen > now() - interval '{DAEMON_LOST_AFTER} s'))"
        )

    def close(self) -> None:
        """Let go of the database."""
        self.connection.close()
