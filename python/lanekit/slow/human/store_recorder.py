"""A human's records into a store that no daemon owns, through its one writer thread."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from lanekit.errors import TelemetryError
from lanekit.slow.batches import (
    Batch,
    Kind,
    check_run_id,
    check_worker_id,
    episodes_batch,
    events_batch,
    steps_batch,
)
from lanekit.slow.human.record_codec import Record, to_episode, to_event, to_step
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.records import EpisodeRecord, StepRecord

if TYPE_CHECKING:
    from lanekit.slow.store.db_sink import TelemetryDBSink

MOST_WAITING = 65536
"""Records that wait for a store that can not be written now; what comes then is refused."""


class RecordsLost(TelemetryError):
    """Records that had been taken could not be stored; :attr:`records` says how many."""

    def __init__(self, message: str, records: int) -> None:
        super().__init__(message)
        self.records = records


class StoreRecorder:
    """Gives each record its number in a stream of its own, and hands it to the store's writer.

    Never waits: while the store is busy or its disk full, records wait here in order.
    """

    def __init__(self, sink: TelemetryDBSink, run_id: str, *, worker_id: str = "human") -> None:
        """Register a stream of the run, creating the run if there is none."""
        self.run_id = check_run_id(run_id)
        check_worker_id(worker_id)
        self.stream_id = uuid.uuid4().hex
        self._sink = sink
        self._lock = threading.Lock()
        self._next_seq = dict.fromkeys(Kind, 1)
        self._waiting: deque[Batch] = deque()
        self._uncommitted = 0
        self._settled = threading.Condition(self._lock)
        self._lost = 0
        self._last_error = ""
        host, stream_id = socket.gethostname(), self.stream_id
        sink.call(
            lambda store: store.register_stream(run_id, stream_id, worker_id, os.getpid(), host)
        ).result()
        self._unsubscribe = sink.on_space(self._send_waiting)

    def record(self, record: Record) -> None:
        """Take one record. Raises what keeps it from ever being stored."""
        with self._lock:
            if self._uncommitted >= MOST_WAITING:
                stalled = self._sink.status().stalled or "it is too slow"
                raise TelemetryError(
                    f"{self._uncommitted:,} records wait for the store already ({stalled})"
                )
            self._waiting.append(self._batch(record))
            self._uncommitted += 1
        self._send_waiting()

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything is committed; False if that takes longer than `timeout`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._send_waiting()
            with self._settled:
                if not self._uncommitted:
                    return True
                left = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
                if left <= 0:
                    return False
                self._settled.wait(left)

    def close(self, timeout: float = 10.0) -> None:
        """Wait for the commits. Raises :class:`RecordsLost` for what is not stored by then."""
        done = self.flush(timeout)
        self._unsubscribe()
        with self._lock:
            lost = self._lost + self._uncommitted
            why = self._last_error if done else self._sink.status().stalled or "it took too long"
        if lost:
            raise RecordsLost(f"run {self.run_id}: {lost} records are not stored: {why}", lost)

    def _batch(self, record: Record) -> Batch:
        names: dict[str, Any] = {"run_id": self.run_id, "stream_id": self.stream_id}
        if isinstance(record, StepRecord):
            kind, seq = Kind.STEPS, self._next_seq[Kind.STEPS]
            batch = steps_batch(
                pb.PublishRunStepsRequest(**names, first_seq=seq, steps=[to_step(record)])
            )
        elif isinstance(record, EpisodeRecord):
            kind, seq = Kind.EPISODES, self._next_seq[Kind.EPISODES]
            batch = episodes_batch(
                pb.PublishRunEpisodesRequest(**names, first_seq=seq, episodes=[to_episode(record)])
            )
        else:
            kind, seq = Kind.EVENTS, self._next_seq[Kind.EVENTS]
            batch = events_batch(
                pb.PublishRunEventsRequest(**names, first_seq=seq, events=[to_event(record)])
            )
        self._next_seq[kind] = seq + 1  # only now: a record that was refused takes no number
        return batch

    def _send_waiting(self) -> None:
        """Submit in order, for as long as there is room."""
        while True:
            with self._lock:
                if not self._waiting:
                    return
                future = self._sink.try_submit(self._waiting[0])
                if future is None:
                    return
                self._waiting.popleft()
            future.add_done_callback(self._settle)

    def _settle(self, future: Future[int]) -> None:
        error = future.exception()
        with self._settled:
            self._uncommitted -= 1
            if error is not None:
                self._lost += 1
                self._last_error = str(error)
            self._settled.notify_all()
