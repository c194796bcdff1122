"""A store to write, of whatever kind its address says."""

from __future__ import annotations

from lanekit.slow.store.address import PostgresAddress, StoreAddress, parse_store
from lanekit.slow.store.database import Durability
from lanekit.slow.store.missing_driver import missing_driver
from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore
from lanekit.slow.store.telemetry_store import TelemetryStore


def open_to_write(
    address: StoreAddress, *, durability: Durability = "normal", daemon: str = ""
) -> TelemetryStore:
    """Open a store, or make a new one. `daemon` tells those apart that share a database."""
    place = parse_store(address)
    if not isinstance(place, PostgresAddress):
        return TelemetrySQLiteStore.open(place, durability=durability)
    try:
        from lanekit.slow.store.postgres.postgres_store import TelemetryPostgresStore
    except ImportError as error:
        raise missing_driver(error) from None
    return TelemetryPostgresStore.open(place, durability=durability, daemon=daemon)
