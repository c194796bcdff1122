"""What the store on PostgreSQL costs beside plain COPY of the same rows: one server, one run.

``python -m bench.postgres_store [--events N] [--rounds R] [--store URL]``. Without a URL it starts
a server of its own, its data in the temporary directory, commits flushed to the disk. Each round
stores the same steps three ways into tables of the same schema, in transactions of the same size:

- COPY: the bytes of PostgreSQL's binary format, encoded beforehand; the server's own limit;
- COPY row by row: Python tuples through psycopg's `write_row`, as a program without lanekit would;
- the store: protocol batches of 1,024 rows through `append`, which also decides what is new,
  numbers, and moves the acknowledged position.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from bench import machine, slow_events
from lanekit.slow.batches import Batch, Kind
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.postgres import copy_rows
from lanekit.slow.store.postgres.postgres_store import TelemetryPostgresStore

BATCH_ROWS = 1024
TRANSACTION_ROWS = 8 * BATCH_ROWS
_TYPES = [
    *("int8", "int8", "int8", "bool", "bool", "int8", "float8", "text", "text", "text", "text"),
    *("int8", "text", "bytea"),
]
_COPY = f"COPY lanekit.steps ({copy_rows.STEP_COLUMNS}) FROM STDIN (FORMAT BINARY)".encode()


class _Track:
    """The one track of the rows that are encoded beforehand."""

    def find(self, worker_id: str, agent_id: str) -> int:
        return 1

    def note_episodes(self, track: int, episodes: object) -> None:
        pass


def made_batches(events: int) -> list[Batch]:
    """The steps as the daemon gets them."""
    steps = list(slow_events.steps(events))
    made = []
    for first in range(0, events, BATCH_ROWS):
        part = steps[first : first + BATCH_ROWS]
        columns = pb.StepColumns(
            rows=len(part),
            names=["", "agent-0"],
            worker_index=[0] * len(part),
            agent_index=[1] * len(part),
            episode=[step.episode for step in part],
            step=[step.number for step in part],
            action_json=[b"%d" % step.action for step in part],
            observation_json=[
                json.dumps(step.observation, separators=(",", ":")).encode() for step in part
            ],
            reward=[step.reward for step in part],
            terminated=[step.terminated for step in part],
            truncated=[False] * len(part),
            wall_time_ns=[step.time_ns for step in part],
        )
        made.append(Batch("bench", "s", Kind.STEPS, first + 1, len(part), 0, columns))
    return made


def transactions(batches: list[Batch]) -> list[list[Batch]]:
    """The batches, by the transactions that they are stored in."""
    each = TRANSACTION_ROWS // BATCH_ROWS
    return [batches[first : first + each] for first in range(0, len(batches), each)]


def copy_encoded(url: str, batches: list[Batch]) -> float:
    """Seconds that COPY takes for bytes that are ready."""
    pieces = [
        [
            copy_rows.HEADER,
            *(copy_rows.step_rows(batch, 0, _Track())[0] for batch in group),
            copy_rows.TRAILER,
        ]
        for group in transactions(batches)
    ]
    ready = [b"".join(several) for several in pieces]
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        started = time.perf_counter()
        for data in ready:
            with cursor.copy(_COPY) as copy:
                copy.write(data)
            connection.commit()
        return time.perf_counter() - started


def copy_row_by_row(url: str, batches: list[Batch]) -> float:
    """Seconds that COPY takes for Python's own values."""
    rows = []
    for row in slow_events.rows(sum(batch.rows for batch in batches)):
        number, episode, step, reward, terminated, truncated, time_ns, action, observation = row
        head = (number, episode, step, bool(terminated), bool(truncated), time_ns, reward)
        rows.append((*head, action, observation, *[None] * 5))
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        started = time.perf_counter()
        for first in range(0, len(rows), TRANSACTION_ROWS):
            with cursor.copy(_COPY) as copy:
                copy.set_types(_TYPES)
                for values in rows[first : first + TRANSACTION_ROWS]:
                    copy.write_row(values)
            connection.commit()
        return time.perf_counter() - started


def append(url: str, batches: list[Batch]) -> float:
    """Seconds that the store takes."""
    with TelemetryPostgresStore.open(url) as store:
        store.register_stream("bench", "s")
        groups = transactions(batches)
        started = time.perf_counter()
        for group in groups:
            store.append(group)
        return time.perf_counter() - started


WAYS: dict[str, Callable[[str, list[Batch]], float]] = {
    "COPY": copy_encoded,
    "COPY row by row": copy_row_by_row,
    "the store": append,
}


def measure(url: str, events: int, rounds: int) -> dict[str, list[float]]:
    """Events a second of each way, round by round; every other round backwards."""
    batches = made_batches(events)
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    for number in range(rounds):
        for name in list(WAYS) if number % 2 == 0 else reversed(WAYS):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("DROP SCHEMA IF EXISTS lanekit CASCADE")
            TelemetryPostgresStore.open(url).close()
            rates[name].append(events / WAYS[name](url, batches))
            with psycopg.connect(url) as connection:
                ((stored,),) = connection.execute("SELECT count(*) FROM lanekit.steps").fetchall()
            if stored != events:
                raise RuntimeError(f"{name}: {stored} of {events} events are stored")
    return rates


def ratios(rates: dict[str, list[float]]) -> dict[str, float]:
    """The store beside each limit: the median of the ratios within a round."""
    own = rates["the store"]
    return {
        name: median(mine / limit for mine, limit in zip(own, rates[name], strict=True))
        for name in WAYS
        if name != "the store"
    }


def report(rates: dict[str, list[float]]) -> str:
    """The figures as a table."""
    beside = ratios(rates)
    lines = ["| way | events/s | the store beside it |", "| --- | ---: | ---: |"]
    for name, found in rates.items():
        lines.append(f"| {name} | {median(found):,.0f} | {beside.get(name, 1.0):.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.postgres_store")
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--store", metavar="URL", help="an empty database; by default a new server")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"))
    arguments = parser.parse_args()
    neighbours = machine.Neighbours()
    with contextlib.ExitStack() as held:
        url = arguments.store
        if url is None:
            from tests.slow.postgres_server import running_server

            server = held.enter_context(running_server(fsync="on", shared_buffers="128MB"))
            url = server.url()
        rates = measure(url, arguments.events, arguments.rounds)
    noise = neighbours.share()
    record: dict[str, Any] = {
        "machine": machine.describe(),
        "events": arguments.events,
        "transaction_rows": TRANSACTION_ROWS,
        "noise": round(noise, 3),
        "rates": rates,
        "ratios": ratios(rates),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "postgres.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(report(rates))
    print(f"others used {noise:.0%} of the machine meanwhile; written to {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
