"""The store in a PostgreSQL database, to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from lanekit.slow.store.address import PostgresAddress
from lanekit.slow.store.database import Durability
from lanekit.slow.store.postgres.database import PostgresDatabase
from lanekit.slow.store.postgres.migrations import Migration, bring_up_to_date
from lanekit.slow.store.telemetry_store import TelemetryStore


class TelemetryPostgresStore(TelemetryStore):
    """One of the writers of a database. For one thread at a time."""

    @classmethod
    def open(
        cls,
        address: str | PostgresAddress,
        *,
        durability: Durability = "normal",
        daemon: str = "",
        migrations: Sequence[Migration] | None = None,
    ) -> Self:
        """Open the store in the database of that URL, or make a new one there.

        Every commit is on the server's disk before it is acknowledged; with ``durability="full"``
        also on those of its synchronous standbys, where it has any. `daemon` tells daemons that
        share the database apart: each looks after its own runs and streams.
        """
        if durability not in ("normal", "full"):
            raise ValueError(f"durability is 'normal' or 'full', not {durability!r}")
        if isinstance(address, str):
            address = PostgresAddress(address)
        database = PostgresDatabase(address, durability, daemon)
        try:
            bring_up_to_date(database.connection, migrations)
            # A database that was restored from a dump counts its transactions anew.
            database.connection.execute(
                "UPDATE runs SET revision = 0 WHERE revision > pg_current_xact_id()::text::bigint"
            )
            database.sign_of_life()
        except BaseException:
            database.close()
            raise
        return cls(database)
