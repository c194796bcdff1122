"""A SQLite file as the writer's database: it is alone with the file, and remembers that."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw

from lanekit.slow.batches import Batch, Kind
from lanekit.slow.limits import DB_SINK_CHECKPOINT_INTERVAL
from lanekit.slow.store.database import Durability, Tracks
from lanekit.slow.store.row_inserts import insert_episodes, insert_events, insert_steps
from lanekit.slow.store.store_file import open_for_writing, roll_back

_INSERTS = {
    Kind.STEPS: insert_steps,
    Kind.EPISODES: insert_episodes,
    Kind.EVENTS: insert_events,
}


class SQLiteDatabase:
    """Owns the file's only writing connection, and the write-ahead log's checkpoints."""

    locking = ""

    def __init__(
        self, connection: apsw.Connection, path: str, durability: Durability = "normal"
    ) -> None:
        self.path = path
        self._durability = durability
        self._use(connection)

    def _use(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._cursor = connection.cursor()
        self._is_read_only = False
        self._revision: int | None = None
        self._data_version = -1
        self._log_pages = 0
        self._checkpointed_at = 0
        connection.set_wal_hook(self._count_pages)

    def probe(self) -> None:
        """Write what is there already. A connection that found the file read-only is made anew."""
        if self._is_read_only:
            new = open_for_writing(self.path, self._durability)
            self.connection.close()
            self._use(new)
        try:
            # `BEGIN IMMEDIATE` alone succeeds on a file that is read-only.
            self.connection.pragma("user_version", self.connection.pragma("user_version"))
        except (apsw.ReadOnlyError, apsw.CantOpenError):
            self._is_read_only = True
            raise

    def begin(self, run_ids: Sequence[str], remembered: Mapping[str, int]) -> Iterable[str] | None:
        """Lock the file. See `Database`."""
        self._cursor.execute("BEGIN IMMEDIATE")
        version = self.connection.pragma("data_version")
        if version == self._data_version:
            return ()
        # Another connection wrote: nothing remembered can be relied upon.
        self._data_version = version
        self._revision = None
        return None

    def next_revision(self) -> int:
        """Count one change of a run."""
        if self._revision is None:
            newest = self.connection.execute("SELECT max(revision) FROM runs").get
            self._revision = newest or 0
        self._revision += 1
        return self._revision

    def new_track(self) -> None:
        """None: the next after the highest there is."""

    def write(self, statement: str, bindings: tuple[Any, ...]) -> None:
        """Run a statement, at once."""
        self._cursor.execute(statement, bindings)

    def insert(self, batch: Batch, skip: int, tracks: Tracks) -> None:
        """Store rows, at once."""
        _INSERTS[batch.kind](self._cursor, batch, skip, tracks)

    def commit(self) -> None:
        """Commit; then move the log into the file, when that is due."""
        self._cursor.execute("COMMIT")
        self._checkpoint_when_due()

    def roll_back(self) -> None:
        """Undo the transaction."""
        self._revision = None
        roll_back(self.connection)

    def take_over(self, stream: int) -> None:
        """Nothing: a file has one daemon."""

    def sign_of_life(self) -> None:
        """Nothing: a file has one daemon."""

    def own_runs(self) -> str:
        """All of them."""
        return "TRUE"

    def own_streams(self) -> str:
        """All of them."""
        return "TRUE"

    def close(self) -> None:
        """Move everything into the main file and let go of it."""
        with contextlib.suppress(apsw.Error):
            self.connection.set_busy_timeout(0)
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self.connection.close()

    # --- the write-ahead log ---------------------------------------------------------------------

    def _count_pages(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint_when_due(self) -> None:
        if self._log_pages < self._checkpointed_at:
            self._checkpointed_at = 0  # the log began anew
        if self._log_pages - self._checkpointed_at < DB_SINK_CHECKPOINT_INTERVAL:
            return
        # What a checkpoint can not do now - readers are in the way, the disk is full - a later one
        # will; the log holds everything meanwhile.
        with contextlib.suppress(apsw.Error):
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._checkpointed_at = self._log_pages
