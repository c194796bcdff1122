"""The course of a run in the store: begun, ended and revived by what its streams do."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.ledger import Ledger, RunEntry, StreamEntry
from lanekit.slow.store.life_cycle import (
    ASIDE,
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
            f" WHERE {where} AND state != ? ORDER BY stream",
            (number, ASIDE),
        )
        return [StreamEnd(*row) for row in rows]
