"""The course of a run in the store: begun, ended and revived by what its streams do."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lanekit.slow.batches import Kind
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.ledger import Ledger, RunEntry, StreamEntry
from lanekit.slow.store.life_cycle import (
    ASIDE,
    CONTINUED,
    OPEN,
    SILENT,
    TERMINAL,
    StateChange,
    StreamEnd,
    controlled_state,
    ends_stream,
    run_end,
    stream_end,
)


class RunCourse:
    """Keeps the states of streams and of their runs. Use it within the ledger's transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def committed(self, stream: StreamEntry, events: Sequence[pb.RunEvent] = ()) -> None:
        """Note that a batch of a stream was stored, with these new events if it was of events."""
        if stream.state == ASIDE:
            return
        if stream.state == CONTINUED:
            self._open(stream)
            self._note(
                stream,
                "it goes on although another stream continues its journal, so the journal was "
                "copied while it was in use; what both add is stored",
            )
        if stream.state == SILENT:
            self._open(stream)
        if not events or not (ends_stream(events[0]) or events[0].name == "run_started"):
            self._begin(stream, time.time_ns())
        for event in events:
            self._take(stream, event)

    def heard_of(self, stream: StreamEntry) -> None:
        """Note a sign of life: a stream that was given up for silence is open again."""
        if stream.state == SILENT:
            self._open(stream)
            self._begin(stream, time.time_ns())

    def begins(self, stream: StreamEntry, continues: pb.StreamPosition | None) -> str:
        """Take a new stream in, and end those that it follows; return what is unusual about it.

        The numbers of a stream mean the same events in every copy of its journal (see
        `sending.journal`), so nothing is compared here but how far the copies go: the new stream's
        events are stored in any case.
        """
        before = None
        if continues is not None and continues.stream_id:
            before = self._ledger.find_stream(stream.run_id, continues.stream_id)
        notice = ""
        if before is not None and continues is not None:
            notice = self._divergence(stream, before, continues)
            if notice:
                self._note(stream, notice)
            elif before.state not in (OPEN, CONTINUED, ASIDE):  # it takes over how that ended
                self._ledger.connection.execute(
                    "UPDATE streams SET (state, ended_ns, exit_status, reason) ="
                    " (SELECT state, ended_ns, exit_status, reason FROM streams WHERE stream = ?)"
                    " WHERE stream = ?",
                    (before.stream, stream.stream),
                )
                stream.state = before.state
            if not notice or before.state in (OPEN, SILENT):
                self._continue(before)
        # One process at a time sends from a directory: those that did before have ended.
        rows = self._ledger.connection.execute(
            "SELECT other.stream_id FROM streams JOIN streams AS other"
            " USING (run, journal_id, host, spool_directory)"
            " WHERE streams.stream = ? AND other.stream != streams.stream"
            " AND journal_id != '' AND spool_directory != '' AND other.state IN (?, ?)",
            (stream.stream, OPEN, SILENT),
        ).fetchall()
        for (stream_id,) in rows:
            other = self._ledger.find_stream(stream.run_id, stream_id)
            assert other is not None
            self._continue(other)
        return notice

    def _divergence(
        self, stream: StreamEntry, before: StreamEntry, counted: pb.StreamPosition
    ) -> str:
        """Say what shows that a journal is not the only one, or not the newest, of its kind."""
        more = [
            f"{before.committed[kind] - getattr(counted, kind)} {kind}"
            for kind in Kind
            if before.committed[kind] > getattr(counted, kind)
        ]
        if more:
            return (
                f"the store is ahead of this journal: of stream {counted.stream_id} it has "
                f"{' and '.join(more)} more. The journal was put back as it was earlier, or a copy "
                "of it went on elsewhere; what follows is stored as a new stream"
            )
        rival = self._ledger.connection.execute(
            "SELECT stream_id FROM streams WHERE run = ? AND continues = ? AND stream != ?"
            " AND committed_steps + committed_episodes + committed_events > 0",
            (stream.run.run, counted.stream_id, stream.stream),
        ).fetchone()
        if rival is None:
            return ""
        return (
            f"another copy of this journal went on, as stream {rival[0]}; what this copy adds is "
            "stored as a new stream"
        )

    def _continue(self, stream: StreamEntry) -> None:
        if stream.state != ASIDE:
            stream.state = CONTINUED
            self._ledger.connection.execute(
                "UPDATE streams SET state = ? WHERE stream = ?", (CONTINUED, stream.stream)
            )

    def _note(self, stream: StreamEntry, notice: str) -> None:
        self._ledger.connection.execute(
            "UPDATE streams SET notice = ? WHERE stream = ?", (notice, stream.stream)
        )
        self._ledger.notices.append(f"run {stream.run_id}, stream {stream.stream_id}: {notice}")

    def fell_silent(self, stream: StreamEntry, reason: str) -> None:
        """Give up an open stream, until it is heard of again."""
        if stream.state == OPEN:
            # Why it fell silent may be known already.
            (known,) = self._ledger.connection.execute(
                "SELECT reason FROM runs WHERE run = ?", (stream.run.run,)
            ).fetchall()
            self._end(stream, StreamEnd(SILENT, time.time_ns(), None, known[0] or reason))

    def _take(self, stream: StreamEntry, event: pb.RunEvent) -> None:
        run = stream.run
        if ends_stream(event):
            self._end(stream, stream_end(event, self._known_end(stream)))
        elif event.name == "run_started":
            if stream.state != OPEN:
                self._open(stream)
            self._begin(stream, event.wall_time_ns or time.time_ns())
            # Steps may have been committed before the event that announced them.
            self._ledger.connection.execute(
                "UPDATE runs SET started_ns = ?1 WHERE run = ?2 AND ?1 > 0 AND started_ns > ?1",
                (event.wall_time_ns, run.run),
            )
        elif run.state not in TERMINAL and (state := controlled_state(event)):
            self._ledger.apply(stream.run_id, run, StateChange(state))

    def _begin(self, stream: StreamEntry, at: int) -> None:
        """An open stream's first events start a run, and later ones revive one that had ended."""
        if stream.state != OPEN:
            return
        if stream.run.state == "submitted":
            change = StateChange("running", started_ns=at)
        elif stream.run.state in TERMINAL - {"cancelled"}:
            change = StateChange("running", ended_ns=0, reason="")
        else:
            return
        self._ledger.apply(stream.run_id, stream.run, change)

    def _open(self, stream: StreamEntry) -> None:
        stream.state = OPEN
        self._ledger.connection.execute(
            "UPDATE streams SET state = ?, ended_ns = 0, exit_status = NULL, reason = ''"
            " WHERE stream = ?",
            (OPEN, stream.stream),
        )

    def _known_end(self, stream: StreamEntry) -> StreamEnd | None:
        ends = self._ends("stream = ?", stream.stream)
        return ends[0] if ends and ends[0].state not in (OPEN, SILENT) else None

    def _end(self, stream: StreamEntry, end: StreamEnd) -> None:
        stream.state = end.state
        self._ledger.connection.execute(
            "UPDATE streams SET state = ?, ended_ns = ?, exit_status = ?, reason = ?"
            " WHERE stream = ?",
            (end.state, end.ended_ns, end.exit_status, end.reason, stream.stream),
        )
        self._settle(stream.run_id, stream.run)

    def _settle(self, run_id: str, run: RunEntry) -> None:
        """End a run none of whose streams is open."""
        ends = self._ends("run = ?", run.run)
        if any(end.state == OPEN for end in ends):
            return
        change = run_end(ends)
        if run.state == "cancelled":
            change = StateChange(exit_status=change.exit_status)
        self._ledger.apply(run_id, run, change)

    def _ends(self, where: str, number: int) -> list[StreamEnd]:
        rows = self._ledger.connection.execute(
            "SELECT state, ended_ns, exit_status, reason FROM streams"
            f" WHERE {where} AND state NOT IN (?, ?) ORDER BY stream",
            (number, ASIDE, CONTINUED),
        )
        return [StreamEnd(*row) for row in rows]
