"""A store, found and checked, as its readers open it: connection by connection."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

from lanekit.errors import StoreError
from lanekit.slow.endpoint import default_store
from lanekit.slow.store.address import PostgresAddress, StoreAddress, parse_store
from lanekit.slow.store.missing_driver import missing_driver
from lanekit.slow.store.sql_connection import SqlConnection
from lanekit.slow.store.store_file import MIGRATIONS, check_file, open_for_reading, store_errors


class Readable(Protocol):
    """Where readers get their connections from. From any thread."""

    @property
    def path(self) -> str:
        """How messages call the store. Never holds a password."""

    @property
    def address(self) -> Path | PostgresAddress:
        """Where the store is."""

    def connect(self) -> SqlConnection:
        """Make a connection that can only read."""

    def settled_revision(self, connection: SqlConnection) -> int:
        """The newest revision of a run such that no lower one can appear any more."""


class ReadableFile:
    """A SQLite file."""

    def __init__(self, address: Path) -> None:
        self.address = address
        self.path = os.fspath(address)

    def connect(self) -> SqlConnection:
        """Open the file."""
        return open_for_reading(self.path)

    def settled_revision(self, connection: SqlConnection) -> int:
        """All of them: a file has one writer, so that its commits come one after the other."""
        return 2**63 - 1

    def check(self) -> None:
        """Refuse a file that is not there, not a store, or of another version."""
        if not self.address.is_file():
            raise StoreError(
                f"there is no store at {self.path}, so nothing was recorded there yet: "
                "`lanekit demo` records a run; --store names another"
            )
        with store_errors(self.path), contextlib.closing(open_for_reading(self.path)) as connection:
            version = check_file(connection, self.path)
        if version < len(MIGRATIONS):
            raise too_old(self.path, version, len(MIGRATIONS))


def too_old(path: str, version: int, wanted: int) -> StoreError:
    """Say that a store must be brought up to date first."""
    return StoreError(
        f"{path}: the store has version {version}, this lanekit reads {wanted}; start"
        " `lanekit daemon` on it once to bring it up to date"
    )


def open_readable(address: StoreAddress | None = None) -> Readable:
    """Find a store, or the daemon's usual one, and check that it can be read."""
    place = default_store() if address is None else parse_store(address)
    if isinstance(place, PostgresAddress):
        try:
            from lanekit.slow.store.postgres.readable import ReadableDatabase
        except ImportError as error:
            raise missing_driver(error) from None
        database = ReadableDatabase(place)
        database.check()
        return database
    file = ReadableFile(place)
    file.check()
    return file
