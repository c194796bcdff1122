"""The way into the store: a bounded queue, and the one thread that writes.

Nothing that was taken in is dropped. When the disk is full, the store locked or its server away,
the sink keeps what it has and tries again; meanwhile its queue fills, `try_submit` says so, and
senders keep their events where they are: in their spools. A future is resolved only after the
commit.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from lanekit.errors import StoreError, TelemetryError
from lanekit.slow.batches import Batch, Kind
from lanekit.slow.limits import (
    DB_PATH_QUEUE_BYTES,
    DB_SINK_BATCH_SIZE,
    DB_SINK_MAX_DELAY,
    RUNBUS_DB_PATH_QUEUE_SIZE,
)
from lanekit.slow.run_bus import BusEvent, RunBus, Topic
from lanekit.slow.store.address import StoreAddress
from lanekit.slow.store.database import Durability
from lanekit.slow.store.ledger import RunChange
from lanekit.slow.store.life_cycle import TERMINAL
from lanekit.slow.store.opening import open_to_write
from lanekit.slow.store.telemetry_store import Committed, TelemetryStore

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_TRANSACTION_ROWS = 16384
"""Events in one transaction, so that acknowledgements do not wait for ever-growing ones."""
FIRST_RETRY = 0.05
LAST_RETRY = 1.0
"""Seconds between attempts while the store can not be written: the first, and the longest."""

_TOPICS = {
    Kind.STEPS: Topic.STEP_APPENDED,
    Kind.EPISODES: Topic.EPISODE_FINALIZED,
    Kind.EVENTS: Topic.EVENT_APPENDED,
}


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """How the sink is doing."""

    queued_batches: int
    queued_bytes: int
    """What it holds and has not committed."""
    committed: int
    """Events stored since it began."""
    commits: int
    """Transactions with events since it began."""
    stalled: str | None
    """Why it can not write now ("disk full ...", "locked ..."); None: it can."""


@dataclass(slots=True)
class _Call:
    fn: Callable[[TelemetryStore], Any]
    future: Future[Any]
    after: int
    """Batches submitted before it: they go first, unless the store can not be written."""


class TelemetryDBSink:
    """Owns the store and its writer thread; commits in groups.

    `daemon` tells daemons apart that share a database.
    """

    def __init__(
        self,
        store: StoreAddress,
        bus: RunBus,
        *,
        durability: Durability = "normal",
        daemon: str = "",
        batch_size: int = DB_SINK_BATCH_SIZE,
        max_delay: float = DB_SINK_MAX_DELAY,
        queue_batches: int = RUNBUS_DB_PATH_QUEUE_SIZE,
        queue_bytes: int = DB_PATH_QUEUE_BYTES,
    ) -> None:
        self._store = open_to_write(store, durability=durability, daemon=daemon)
        self._bus = bus
        self._batch_size = batch_size
        self._max_delay = max_delay
        self._queue_batches = queue_batches
        self._queue_bytes = queue_bytes

        self._changed = threading.Condition()
        self._batches: deque[tuple[Batch, Future[int]]] = deque()
        self._calls: deque[_Call] = deque()
        self._waiting_rows = 0
        self._first_at = 0.0
        # Until committed, what is being written counts as queued too.
        self._held_batches = 0
        self._held_bytes = 0
        self._submitted = 0
        self._finished = 0
        self._refused = False
        self._on_space: list[Callable[[], None]] = []
        self._committed = 0
        self._commits = 0
        self._stalled: str | None = None
        self._probe_at = 0.0
        self._probe_pause = FIRST_RETRY
        self._closing = False
        self._give_up_at: float | None = None
        self._thread = threading.Thread(target=self._write, name="lanekit-db-sink", daemon=True)
        self._thread.start()

    # --- any thread ------------------------------------------------------------------------------

    def try_submit(self, batch: Batch) -> Future[int] | None:
        """Queue a batch; None when there is no room now (`on_space` tells when there is again).

        The future gives the stream's highest committed number after the commit, or raises what kept
        the batch out: `SequenceGap`, `RunNotFound`.
        """
        with self._changed:
            return self._submit(batch)

    def submit(self, batch: Batch, timeout: float | None = None) -> Future[int]:
        """Queue a batch; wait for room. `TimeoutError` when there is none for `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while (future := self._submit(batch)) is None:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(
                        f"the store's queue was full for {timeout} s"
                        + (f": {self._stalled}" if self._stalled else "")
                    )
                self._changed.wait(left)
            return future

    def call(self, fn: Callable[[TelemetryStore], T]) -> Future[T]:
        """Run `fn` with the store in the writer thread, behind what was submitted before.

        While the store can not be written it runs at once instead, so that its caller learns why.
        """
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        with self._changed:
            self._check_open()
            self._calls.append(_Call(fn, future, self._submitted))
            self._changed.notify_all()
        return future

    def on_space(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback`, in any thread, whenever there is room again after a refusal.

        The answer ends that. There may be fewer places than callers: try, and expect None again.
        """
        with self._changed:
            self._on_space.append(callback)

        def unsubscribe() -> None:
            with self._changed, contextlib.suppress(ValueError):
                self._on_space.remove(callback)

        return unsubscribe

    def status(self) -> SinkStatus:
        """How it is doing now."""
        with self._changed:
            return SinkStatus(
                self._held_batches,
                self._held_bytes,
                self._committed,
                self._commits,
                self._stalled,
            )

    def close(self, drain: bool = True, timeout: float = 10.0) -> None:
        """Commit what is queued (unless `drain` is False), then end the thread and close the store.

        When the store can not be written for `timeout` seconds, what is left is given up, and its
        futures raise: it was never acknowledged, so its senders still have it.
        """
        with self._changed:
            if not self._closing:
                self._closing = True
                self._give_up_at = time.monotonic() + (timeout if drain else 0)
                if not drain:
                    self._abandon_queue()
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, batch: Batch) -> Future[int] | None:
        self._check_open()
        full = self._held_batches >= self._queue_batches or (
            self._held_batches > 0 and self._held_bytes + batch.nbytes > self._queue_bytes
        )
        if full:
            self._refused = True
            return None
        future: Future[int] = Future()
        future.set_running_or_notify_cancel()
        if not self._batches:
            self._first_at = time.monotonic()
        was_waiting = self._waiting_rows
        self._batches.append((batch, future))
        self._submitted += 1
        self._held_batches += 1
        self._held_bytes += batch.nbytes
        self._waiting_rows += batch.rows
        # The writer needs to know of the first, and of the one that makes a commit due.
        if was_waiting == 0 or was_waiting < self._batch_size <= self._waiting_rows:
            self._changed.notify_all()
        return future

    def _check_open(self) -> None:
        if self._closing:
            raise StoreError(f"{self._store.path}: the sink is closed; nothing further is stored")

    def _abandon_queue(self) -> None:
        error = StoreError(f"{self._store.path}: the sink was closed before this was stored")
        while self._batches:
            batch, future = self._batches.popleft()
            self._held_batches -= 1
            self._held_bytes -= batch.nbytes
            future.set_exception(error)
        while self._calls:
            self._calls.popleft().future.set_exception(error)
        self._waiting_rows = 0

    # --- the writer's thread --------------------------------------------------------------------

    def _write(self) -> None:
        try:
            self._check_store()
            while True:
                with self._changed:
                    self._wait_for_work()
                    if self._closing and not self._batches and not self._calls:
                        break
                    group = self._take_group()
                if group:
                    self._commit(group)
                elif self._stalled is not None and time.monotonic() >= self._probe_at:
                    self._check_store()
                self._run_calls()
        finally:
            with self._changed:
                self._closing = True
                self._abandon_queue()
                self._changed.notify_all()
            self._store.close()

    def _check_store(self) -> None:
        """Look whether the store can be written; say so if it can not, or if it can again."""
        try:
            self._store.check_writable()
        except StoreError as error:
            self._note_stall(str(error))
        else:
            self._resume()

    def _wait_for_work(self) -> None:
        while not self._closing and not self._calls:
            if self._batches:
                left = self._first_at + self._max_delay - time.monotonic()
                if self._waiting_rows >= self._batch_size or left <= 0:
                    return
                self._changed.wait(left)
            elif self._stalled is not None:
                left = self._probe_at - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)
            else:
                self._changed.wait()

    def _take_group(self) -> list[tuple[Batch, Future[int]]]:
        group: list[tuple[Batch, Future[int]]] = []
        rows = 0
        while self._batches and rows < MAX_TRANSACTION_ROWS:
            group.append(self._batches.popleft())
            rows += group[-1][0].rows
        self._waiting_rows -= rows
        self._first_at = time.monotonic()
        return group

    def _commit(self, group: list[tuple[Batch, Future[int]]]) -> None:
        batches = [batch for batch, _ in group]
        pause = FIRST_RETRY
        while True:
            try:
                if self._stalled is not None:
                    self._store.check_writable()
                answers = self._store.append(batches)
            except StoreError as error:
                if not self._stall(str(error), pause):
                    self._settle(group, [error] * len(group))
                    with self._changed:
                        self._abandon_queue()
                    return
                pause = min(2 * pause, LAST_RETRY)
            except Exception as error:
                # Not the disk's fault: find the batch that it is about, and store the others.
                if len(group) > 1:
                    for single in group:
                        self._commit([single])
                    return
                log.exception("a batch could not be stored")
                if not isinstance(error, TelemetryError):
                    error = TelemetryError(f"could not be stored: {error!r}")
                self._settle(group, [error])
                return
            else:
                break
        self._resume()
        self._settle(group, answers)

    def _stall(self, why: str, pause: float) -> bool:
        """Wait before the next attempt. False: it is time to give up."""
        self._note_stall(why)
        deadline = time.monotonic() + pause
        while True:
            self._run_calls()
            with self._changed:
                now = time.monotonic()
                if self._give_up_at is not None and now >= self._give_up_at:
                    return False
                if now >= deadline:
                    return True
                if not self._calls:
                    self._changed.wait(min(deadline, self._give_up_at or deadline) - now)

    def _note_stall(self, why: str) -> None:
        if self._stalled is None:
            log.error("nothing can be stored for now, and nothing is lost: %s", why)
            self._probe_pause = FIRST_RETRY
        else:
            self._probe_pause = min(2 * self._probe_pause, LAST_RETRY)
        self._probe_at = time.monotonic() + self._probe_pause
        with self._changed:
            self._stalled = why

    def _resume(self) -> None:
        if self._stalled is not None:
            log.warning("storing again: %s", self._store.path)
            with self._changed:
                self._stalled = None

    def _settle(
        self,
        group: list[tuple[Batch, Future[int]]],
        answers: list[Committed | TelemetryError] | list[StoreError] | list[TelemetryError],
    ) -> None:
        """Make room, answer the senders, then tell the bus."""
        stored = sum(answer.rows for answer in answers if isinstance(answer, Committed))
        with self._changed:
            self._held_batches -= len(group)
            self._held_bytes -= sum(batch.nbytes for batch, _ in group)
            self._finished += len(group)
            self._committed += stored
            self._commits += stored > 0
            callbacks = list(self._on_space) if self._refused else []
            self._refused = False
            self._changed.notify_all()
        for (_, future), answer in zip(group, answers, strict=True):
            if isinstance(answer, Committed):
                future.set_result(answer.committed_seq)
            else:
                future.set_exception(answer)
        for callback in callbacks:
            try:
                callback()
            except Exception:  # somebody else's code must not end the writer thread
                log.exception("a callback for room in the store's queue failed")
        for (batch, _), answer in zip(group, answers, strict=True):
            if isinstance(answer, Committed) and answer.rows:
                topic = _TOPICS[batch.kind]
                event = BusEvent(topic, batch.run_id, answer.position, answer.rows, batch)
                self._bus.publish(topic, event)
        self._tell_changes()

    def _run_calls(self) -> None:
        while True:
            with self._changed:
                due = self._calls and (
                    self._stalled is not None or self._calls[0].after <= self._finished
                )
                if not due:
                    return
                call = self._calls.popleft()
            try:
                result = call.fn(self._store)
            except BaseException as error:
                if isinstance(error, StoreError) and self._stalled is None:
                    self._check_store()
                call.future.set_exception(error)
            else:
                call.future.set_result(result)
            self._tell_changes()

    def _tell_changes(self) -> None:
        for notice in self._store.take_notices():
            log.warning("%s", notice)
        changes: dict[str, list[RunChange]] = {}
        for change in self._store.take_changes():
            changes.setdefault(change.run_id, []).append(change)
        for run_id, several in changes.items():
            topics = [Topic.RUN_CHANGED]
            for change in several:
                if change.state == change.old_state:
                    continue
                if change.state == "running" and change.old_state != "paused":
                    topics.append(Topic.RUN_STARTED)
                if change.state in TERMINAL:
                    topics.append(Topic.RUN_COMPLETED)
            try:
                run = self._store.run(run_id)
            except TelemetryError:
                log.exception("run %s changed, but can not be read", run_id)
                continue
            for topic in topics:
                self._bus.publish(topic, BusEvent(topic, run_id, payload=run))
