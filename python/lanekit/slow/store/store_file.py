"""The store as a file: opening it, bringing its schema up to date, and what its errors mean."""

from __future__ import annotations

import contextlib
import importlib.resources
import os
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote

import apsw

from lanekit.errors import StoreBusy, StoreError, StoreTooNew
from lanekit.slow.store.database import Durability

Migration = Callable[[apsw.Connection], None]

APPLICATION_ID = 0x4C4B5453
"""``LKTS``: how a store is told from other programs' SQLite files."""
BUSY_TIMEOUT_MS = 1000
"""How long one attempt waits for another process's lock. The sink tries again after that."""


def _create(connection: apsw.Connection) -> None:
    schema = importlib.resources.files("lanekit.slow.store").joinpath("schema.sql")
    connection.execute(schema.read_text(encoding="utf-8"))
    connection.pragma("application_id", APPLICATION_ID)


def _note_order_of_episodes(connection: apsw.Connection) -> None:
    # Of the tracks there are it is not known, and finding out would mean to read every step.
    connection.execute("ALTER TABLE tracks ADD COLUMN episodes_in_order INTEGER NOT NULL DEFAULT 0")


def _note_journals(connection: apsw.Connection) -> None:
    for column in ("journal_id", "continues", "notice"):
        connection.execute(f"ALTER TABLE streams ADD COLUMN {column} TEXT NOT NULL DEFAULT ''")


MIGRATIONS: list[Migration] = [_create, _note_order_of_episodes, _note_journals]
"""Step i takes a file from version i to i + 1; the first makes a new one. Only ever appended to."""


def open_for_writing(
    path: str | os.PathLike[str],
    durability: Durability,
    migrations: Sequence[Migration] | None = None,
) -> apsw.Connection:
    """Open or create the store at `path`, its schema up to date, in write-ahead mode."""
    if durability not in ("normal", "full"):
        raise ValueError(f"durability is 'normal' or 'full', not {durability!r}")
    with store_errors(path):
        _make_private(path)
        _make_log_writable(path)
        connection = apsw.Connection(os.fspath(path))
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            # Checkpoints are the writer's own business, at the interval of its choice.
            connection.pragma("wal_autocheckpoint", 0)
            _migrate(connection, path, MIGRATIONS if migrations is None else migrations)
            mode = connection.pragma("journal_mode", "wal")
            if mode != "wal":
                raise StoreError(
                    f"{os.fspath(path)}: needs SQLite's write-ahead log, but this place only allows"
                    f" {mode!r}; put the store on a local disk"
                )
            connection.pragma("synchronous", durability)
            connection.pragma("cache_size", -32768)
        except BaseException:
            connection.close()
            raise
    return connection


def _make_private(path: str | os.PathLike[str]) -> None:
    """Make the file, if there is none, for its owner only; SQLite's other files then follow it."""
    # What SQLite can not open it names better than we could.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def _make_log_writable(path: str | os.PathLike[str]) -> None:
    """Give the log the permissions of its file, where this user may.

    Whoever reads a file that nobody may write makes a log that nobody may write, and that log would
    stay when the file itself can be written again.
    """
    for suffix in ("-wal", "-shm"):
        log = f"{os.fspath(path)}{suffix}"
        with contextlib.suppress(OSError):
            mode = os.stat(path).st_mode
            if mode & 0o200 and not os.stat(log).st_mode & 0o200:
                os.chmod(log, mode & 0o777)


def _migrate(
    connection: apsw.Connection, path: str | os.PathLike[str], migrations: Sequence[Migration]
) -> None:
    version = check_file(connection, path, len(migrations))
    if version == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have done it meanwhile.
        for number in range(connection.pragma("user_version"), len(migrations)):
            migrations[number](connection)
        connection.pragma("user_version", len(migrations))
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: apsw.Connection) -> None:
    """End a failed transaction, which SQLite may have rolled back by itself."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def check_file(
    connection: apsw.Connection, path: str | os.PathLike[str], newest: int | None = None
) -> int:
    """Return the version of the store; refuse another program's file, or a newer lanekit's."""
    newest = len(MIGRATIONS) if newest is None else newest
    version = int(connection.pragma("user_version"))
    if connection.pragma("application_id") != APPLICATION_ID and (
        version or connection.execute("SELECT count(*) FROM sqlite_schema").get
    ):
        raise StoreError(
            f"{os.fspath(path)} is a database of another program, not lanekit's; use another"
            " --store"
        )
    if version > newest:
        raise StoreTooNew(
            f"{os.fspath(path)}: the store has version {version}, this lanekit knows up to"
            f" {newest}; update lanekit, or use another --store"
        )
    return version


@contextlib.contextmanager
def store_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn SQLite's errors into lanekit's, with what to do about them."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError, apsw.ProtocolError) as error:
        raise StoreBusy(
            f"locked: {os.fspath(path)} is held by another process ({error}); end that process, or"
            " wait until it is done"
        ) from error
    except apsw.FullError as error:
        raise StoreError(
            f"disk full: {os.fspath(path)} can not grow ({error}); free some space on its disk"
        ) from error
    except (apsw.NotADBError, apsw.CorruptError, apsw.SQLError) as error:
        raise StoreError(
            f"damaged: {os.fspath(path)} is not a sound store ({error}); move it away and start"
            " with a new one, then save what can be read with"
            f" `sqlite3 {os.fspath(path)} .recover`"
        ) from error
    except (apsw.CantOpenError, apsw.PermissionsError, apsw.ReadOnlyError) as error:
        raise StoreError(
            f"can not open or write {os.fspath(path)} ({error}); check that its directory exists"
            " and that this user may write there"
        ) from error
    except apsw.IOError as error:
        raise StoreError(
            f"input/output error: {os.fspath(path)} ({error}); check its disk and its free space"
        ) from error


def open_for_reading(path: str) -> apsw.Connection:
    """Open the store at `path`, never to write."""
    uri = f"file:{quote(os.path.abspath(path))}"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"{uri}?mode=ro", flags=flags)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    try:
        connection.pragma("user_version")
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        connection.close()
        if os.path.exists(f"{path}-wal"):
            raise
        # A finished store on a disk that may not be written, where no shared index can be made.
        connection = apsw.Connection(f"{uri}?mode=ro&immutable=1", flags=flags)
    except BaseException:
        connection.close()
        raise
    return connection
