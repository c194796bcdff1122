"""The run bus: what was committed, told to whoever listens in this process.

Each subscriber has a bounded queue of its own. One that must not miss anything makes the publisher
wait; any other loses its oldest events when it is too slow. How many is told once for each burst
of losses, when the subscriber takes events again. The bus carries committed events only, so whoever
lost some can read them from the store.
"""

from __future__ import annotations

import enum
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from lanekit.slow.batches import Batch
from lanekit.slow.limits import RUNBUS_DEFAULT_QUEUE_SIZE, RUNBUS_UI_PATH_QUEUE_SIZE

log = logging.getLogger(__name__)

QUEUE_BYTES = 16 * 2**20
"""Bytes of batches a subscriber's queue holds, whatever its size; one larger batch fits alone."""

OverflowPolicy = Literal["drop_oldest", "wait"]


class Topic(enum.Enum):
    """What an event on the bus is about."""

    RUN_STARTED = "run_started"
    STEP_APPENDED = "step_appended"
    EPISODE_FINALIZED = "episode_finalized"
    EVENT_APPENDED = "event_appended"
    CONTROL = "control"
    RUN_COMPLETED = "run_completed"
    RUN_CHANGED = "run_changed"
    OVERFLOW = "overflow"


@dataclass(frozen=True, slots=True)
class BusEvent:
    """One thing that happened to a run."""

    topic: Topic
    run_id: str
    position: int = 0
    """Appended rows: the position of the first new one, which is also the cursor to read from."""
    rows: int = 0
    """Appended rows: how many are new. They are the last so many of `batch`."""
    batch: Batch | None = None
    payload: Any = None
    """RUN_*: the run, a `pb.Run`. CONTROL: the command. OVERFLOW: an `Overflow`."""

    @property
    def nbytes(self) -> int:
        """Roughly what it takes in memory."""
        return 256 if self.batch is None else 256 + self.batch.nbytes


@dataclass(frozen=True, slots=True)
class Overflow:
    """A subscriber was too slow and lost events."""

    subscriber: str
    run_id: str
    """The run of the first event it lost."""
    dropped: int
    """How many it lost, from when its queue was full until it took events again or closed."""


class Subscription:
    """One subscriber's queue. Made by `RunBus.subscribe`; close it when done."""

    def __init__(
        self,
        bus: RunBus,
        topics: frozenset[Topic],
        run_id: str | None,
        size: int,
        on_overflow: OverflowPolicy,
        notify: Callable[[], None] | None,
        name: str,
        max_bytes: int,
    ) -> None:
        self.name = name
        self.topics = topics
        self.run_id = run_id
        self._bus = bus
        self._size = size
        self._max_bytes = max_bytes
        self._waits = on_overflow == "wait"
        self._notify = notify
        self._events: deque[BusEvent] = deque()
        self._bytes = 0
        self._dropped = 0
        self._burst: Overflow | None = None
        self._closed = False
        self._changed = threading.Condition()

    @property
    def dropped(self) -> int:
        """How many events were lost because they were not taken in time."""
        return self._dropped

    @property
    def closed(self) -> bool:
        """Whether no further events come."""
        return self._closed

    def __len__(self) -> int:
        return len(self._events)

    def get(self, timeout: float | None = None) -> BusEvent | None:
        """Take the next event; wait for it. None: `timeout` seconds passed, or closed and empty."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._events:
                left = None if deadline is None else deadline - time.monotonic()
                if self._closed or (left is not None and left <= 0):
                    return None
                self._changed.wait(left)
            event, burst = self._take()
        self._bus._tell(burst)
        return event

    def try_get(self) -> BusEvent | None:
        """Take the next event if there is one."""
        with self._changed:
            if not self._events:
                return None
            event, burst = self._take()
        self._bus._tell(burst)
        return event

    def drain(self) -> list[BusEvent]:
        """Take all there are."""
        with self._changed:
            events = list(self._events)
            self._events.clear()
            self._bytes = 0
            burst, self._burst = self._burst, None
            self._changed.notify_all()
        self._bus._tell(burst)
        return events

    def close(self) -> None:
        """Take no further part. What is queued can still be taken. Harmless when repeated."""
        self._bus._remove(self)
        with self._changed:
            self._closed = True
            burst, self._burst = self._burst, None
            self._changed.notify_all()
        self._bus._tell(burst)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[BusEvent]:
        while (event := self.get()) is not None:
            yield event

    def _take(self) -> tuple[BusEvent, Overflow | None]:
        """The next event, and the burst of losses that ends with its taking."""
        event = self._events.popleft()
        self._bytes -= event.nbytes
        burst, self._burst = self._burst, None
        self._changed.notify_all()
        return event, burst

    def _wants(self, topic: Topic, run_id: str) -> bool:
        return topic in self.topics and self.run_id in (None, run_id)

    def _put(self, event: BusEvent) -> None:
        with self._changed:
            if self._waits and event.topic is Topic.OVERFLOW and self._is_full_for(event):
                # Told by one who takes events, perhaps these: it must not wait for itself.
                self._dropped += 1
                return
            while self._waits and self._is_full_for(event) and not self._closed:
                self._changed.wait()
            if self._closed:
                return
            while self._is_full_for(event):
                self._lose(self._events.popleft())
            self._events.append(event)
            self._bytes += event.nbytes
            self._changed.notify_all()
        if self._notify is not None:
            try:
                self._notify()
            except Exception:  # one subscriber's fault must not reach the publisher
                log.exception("subscriber %s failed and was closed", self.name)
                self.close()

    def _lose(self, event: BusEvent) -> None:
        self._bytes -= event.nbytes
        self._dropped += 1
        if self._burst is not None:
            self._burst = replace(self._burst, dropped=self._burst.dropped + 1)
        # Losing news of losses is not news.
        elif event.topic is not Topic.OVERFLOW:
            log.warning("%s is too slow and loses events", self.name)
            self._burst = Overflow(self.name, event.run_id, 1)

    def _is_full_for(self, event: BusEvent) -> bool:
        if not self._events:
            return False
        return len(self._events) >= self._size or self._bytes + event.nbytes > self._max_bytes


class RunBus:
    """Carries events from one publisher at a time to any number of subscribers, thread-safely."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: tuple[Subscription, ...] = ()
        self._numbers = itertools.count(1)

    def subscribe(
        self,
        topics: Iterable[Topic] | Topic,
        *,
        run_id: str | None = None,
        size: int = RUNBUS_DEFAULT_QUEUE_SIZE,
        on_overflow: OverflowPolicy = "drop_oldest",
        notify: Callable[[], None] | None = None,
        name: str | None = None,
        max_bytes: int = QUEUE_BYTES,
    ) -> Subscription:
        """Queue every event of `topics` (of one run, or of all) from now on.

        `size` and `max_bytes` bound the queue. When it is full, ``"drop_oldest"`` loses its oldest
        and counts it, and ``"wait"`` makes the publisher wait until there is room or the
        subscription is closed; only OVERFLOW events make nobody wait, and are lost instead.
        `notify` is called in the publisher's thread after each event (for OVERFLOW that is the
        thread of the subscriber that was too slow); it must be quick, and when it raises the
        subscription is closed.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        if on_overflow not in ("drop_oldest", "wait"):
            raise ValueError(f"on_overflow is 'drop_oldest' or 'wait', not {on_overflow!r}")
        wanted = frozenset([topics] if isinstance(topics, Topic) else topics)
        with self._lock:
            subscription = Subscription(
                self,
                wanted,
                run_id,
                size,
                on_overflow,
                notify,
                name or f"subscriber-{next(self._numbers)}",
                max_bytes,
            )
            self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    def subscribe_ui(
        self,
        topics: Iterable[Topic] | Topic,
        *,
        run_id: str | None = None,
        notify: Callable[[], None] | None = None,
        name: str | None = None,
    ) -> Subscription:
        """Subscribe for something that people look at: a short queue, and the newest matters."""
        return self.subscribe(
            topics, run_id=run_id, size=RUNBUS_UI_PATH_QUEUE_SIZE, notify=notify, name=name
        )

    def publish(self, topic: Topic, event: BusEvent) -> None:
        """Give `event` to every subscription that wants it."""
        for subscription in self._subscriptions:
            if subscription._wants(topic, event.run_id):
                subscription._put(event)

    def wants(self, topic: Topic, run_id: str) -> bool:
        """Whether anybody listens: spares making events for nobody."""
        return any(subscription._wants(topic, run_id) for subscription in self._subscriptions)

    def close(self) -> None:
        """Close every subscription."""
        for subscription in self._subscriptions:
            subscription.close()

    def _tell(self, burst: Overflow | None) -> None:
        """Publish that a burst of losses is over, in the thread of the one who had them."""
        if burst is not None:
            self.publish(Topic.OVERFLOW, BusEvent(Topic.OVERFLOW, burst.run_id, payload=burst))

    def _remove(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = tuple(s for s in self._subscriptions if s is not subscription)
