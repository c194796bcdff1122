"""The store in a PostgreSQL database, to read."""

from __future__ import annotations

import contextlib

from lanekit.errors import StoreError
from lanekit.slow.store.address import PostgresAddress
from lanekit.slow.store.postgres.connection import READER_SETTINGS, PostgresConnection
from lanekit.slow.store.postgres.migrations import MIGRATIONS, check_version
from lanekit.slow.store.readable import too_old
from lanekit.slow.store.sql_connection import SqlConnection


class ReadableDatabase:
    """A PostgreSQL database."""

    def __init__(self, address: PostgresAddress) -> None:
        self.address = address
        self.path = str(address)

    def connect(self) -> PostgresConnection:
        """Make a connection; it is opened when it is first used."""
        return PostgresConnection(self.address, READER_SETTINGS)

    def settled_revision(self, connection: SqlConnection) -> int:
        """The last before the oldest transaction under way: of later ones some may be missing."""
        ((oldest,),) = connection.execute(
            "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
        ).fetchall()
        return int(oldest) - 1

    def check(self) -> None:
        """Refuse a database without a store, or with one of another version."""
        with contextlib.closing(self.connect()) as connection:
            version = check_version(connection)
        if version == 0:
            raise StoreError(
                f"there is no store in {self.path}; name another with --store, or start"
                " `lanekit daemon` on it to make one"
            )
        if version < len(MIGRATIONS):
            raise too_old(self.path, version, len(MIGRATIONS))
