"""The store of events, whatever database is under it, written by one thread.

Exactly once: a stream's events are numbered without gaps, the store remembers how many of each kind
it has, and an append only takes what comes next. What is there already is skipped, what would leave
a gap is refused, and both are decided in the transaction that stores the rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from lanekit.errors import (
    InvalidEvent,
    RunExists,
    RunNotFound,
    SequenceGap,
    TelemetryError,
)
from lanekit.slow.batches import Batch, Kind, check_run_id, check_stream_id
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.database import Database
from lanekit.slow.store.ledger import Ledger, RunChange, StreamEntry
from lanekit.slow.store.life_cycle import ASIDE, OPEN, TERMINAL, StateChange
from lanekit.slow.store.run_course import RunCourse
from lanekit.slow.store.run_rows import select_runs, state_name
from lanekit.slow.store.sql_connection import NO_LIMIT
from lanekit.slow.store.store_file import store_errors
from lanekit.slow.store.stream_tracks import StreamTracks


@dataclass(frozen=True, slots=True)
class StreamCommitted:
    """How far each kind of a stream is committed: the highest numbers, 0 for none."""

    steps: int
    episodes: int
    events: int
    continued: pb.StreamPosition | None = None
    """The same of the stream that it continues, if there is that."""
    notice: str = ""
    """What is unusual about the stream, in words; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of one batch."""

    committed_seq: int
    """The stream's highest committed number of this kind."""
    position: int
    """Where in the run its first new row is."""
    rows: int
    """How many of its rows are new: its last so many. 0: all were there already."""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """A stream whose worker has not ended, as far as the store knows."""

    run_id: str
    stream_id: str
    worker_id: str
    pid: int
    host: str
    spool_directory: str


class TelemetryStore:
    """Owns a database's writing connection. For one thread at a time."""

    def __init__(self, database: Database) -> None:
        self.path = database.path
        self._database = database
        self._ledger = Ledger(database)
        self._course = RunCourse(self._ledger)

    def close(self) -> None:
        """Let go of the database. Harmless when repeated."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_writable(self) -> None:
        """Raise `StoreError` if nothing can be stored now; connect again if that may help."""
        with store_errors(self.path):
            try:
                self._database.probe()
            except BaseException:
                self._database.roll_back()
                raise

    # --- events --------------------------------------------------------------------------------

    def append(self, batches: Sequence[Batch]) -> list[Committed | TelemetryError]:
        """Store batches in one transaction; the answers are in their order.

        What is committed already is skipped. A batch that would leave a gap, or whose stream was
        never registered, gets a `SequenceGap` or `RunNotFound` for an answer, and stores nothing;
        the others are not affected. When the file is locked, the disk full or the like, `StoreBusy`
        or `StoreError` is raised and nothing at all has changed.
        """
        with self._ledger.transaction(*sorted({batch.run_id for batch in batches})):
            touched: dict[int, StreamEntry] = {}
            answers = [self._append(batch, touched) for batch in batches]
            for stream in touched.values():
                committed = stream.committed
                self._database.write(
                    "UPDATE streams SET committed_steps = ?, committed_episodes = ?,"
                    " committed_events = ? WHERE stream = ?",
                    (*(committed[kind] for kind in Kind), stream.stream),
                )
            for run in {id(stream.run): stream.run for stream in touched.values()}.values():
                run.revision = self._database.next_revision()
                self._database.write(
                    "UPDATE runs SET steps = ?, episodes = ?, events = ?, revision = ?"
                    " WHERE run = ?",
                    (*(run.rows[kind] for kind in Kind), run.revision, run.run),
                )
        return answers

    def _append(self, batch: Batch, touched: dict[int, StreamEntry]) -> Committed | TelemetryError:
        stream = self._ledger.find_stream(batch.run_id, batch.stream_id)
        if stream is None:
            return RunNotFound(
                f"stream {batch.stream_id} of run {batch.run_id} is not known; register it first"
            )
        kind, run = batch.kind, stream.run
        committed, position = stream.committed[kind], run.rows[kind]
        skip = committed + 1 - batch.first_seq
        if skip < 0:
            return SequenceGap(
                f"{kind} of stream {batch.stream_id} are committed up to {committed}, so the next"
                f" batch begins at {committed + 1} or before; got {batch.first_seq}"
            )
        rows = batch.rows - skip
        if rows <= 0:
            return Committed(committed, position, 0)
        self._database.insert(batch, skip, StreamTracks(self._ledger, stream))
        self._ledger.append_order(run, kind, stream.stream, batch.first_seq + skip, rows)
        run.rows[kind] += rows
        stream.committed[kind] += rows
        touched[stream.stream] = stream
        is_events = kind is Kind.EVENTS
        self._course.committed(
            stream, cast(list[pb.RunEvent], batch.content)[skip:] if is_events else ()
        )
        return Committed(batch.last_seq, position, rows)

    # --- runs ------------------------------------------------------------------------------------

    def create_run(
        self,
        run_id: str,
        *,
        command: Sequence[str] = (),
        config_json: bytes = b"",
        created_ns: int | None = None,
    ) -> pb.Run:
        """Record a run that is about to start. `RunExists` when there is one of this id."""
        check_run_id(run_id)
        with self._ledger.transaction(run_id):
            known = self._ledger.find_run(run_id) is not None
            if known or not self._ledger.insert_run(run_id, command, config_json, created_ns):
                raise RunExists(f"run {run_id} exists already; choose another id")
        return self.run(run_id)

    def register_stream(
        self,
        run_id: str,
        stream_id: str,
        worker_id: str = "",
        pid: int = 0,
        host: str = "",
        spool_directory: str = "",
        require_run: bool = False,
        aside: bool = False,
        journal_id: str = "",
        continues: pb.StreamPosition | None = None,
    ) -> StreamCommitted:
        """Make a stream known, and its run unless `require_run`; say what is committed of it.

        What happens to a stream `aside` says nothing about the run. A stream that `continues`
        another one of its journal takes its place: it says how the worker fares from then on.
        """
        check_run_id(run_id)
        check_stream_id(stream_id)
        with self._ledger.transaction(run_id):
            run = self._ledger.find_run(run_id)
            if run is None:
                if require_run:
                    raise RunNotFound(f"run {run_id} is not known; submit it first")
                self._ledger.insert_run(run_id, (), b"", None)
                run = self._ledger.known_run(run_id)
            connection = self._ledger.connection
            is_new = self._ledger.find_stream(run_id, stream_id) is None
            connection.execute(
                "INSERT INTO streams (run, stream_id, worker_id, pid, host, spool_directory,"
                " journal_id, continues, last_seen_ns, state)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (run, stream_id) DO UPDATE SET worker_id = excluded.worker_id,"
                " pid = excluded.pid, host = excluded.host,"
                " spool_directory = excluded.spool_directory, last_seen_ns = excluded.last_seen_ns",
                (
                    *(run.run, stream_id, worker_id, pid, host, spool_directory, journal_id),
                    "" if continues is None else continues.stream_id,
                    *(time.time_ns(), ASIDE if aside else OPEN),
                ),
            )
            stream = self._ledger.find_stream(run_id, stream_id)
            assert stream is not None
            self._database.take_over(stream.stream)
            if is_new and not aside:
                self._course.begins(stream, continues)
            self._course.heard_of(stream)
            self._ledger.note_change(run_id, run)
            ((notice,),) = connection.execute(
                "SELECT notice FROM streams WHERE stream = ?", (stream.stream,)
            ).fetchall()
            return StreamCommitted(
                steps=stream.committed[Kind.STEPS],
                episodes=stream.committed[Kind.EPISODES],
                events=stream.committed[Kind.EVENTS],
                continued=self._position(run_id, continues),
                notice=notice,
            )

    def _position(
        self, run_id: str, continues: pb.StreamPosition | None
    ) -> pb.StreamPosition | None:
        if continues is None or not continues.stream_id:
            return None
        stream = self._ledger.find_stream(run_id, continues.stream_id)
        if stream is None:
            return None
        numbers = {kind.value: committed for kind, committed in stream.committed.items()}
        return pb.StreamPosition(stream_id=stream.stream_id, **numbers)

    def touch_stream(
        self,
        run_id: str,
        stream_id: str,
        *,
        last_seen_ns: int | None = None,
        rejected: int | None = None,
    ) -> None:
        """Note that a sender lives, and how many lines it has rejected so far."""
        with self._ledger.transaction(run_id):
            stream = self._ledger.find_stream(run_id, stream_id)
            if stream is None:
                raise RunNotFound(f"stream {stream_id} of run {run_id} is not known")
            self._ledger.connection.execute(
                "UPDATE streams SET last_seen_ns = ?, rejected = coalesce(?, rejected)"
                " WHERE stream = ?",
                (last_seen_ns or time.time_ns(), rejected, stream.stream),
            )
            self._ledger.connection.execute(
                "UPDATE runs SET rejected ="
                " (SELECT sum(rejected) FROM streams WHERE streams.run = runs.run) WHERE run = ?",
                (stream.run.run,),
            )
            self._course.heard_of(stream)
            self._ledger.note_change(run_id, stream.run)

    def open_streams(self) -> list[OpenStream]:
        """The streams that are expected to go on, and that are this daemon's to look after."""
        ended = ", ".join(f"'{state}'" for state in sorted(TERMINAL))
        with store_errors(self.path):
            self._database.sign_of_life()
            rows = self._ledger.connection.execute(
                "SELECT run_id, stream_id, worker_id, pid, host, spool_directory"
                " FROM streams JOIN runs USING (run)"
                f" WHERE streams.state = ? AND runs.state NOT IN ({ended})"
                f" AND {self._database.own_streams()}",
                (OPEN,),
            ).fetchall()
        return [OpenStream(*row) for row in rows]

    def give_up_stream(self, run_id: str, stream_id: str, reason: str) -> None:
        """Count an open stream as lost, until it is heard of again."""
        with self._ledger.transaction(run_id):
            stream = self._ledger.find_stream(run_id, stream_id)
            if stream is not None:
                self._course.fell_silent(stream, reason)

    def set_run_state(
        self,
        run_id: str,
        state: int | str,
        *,
        started_ns: int | None = None,
        ended_ns: int | None = None,
        exit_status: int | None = None,
        reason: str | None = None,
    ) -> pb.Run:
        """Set a run's state, by the protocol's number or by name; what is None stays."""
        change = StateChange(state_name(state), started_ns, ended_ns, exit_status, reason)
        with self._ledger.transaction(run_id):
            self._ledger.apply(run_id, self._ledger.known_run(run_id), change)
        return self.run(run_id)

    def archive_run(self, run_id: str, archived: bool = True) -> pb.Run:
        """Hide a run from listings, or show it again. Its data stays."""
        with self._ledger.transaction(run_id):
            run = self._ledger.known_run(run_id)
            self._ledger.connection.execute(
                "UPDATE runs SET archived = ? WHERE run = ?", (int(archived), run.run)
            )
            self._ledger.note_change(run_id, run)
        return self.run(run_id)

    def add_command(self, run_id: str, action: int) -> int:
        """Record what is asked of a run's workers; return its number, 1 for the run's first."""
        if action not in pb.ControlAction.values() or action == pb.CONTROL_ACTION_UNSPECIFIED:
            raise InvalidEvent(f"a control action is pause, resume or stop; got {action}")
        with self._ledger.transaction(run_id):
            run = self._ledger.known_run(run_id)
            ((newest,),) = self._ledger.connection.execute(
                "SELECT coalesce(max(command_id), 0) FROM commands WHERE run = ?", (run.run,)
            ).fetchall()
            self._ledger.connection.execute(
                "INSERT INTO commands VALUES (?, ?, ?, ?)",
                (run.run, newest + 1, int(action), time.time_ns()),
            )
        return int(newest) + 1

    def commands(self, run_id: str, after: int = 0) -> list[pb.ControlCommand]:
        """The commands of a run numbered above `after`, in order."""
        with store_errors(self.path):
            rows: list[tuple[Any, ...]] = self._ledger.connection.execute(
                "SELECT command_id, action FROM commands"
                " WHERE run = (SELECT run FROM runs WHERE run_id = ?) AND command_id > ?"
                " ORDER BY command_id",
                (run_id, after),
            ).fetchall()
        return [pb.ControlCommand(command_id=row[0], action=row[1]) for row in rows]

    def run(self, run_id: str) -> pb.Run:
        """One run as it is now, or `RunNotFound`."""
        with store_errors(self.path):
            runs = select_runs(self._ledger.connection, "WHERE run_id = ?", (run_id,))
        if not runs:
            raise RunNotFound(f"run {run_id} is not known")
        return runs[0]

    def runs(self, include_archived: bool = False, limit: int = 0) -> list[pb.Run]:
        """The runs there are, newest first."""
        where = "" if include_archived else "WHERE archived = 0 "
        with store_errors(self.path):
            return select_runs(
                self._ledger.connection,
                f"{where}ORDER BY run DESC LIMIT ?",
                (limit or NO_LIMIT,),
            )

    def own_runs(self) -> list[pb.Run]:
        """All runs that this daemon, or one before it in its place, made; archived ones too."""
        with store_errors(self.path):
            return select_runs(
                self._ledger.connection, f"WHERE {self._database.own_runs()} ORDER BY run"
            )

    def take_notices(self) -> list[str]:
        """What whoever looks after the store should know, since the last call."""
        notices, self._ledger.notices = self._ledger.notices, []
        return notices

    def take_changes(self) -> list[RunChange]:
        """The changes of runs since the last call: for telling those who watch."""
        changes, self._ledger.changes = self._ledger.changes, []
        return changes
