"""A connection to PostgreSQL that speaks the store's SQL, and lanekit's errors.

It connects when it is first used, and again when it was lost. Nothing that was begun on a lost
connection goes on: whoever was in a transaction is told, and begins anew.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8BinaryDumper

from lanekit.errors import InvalidEvent, StoreBusy, StoreError
from lanekit.slow.store.address import PostgresAddress
from lanekit.slow.store.sql_connection import Rows

T = TypeVar("T")

SCHEMA = "lanekit"
"""Where in its database the store is: other programs' tables are not in its way."""

# A peer that vanished without a word is noticed within half a minute. The URL may say otherwise.
_DEFAULTS: dict[str, str | int] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "lanekit",
}
# The same for the server: a daemon that vanished must not hold its locks.
_SETTINGS = {
    "search_path": SCHEMA,
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
WRITER_SETTINGS = {
    "lock_timeout": "1s",
    "idle_in_transaction_session_timeout": "60s",
    "default_transaction_isolation": "read committed",
}
READER_SETTINGS = {"default_transaction_read_only": "on"}

_TEXT_AS_BYTES = re.compile(r"CAST\((\w+) AS BLOB\)")
_BYTES_AS_TEXT = re.compile(r"CAST\((\?\d*) AS TEXT\)")
_PLACEHOLDER = re.compile(r"\?(\d*)")


@functools.lru_cache(maxsize=512)
def translated(statement: str) -> bytes:
    """The store's SQL as PostgreSQL takes it."""
    statement = _TEXT_AS_BYTES.sub(r"convert_to(\1, 'UTF8')", statement)
    statement = _BYTES_AS_TEXT.sub(r"convert_from(\1, 'UTF8')", statement)
    count = 0

    def number(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"${found[1] or count}"

    return _PLACEHOLDER.sub(number, statement).encode()


class PostgresConnection:
    """One session, renewed when it breaks. For one thread at a time."""

    def __init__(self, address: PostgresAddress, settings: Mapping[str, str]) -> None:
        self.address = address
        self._settings = {**_SETTINGS, **settings}
        self._session: psycopg.Connection[Any] | None = None
        self._in_transaction = False

    def execute(self, statement: str, bindings: tuple[Any, ...] = (), /) -> Rows:
        """Run one statement; outside a transaction once more if the connection was lost."""
        return self._try(lambda session: _run(session, translated(statement), bindings))

    def execute_script(self, statements: str) -> None:
        """Run several statements, without values."""
        self._try(lambda session: session.execute(statements.encode()))

    def execute_many(self, statement: str, bindings: Sequence[tuple[Any, ...]]) -> None:
        """Run one statement for each of these values, within a transaction."""

        def run(session: psycopg.Connection[Any]) -> None:
            with session.cursor() as cursor:
                cursor.executemany(translated(statement), bindings)

        self._try(run)

    def copy(self, table: str, columns: str, data: bytes) -> None:
        """Put rows in binary COPY format, header and trailer included, into a table."""

        def run(session: psycopg.Connection[Any]) -> None:
            with session.cursor() as cursor:
                statement = f"COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)"
                with cursor.copy(statement.encode()) as copy:
                    copy.write(data)

        self._try(run)

    # --- transactions ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction."""
        self._try(lambda session: _run(session, b"BEGIN", ()))
        self._in_transaction = True

    def commit(self) -> None:
        """Keep what was done. After an error nobody knows whether it was kept."""
        self._try(lambda session: _run(session, b"COMMIT", ()))
        self._in_transaction = False

    def roll_back(self) -> None:
        """Undo what was done. Never raises: a session that can not is given up, which does it."""
        self._in_transaction = False
        if self._session is not None:
            try:
                self._session.execute(b"ROLLBACK")
            except psycopg.Error:
                self.close()

    def close(self) -> None:
        """End the session. Harmless when repeated."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(psycopg.Error):
                session.close()

    def __del__(self) -> None:
        self.close()  # of a thread that has ended

    # --- within ----------------------------------------------------------------------------------

    def _try(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        with postgres_errors(self.address):
            was_open = self._session is not None
            try:
                return work(self._session or self._connect())
            except psycopg.Error:
                if self._session is None or not self._session.closed:
                    raise
                # Idle sessions break when the server restarts: that alone is nobody's concern.
                self.close()
                if self._in_transaction or not was_open:
                    raise
                return work(self._connect())

    def _connect(self) -> psycopg.Connection[Any]:
        given = conninfo_to_dict(self.address.url)
        parameters: dict[str, Any] = {**_DEFAULTS, **given, "client_encoding": "UTF8"}
        session = psycopg.connect(
            make_conninfo(**parameters),
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
        )
        try:
            # One type for all numbers: one plan for all their sizes.
            session.adapters.register_dumper(int, Int8BinaryDumper)
            names = ", ".join(
                f"set_config(${2 * i + 1}, ${2 * i + 2}, false)" for i in range(len(self._settings))
            )
            values = [text for setting in self._settings.items() for text in setting]
            session.execute(f"SELECT {names}".encode(), values)
        except BaseException:
            session.close()
            raise
        self._session = session
        return session


def _run(
    session: psycopg.Connection[Any], statement: bytes, bindings: tuple[Any, ...]
) -> psycopg.Cursor[Any]:
    return session.cursor(binary=True).execute(statement, bindings)


@contextlib.contextmanager
def postgres_errors(address: PostgresAddress) -> Iterator[None]:
    """Turn PostgreSQL's errors into lanekit's, with what to do about them and no password."""

    def told(error: Exception) -> str:
        return address.hide(" ".join(str(error).split()))

    try:
        yield
    except (pg.LockNotAvailable, pg.DeadlockDetected, pg.SerializationFailure) as error:
        raise StoreBusy(
            f"locked: somebody else holds tables or rows of {address} ({told(error)}); end that"
            " transaction, or wait until it is done"
        ) from None
    except pg.DiskFull as error:
        raise StoreError(
            f"disk full: {address} can not grow ({told(error)}); free some space on its disk"
        ) from None
    except pg.InsufficientPrivilege as error:
        raise StoreError(
            f"not allowed at {address} ({told(error)}); let the user of the URL own the schema"
            f" {SCHEMA!r}, or let it make one: GRANT CREATE ON DATABASE ... TO ..."
        ) from None
    except pg.DataError as error:
        raise InvalidEvent(f"{address} does not take this ({told(error)})") from None
    except psycopg.OperationalError as error:
        raise StoreError(
            f"{address} does not answer ({told(error)}); check that the server runs, and that this"
            " machine and user may connect to it"
        ) from None
    except psycopg.Error as error:
        raise StoreError(
            f"{address} refuses ({told(error)}); check the URL, and the server's log"
        ) from None
