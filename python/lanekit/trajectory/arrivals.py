"""The book of what has arrived from producers elsewhere; it outlives the process that keeps it.

Before a record is put, the book says which one, and how far the lane's ring had come. A record that
is named there while its keeper dies was put if the ring has come further since, and else was not:
the ring's position and the record become visible in one store. So the book needs no write after a
put; the next record's entry counts the one before it.

The lane is in memory and ends with the machine, so the book need not survive a power cut either: it
is an SQLite file that is never synchronised.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanekit import errors

LOCK_SECONDS = 10.0
"""How long whoever had the book before may take to be gone."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS lane (key TEXT NOT NULL, ring INTEGER);
CREATE TABLE IF NOT EXISTS producer (
    name TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,   -- how often somebody has attached under this name
    arrived INTEGER NOT NULL  -- the number of its last record in the lane
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS about_to_put (
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    position INTEGER NOT NULL -- of the ring, before
);
"""


@dataclass
class Producer:
    """Somebody elsewhere whose records land here."""

    name: str
    epoch: int
    arrived: int


@dataclass(frozen=True)
class Intent:
    """A record that was about to be put."""

    name: str
    number: int
    position: int


class Arrivals:
    """One lane's book. Only one process has it open at a time."""

    def __init__(self, path: Path, lane_key: str) -> None:
        """Open the book of the lane with this key; what is noted of another lane is dropped."""
        self.path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._db = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=LOCK_SECONDS
        )
        try:
            self._prepare(lane_key)
        except sqlite3.OperationalError as error:
            self._db.close()
            raise errors.PlaceTaken(
                f"the book of arrivals {path} can not be opened ({error}): another process lands "
                "records in this lane; end that one first"
            ) from None
        self.producers = {
            name: Producer(name, epoch, arrived)
            for name, epoch, arrived in self._rows("SELECT name, epoch, arrived FROM producer")
        }

    def _prepare(self, lane_key: str) -> None:
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode = WAL").fetchall()
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.executescript(_SCHEMA)
        with self._transaction():
            known = self._rows("SELECT key FROM lane")
            if known != [(lane_key,)]:
                for table in ("lane", "producer", "about_to_put"):
                    self._db.execute(f"DELETE FROM {table}")
                self._db.execute("INSERT INTO lane VALUES (?, NULL)", (lane_key,))

    @property
    def ring(self) -> int | None:
        """The ring in which records land, if one was taken."""
        [(ring,)] = self._rows("SELECT ring FROM lane")
        return None if ring is None else int(ring)

    @ring.setter
    def ring(self, ring: int | None) -> None:
        self._db.execute("UPDATE lane SET ring = ?", (ring,))

    @property
    def intent(self) -> Intent | None:
        """The record that was about to be put when the book was last written."""
        found = self._rows("SELECT name, number, position FROM about_to_put")
        return Intent(*found[0]) if found else None

    def welcome(self, name: str) -> Producer:
        """Note that somebody attached as `name`; earlier ones of that name are told apart."""
        known = self.producers.get(name)
        now = Producer(name, known.epoch + 1 if known else 1, known.arrived if known else 0)
        with self._transaction():
            self._db.execute(
                "INSERT INTO producer VALUES (:name, :epoch, :arrived) ON CONFLICT (name) DO"
                " UPDATE SET epoch = :epoch",
                vars(now),
            )
        self.producers[name] = now
        return now

    def announce(self, name: str, number: int, position: int) -> None:
        """Say which record is put next. The one announced before has been put."""
        with self._transaction():
            self._count_announced()
            self._db.execute("INSERT INTO about_to_put VALUES (?, ?, ?)", (name, number, position))

    def settle(self, *, put: bool) -> None:
        """Say whether the announced record has been put."""
        with self._transaction():
            if put:
                self._count_announced()
            self._db.execute("DELETE FROM about_to_put")
        for name, arrived in self._rows("SELECT name, arrived FROM producer"):
            self.producers[name].arrived = arrived

    def close(self) -> None:
        """Close the book."""
        self._db.close()

    def _count_announced(self) -> None:
        self._db.execute(
            "UPDATE producer SET arrived = about_to_put.number FROM about_to_put"
            " WHERE producer.name = about_to_put.name"
        )
        self._db.execute("DELETE FROM about_to_put")

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(self._db.execute(query)) as found:
            return found.fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
