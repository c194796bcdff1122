"""DuckDB, a column store in process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.peers.trackers import Recorder
from bench.slow_events import Step

PACKAGE = "duckdb"
CALLS = "INSERT … SELECT from an Arrow table of 256 steps, each its own transaction"
_TABLE = """CREATE TABLE steps (episode BIGINT, number BIGINT, action BIGINT,
    observation DOUBLE[], reward DOUBLE, terminated BOOLEAN, time_ns BIGINT)"""


def begin(directory: Path) -> Recorder:
    import duckdb
    import pyarrow

    connection = duckdb.connect(str(directory / "steps.duckdb"))
    connection.execute(_TABLE)

    def record(steps: Sequence[Step]) -> None:
        for start in range(0, len(steps), 256):
            columns = zip(*steps[start : start + 256], strict=True)
            batch = pyarrow.table(dict(zip(Step._fields, columns, strict=True)))
            connection.register("batch", batch)
            connection.execute("INSERT INTO steps SELECT * FROM batch")
        connection.close()

    return record
