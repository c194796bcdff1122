"""What the store's readers and writers ask of a database: to run one SQL statement.

Statements are written once, for SQLite and PostgreSQL alike: ``?`` and ``?1`` stand for values,
``CAST(column AS BLOB)`` for the bytes of a text, ``CAST(? AS TEXT)`` for the text that bytes are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

NO_LIMIT = 2**63 - 1
"""For ``LIMIT ?``: no table has so many rows."""


class Rows(Protocol):
    """What a statement gives, row by row."""

    def __iter__(self) -> Iterator[Any]: ...

    def fetchone(self) -> Any | None:
        """The next row; None: there is none."""

    def fetchall(self) -> list[Any]:
        """All rows that are left."""


class SqlConnection(Protocol):
    """A connection to a store's database. For one thread at a time."""

    def execute(self, statement: str, bindings: tuple[Any, ...] = (), /) -> Rows:
        """Run one statement with these values."""

    def close(self) -> None:
        """Let go of the database. Harmless when repeated."""
