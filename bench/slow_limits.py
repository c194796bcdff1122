"""The slow lane's limit: the same rows into the same table, by a bare loop without any pipeline."""

from __future__ import annotations

import importlib.resources
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import apsw

from bench.slow_events import Row

Durability = Literal["normal", "full"]
BATCH = 256
_FILLED = "id, episode, step, reward, terminated, truncated, wall_time_ns, action, observation"


def _schema() -> str:
    return importlib.resources.files("lanekit.slow.store").joinpath("schema.sql").read_text("utf-8")


def _insert(row: Row) -> str:
    columns = f" ({_FILLED})" if len(row) == 9 else ""
    return f"INSERT INTO steps{columns} VALUES ({', '.join('?' * len(row))})"


def sqlite3_executemany(rows: Sequence[Row], path: Path, durability: Durability) -> float:
    """Seconds that Python's own sqlite3 takes, write-ahead log, a transaction per 256 rows."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(_schema())
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute(f"PRAGMA synchronous = {durability}")
    insert = _insert(rows[0])
    started = time.perf_counter()
    for start in range(0, len(rows), BATCH):
        connection.execute("BEGIN")
        connection.executemany(insert, rows[start : start + BATCH])
        connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    return seconds


def apsw_executemany(
    rows: Sequence[Row], path: Path, durability: Durability, batch: int = BATCH
) -> float:
    """Return the seconds that APSW takes for the same."""
    connection = apsw.Connection(str(path))
    connection.execute(_schema())
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", durability)
    insert = _insert(rows[0])
    started = time.perf_counter()
    for start in range(0, len(rows), batch):
        connection.execute("BEGIN")
        connection.executemany(insert, rows[start : start + batch])
        connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    return seconds
