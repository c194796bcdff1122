"""The store in one SQLite file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Self

from lanekit.slow.store.database import Durability
from lanekit.slow.store.ledger import RunChange
from lanekit.slow.store.sqlite_database import SQLiteDatabase
from lanekit.slow.store.store_file import MIGRATIONS, Migration, open_for_writing
from lanekit.slow.store.telemetry_store import (
    Committed,
    OpenStream,
    StreamCommitted,
    TelemetryStore,
)

__all__ = [
    "MIGRATIONS",
    "Committed",
    "Durability",
    "OpenStream",
    "RunChange",
    "StreamCommitted",
    "TelemetrySQLiteStore",
]


class TelemetrySQLiteStore(TelemetryStore):
    """Owns the file's only writing connection. For one thread at a time."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "normal",
        migrations: Sequence[Migration] | None = None,
    ) -> Self:
        """Open the store at `path`, or make a new one there.

        With ``durability="normal"`` a commit survives the death of any process, and a power cut may
        cost the commits since the last checkpoint; with ``"full"`` every commit is on the disk
        itself before it is acknowledged. Neither can leave half of one.
        """
        connection = open_for_writing(path, durability, migrations)
        return cls(SQLiteDatabase(connection, os.fspath(path), durability))
