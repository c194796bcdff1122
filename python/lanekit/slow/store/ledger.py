"""What the writer remembers of its database, and the transactions that keep the two alike.

How far each stream is committed and how many rows each run has is asked for with every batch. It is
read from the database once, and again whenever a transaction failed or somebody else wrote.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from lanekit.errors import RunNotFound
from lanekit.slow.batches import Kind
from lanekit.slow.store.database import Database
from lanekit.slow.store.life_cycle import StateChange
from lanekit.slow.store.sql_connection import SqlConnection
from lanekit.slow.store.store_file import store_errors


@dataclass(frozen=True, slots=True)
class RunChange:
    """A run that is not as it was; `state` and `old_state` differ when that is what changed."""

    run_id: str
    old_state: str | None
    """None: the run is new."""
    state: str


@dataclass(slots=True)
class Tail:
    """The last row of `batches` of one run and kind."""

    position: int
    stream: int
    first_seq: int
    rows: int


@dataclass(slots=True)
class RunEntry:
    """A run as the writer knows it."""

    run: int
    state: str
    rows: dict[Kind, int]
    revision: int
    tails: dict[Kind, Tail | None] = field(default_factory=dict)


@dataclass(slots=True)
class StreamEntry:
    """A stream as the writer knows it: how far each kind is committed, and its tracks."""

    stream: int
    stream_id: str
    run_id: str
    run: RunEntry
    state: str
    committed: dict[Kind, int]
    tracks: dict[tuple[str, str], int] = field(default_factory=dict)
    newest_episodes: dict[int, int | None] = field(default_factory=dict)
    """The episode of each track's last step; None: its steps are not in their order."""


class Ledger:
    """The runs, streams and tracks of a store, for its one writer: use it within `transaction`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.changes: list[RunChange] = []
        self.notices: list[str] = []
        """What whoever looks after the store should know."""
        self._runs: dict[str, RunEntry] = {}
        self._streams: dict[tuple[str, str], StreamEntry] = {}

    @property
    def connection(self) -> SqlConnection:
        """For what is neither remembered nor only written."""
        return self.database.connection

    @contextlib.contextmanager
    def transaction(self, *run_ids: str) -> Iterator[None]:
        """All or nothing about these runs, in the database and in what is remembered of it."""
        noted, said = len(self.changes), len(self.notices)
        with store_errors(self.database.path):
            try:
                known = {run_id: self._runs[run_id] for run_id in run_ids if run_id in self._runs}
                remembered = {run_id: run.revision for run_id, run in known.items()}
                changed = self.database.begin(run_ids, remembered)
                if changed is None:
                    self._forget_all()
                else:
                    for run_id in changed:
                        self._forget(run_id)
                yield
                self.database.commit()
            except BaseException:
                self._forget_all()
                del self.changes[noted:]
                del self.notices[said:]
                self.database.roll_back()
                raise

    def _forget_all(self) -> None:
        self._runs.clear()
        self._streams.clear()

    def _forget(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        for key in [key for key in self._streams if key[0] == run_id]:
            del self._streams[key]

    def find_run(self, run_id: str) -> RunEntry | None:
        """A run; None when there is none."""
        if (known := self._runs.get(run_id)) is not None:
            return known
        row = self.connection.execute(
            "SELECT run, state, revision, steps, episodes, events FROM runs WHERE run_id = ?"
            + self.database.locking,
            (run_id,),
        ).fetchone()
        if row is None:
            return None
        number, state, revision, *counts = row
        run = RunEntry(number, state, dict(zip(Kind, counts, strict=True)), revision)
        for kind in Kind:
            tail = self.connection.execute(
                "SELECT position, stream, first_seq, rows FROM batches WHERE kind = ? AND run = ?"
                " ORDER BY position DESC LIMIT 1",
                (kind.value, number),
            ).fetchone()
            run.tails[kind] = Tail(*tail) if tail else None
        self._runs[run_id] = run
        return run

    def known_run(self, run_id: str) -> RunEntry:
        """A run, or `RunNotFound`."""
        run = self.find_run(run_id)
        if run is None:
            raise RunNotFound(f"run {run_id} is not known")
        return run

    def find_stream(self, run_id: str, stream_id: str) -> StreamEntry | None:
        """A stream; None when it was never registered."""
        key = (run_id, stream_id)
        if (known := self._streams.get(key)) is not None:
            return known
        run = self.find_run(run_id)
        if run is None:
            return None
        row = self.connection.execute(
            "SELECT stream, state, committed_steps, committed_episodes, committed_events"
            " FROM streams WHERE run = ? AND stream_id = ?",
            (run.run, stream_id),
        ).fetchone()
        if row is None:
            return None
        committed = dict(zip(Kind, row[2:], strict=True))
        stream = StreamEntry(row[0], stream_id, run_id, run, row[1], committed)
        self._streams[key] = stream
        return stream

    def insert_run(
        self, run_id: str, command: Sequence[str], config_json: bytes, created_ns: int | None
    ) -> RunEntry | None:
        """Make a run; None: another daemon was quicker by a moment."""
        made = self.connection.execute(
            "INSERT INTO runs (run_id, state, created_ns, command_json, config_json, revision)"
            " VALUES (?, 'submitted', ?, ?, CAST(? AS TEXT), ?)"
            " ON CONFLICT (run_id) DO NOTHING RETURNING run",
            (
                run_id,
                created_ns or time.time_ns(),
                msgspec.json.encode(list(command)).decode(),
                config_json or None,
                self.database.next_revision(),
            ),
        ).fetchall()
        if not made:
            return None
        self.changes.append(RunChange(run_id, None, "submitted"))
        return self.known_run(run_id)

    def apply(self, run_id: str, run: RunEntry, change: StateChange) -> None:
        """Change a run's state."""
        columns = {
            name: getattr(change, name)
            for name in ("state", "started_ns", "ended_ns", "exit_status", "reason")
        }
        given = {name: value for name, value in columns.items() if value is not None}
        if given:
            self.connection.execute(
                f"UPDATE runs SET {', '.join(f'{name} = ?' for name in given)} WHERE run = ?",
                (*given.values(), run.run),
            )
        old_state = run.state
        run.state = change.state or run.state
        self.note_change(run_id, run, old_state)

    def note_change(self, run_id: str, run: RunEntry, old_state: str | None = None) -> None:
        """Number a change, and keep it for those who watch."""
        run.revision = self.database.next_revision()
        self.database.write("UPDATE runs SET revision = ? WHERE run = ?", (run.revision, run.run))
        self.changes.append(RunChange(run_id, old_state or run.state, run.state))

    def append_order(
        self, run: RunEntry, kind: Kind, stream: int, first_seq: int, rows: int
    ) -> None:
        """Note where in the run new rows of a stream are."""
        tail = run.tails.get(kind)
        # A stream has no gaps: when the last rows were its own, these go on where they ended.
        if tail and tail.stream == stream:
            tail.rows += rows
            self.database.write(
                "UPDATE batches SET rows = ? WHERE kind = ? AND run = ? AND position = ?",
                (tail.rows, kind.value, run.run, tail.position),
            )
            return
        run.tails[kind] = tail = Tail(run.rows[kind], stream, first_seq, rows)
        self.database.write(
            "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)",
            (kind.value, run.run, tail.position, stream, first_seq, rows),
        )
