"""A large store, and how long it takes to answer what people ask of it."""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import apsw
import numpy as np

from bench import slow_events
from bench.slow_processes import BUILD, scratch
from lanekit.slow.batches import Batch, Kind
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.sqlite_store import TelemetrySQLiteStore

AGENTS = 8
RUNS = 2
_ROWS = 1024
_STREAM = "bench"
_ASKED = 1000
_REPEATS = 20
_WORTH_KEEPING = 1_000_000
_CONTENT = b"1"
"""Changed with the code below that fills a store, so that none of a former run is taken for it."""


def _run_id(number: int) -> str:
    return f"run-{number}"


class _Turns:
    """Steps of a worker whose agents take turns: the columns of any part of them."""

    def __init__(self) -> None:
        steps = list(slow_events.steps(_ROWS))
        self._actions = [b"%d" % step.action for step in steps]
        self._observations = [json.dumps(step.observation).encode() for step in steps]
        self._rewards = [step.reward for step in steps]

    def columns(self, first: int, rows: int) -> pb.StepColumns:
        """Return the steps `first` to `first + rows - 1`."""
        turns = np.arange(first, first + rows)
        index, agent = np.divmod(turns, AGENTS)
        episode, step = np.divmod(index, slow_events.EPISODE_LENGTH)
        return pb.StepColumns(
            rows=rows,
            names=["worker", *(f"agent-{i}" for i in range(AGENTS))],
            worker_index=[0] * rows,
            agent_index=(agent + 1).tolist(),
            episode=episode.tolist(),
            step=step.tolist(),
            action_json=self._actions[:rows],
            observation_json=self._observations[:rows],
            reward=self._rewards[:rows],
            wall_time_ns=turns.tolist(),
        )

    def episodes(self, first: int, rows: int) -> list[pb.Episode]:
        """Return the episodes that ended in these steps."""
        turns = np.arange(first, first + rows)
        index, agent = np.divmod(turns, AGENTS)
        episode, step = np.divmod(index, slow_events.EPISODE_LENGTH)
        return [
            pb.Episode(
                worker_id="worker",
                agent_id=f"agent-{agent[i]}",
                episode=episode[i],
                episode_return=float(episode[i] % 500),
                length=slow_events.EPISODE_LENGTH,
                terminated=True,
                wall_time_ns=turns[i],
            )
            for i in np.flatnonzero(step == slow_events.EPISODE_LENGTH - 1)
        ]


def _batches(run_id: str, steps: int) -> Iterator[list[Batch]]:
    turns = _Turns()
    ended = 0
    for first in range(0, steps, _ROWS):
        rows = min(_ROWS, steps - first)
        columns = turns.columns(first, rows)
        found = [Batch(run_id, _STREAM, Kind.STEPS, first + 1, rows, 0, columns)]
        if episodes := turns.episodes(first, rows):
            found.append(
                Batch(run_id, _STREAM, Kind.EPISODES, ended + 1, len(episodes), 0, episodes)
            )
            ended += len(episodes)
        yield found


def build(path: Path, steps: int) -> None:
    """Make a store of that many steps: two runs, eight agents each, by the store's own append."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    with TelemetrySQLiteStore.open(unfinished) as store:
        for number in range(RUNS):
            run_id = _run_id(number)
            store.register_stream(run_id, _STREAM, "worker")
            for batches in _batches(run_id, steps // RUNS):
                store.append(batches)
    os.replace(unfinished, path)


@contextmanager
def _store(steps: int) -> Iterator[Path]:
    """Lend a store of that many steps; a large one is kept for the next time."""
    if steps < _WORTH_KEEPING:
        with scratch() as directory:
            build(directory / "steps.db", steps)
            yield directory / "steps.db"
        return
    source = importlib.resources.files("lanekit.slow")
    made_by = [source.joinpath(name).read_bytes() for name in ("schema.sql", "store_file.py")]
    layout = hashlib.sha256(b"".join([*made_by, _CONTENT])).hexdigest()[:12]
    path = BUILD / f"bench-store-{steps}-{layout}.db"
    if not path.exists():
        for outdated in BUILD.glob("bench-store-*"):
            outdated.unlink()
        started = time.monotonic()
        build(path, steps)
        print(f"made {path}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    yield path


# --- asking ---------------------------------------------------------------------------------------


@contextmanager
def _noting(statements: list[tuple[str, Any]]) -> Iterator[None]:
    """Note what connections opened inside the block are asked to execute."""

    def note(_: apsw.Cursor, statement: str, bindings: Any) -> bool:
        statements.append((statement, bindings))
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = note

    apsw.connection_hooks.append(watch)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(watch)


def _plan(path: Path, statements: list[tuple[str, Any]]) -> list[str]:
    """Return SQLite's own words on how it finds the events, each step once."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    words: dict[str, None] = {}
    for statement, bindings in statements:
        about_events = (" steps ", " episodes ", " steps\n", " episodes\n")
        if any(table in f"{statement} " for table in about_events):
            for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bindings):
                words[detail] = None
    connection.close()
    return list(words)


def _answer(path: Path, what: str, question: Callable[[RunStore], int]) -> dict[str, Any]:
    """Ask once with a new connection and nothing of the file in memory, then again and again."""
    _forget(path)
    statements: list[tuple[str, Any]] = []
    with _noting(statements):
        started = time.perf_counter()
        with RunStore.open(path) as store:
            rows = question(store)
        first = time.perf_counter() - started
    again = []
    with RunStore.open(path) as store:
        for _ in range(_REPEATS):
            started = time.perf_counter()
            question(store)
            again.append(time.perf_counter() - started)
    return {
        "question": what,
        "rows": rows,
        "first_ms": first * 1e3,
        "again_ms": median(again) * 1e3,
        "plan": _plan(path, statements),
    }


def _forget(path: Path) -> None:
    """Have the kernel drop its cached pages of a file."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def _last_steps(store: RunStore) -> int:
    steps = store.steps(_run_id(0), agent="agent-3", last=_ASKED)
    return len(steps.reward)


def _returns(store: RunStore) -> int:
    return len(store.episodes(_run_id(0)).episode_return)


def ask(steps: int) -> dict[str, Any]:
    """Ask a store of that many steps the usual questions."""
    with _store(steps) as path:
        return {
            "steps": steps,
            "agents": AGENTS * RUNS,
            "bytes": path.stat().st_size,
            "questions": [
                _answer(path, f"last {_ASKED:,} steps of this agent", _last_steps),
                _answer(path, "episode returns of this run", _returns),
            ],
        }
