"""The schema in a PostgreSQL database: made, brought up to date, and checked before it is used."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable, Sequence

from lanekit.errors import StoreError, StoreTooNew
from lanekit.slow.store.postgres.connection import SCHEMA, PostgresConnection

Migration = Callable[[PostgresConnection], None]

# Any number does, as long as all daemons take the same.
_LOCK = 0x4C4B5453


def _create(connection: PostgresConnection) -> None:
    schema = importlib.resources.files(__package__).joinpath("schema.sql")
    connection.execute_script(schema.read_text(encoding="utf-8"))
    connection.execute("INSERT INTO version VALUES (0)")


def _note_journals(connection: PostgresConnection) -> None:
    for column in ("journal_id", "continues", "notice"):
        connection.execute(f"ALTER TABLE streams ADD COLUMN {column} TEXT NOT NULL DEFAULT ''")


MIGRATIONS: list[Migration] = [_create, _note_journals]
"""Step i takes a database from version i to i + 1; the first makes it. Only ever appended to."""


def bring_up_to_date(
    connection: PostgresConnection, migrations: Sequence[Migration] | None = None
) -> None:
    """Make the store's tables, or bring older ones up to date; one daemon at a time."""
    migrations = MIGRATIONS if migrations is None else migrations
    _check_encoding(connection)
    if check_version(connection, len(migrations)) == len(migrations):
        return
    connection.begin()
    try:
        connection.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
        # Asked again under the lock: another daemon may have done it meanwhile.
        if _version(connection) is None:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        for number in range(_version(connection) or 0, len(migrations)):
            migrations[number](connection)
        connection.execute("UPDATE version SET version = ?", (len(migrations),))
        connection.commit()
    except BaseException:
        connection.roll_back()
        raise


def check_version(connection: PostgresConnection, newest: int | None = None) -> int:
    """Return the version of the store, 0 when there is none; refuse a newer lanekit's."""
    newest = len(MIGRATIONS) if newest is None else newest
    version = _version(connection) or 0
    if version > newest:
        raise StoreTooNew(
            f"{connection.address}: the store has version {version}, this lanekit knows up to"
            f" {newest}; update lanekit, or use another --store"
        )
    return version


def _version(connection: PostgresConnection) -> int | None:
    (found,) = connection.execute("SELECT to_regclass(?)", (f"{SCHEMA}.version",)).fetchall()
    if found[0] is None:
        return None
    rows = connection.execute(f"SELECT version FROM {SCHEMA}.version").fetchall()
    return int(rows[0][0]) if rows else None


def _check_encoding(connection: PostgresConnection) -> None:
    ((encoding,),) = connection.execute("SHOW server_encoding").fetchall()
    if encoding != "UTF8":
        raise StoreError(
            f"{connection.address} has the encoding {encoding}, and events are UTF-8; make the"
            " database with: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"
        )
