"""From the bus to waiting calls: which run has news, told to the event loop a few times a second.

The writer thread must not pay for viewers. It sets one flag; the loop looks at what was published
at most every ``INTERVAL`` seconds and wakes all who listen to one of those runs at once. Those
who were equally far then ask for the same page, which is read once for all of them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from lanekit.slow.run_bus import RunBus, Topic

INTERVAL = 0.02
TICK = 1.0
"""Seconds between two wake-ups of everybody, whatever was published."""
COMMAND_TICKS = 5
"""Ticks between two looks for commands that came through another daemon."""

ANY_RUN = ""

T = TypeVar("T")

Key: TypeAlias = tuple[Topic, str]
"""A topic and a run's id."""


class Pulse:
    """Wakes coroutines that wait for news of a run."""

    def __init__(self, bus: RunBus, shared: bool = False) -> None:
        """`shared`: other daemons write to the same store, and their news are on no bus here."""
        self._shared = shared
        self._ticks = 0
        self._loop = asyncio.get_running_loop()
        self._listeners: defaultdict[Key, set[asyncio.Event]] = defaultdict(set)
        self._due = False
        self._last = 0.0
        self._stopped = asyncio.Event()
        self._dropped = 0
        self._ticking = self._loop.call_later(TICK, self._tick)
        # What a full queue loses is no loss: everybody is woken then, and looks at the store.
        self._subscription = bus.subscribe_ui(
            {
                Topic.STEP_APPENDED,
                Topic.EPISODE_FINALIZED,
                Topic.EVENT_APPENDED,
                Topic.CONTROL,
                Topic.RUN_CHANGED,
            },
            notify=self._notify,
            name="the viewers' pulse",
        )

    @property
    def stopped(self) -> bool:
        """Whether the daemon is shutting down: nobody waits any more."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Wake everybody, for good."""
        self._stopped.set()
        self._ticking.cancel()
        self._subscription.close()
        for listeners in self._listeners.values():
            wake(listeners)

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Await ``work``; give it up, and return None, when the daemon shuts down before."""
        task = self._loop.create_task(work)
        stopping = self._loop.create_task(self._stopped.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return await task if task.done() else None
        finally:
            task.cancel()
            stopping.cancel()

    def listen(self, topic: Topic, run_id: str = ANY_RUN) -> Listener:
        """Return a context manager that hears of this topic and run."""
        return Listener(self, (topic, run_id))

    def add(self, key: Key, news: asyncio.Event) -> None:
        """Set ``news`` from now on whenever there are any."""
        self._listeners[key].add(news)

    def remove(self, key: Key, news: asyncio.Event) -> None:
        """Forget about ``news``."""
        self._listeners[key].discard(news)
        if not self._listeners[key]:
            del self._listeners[key]

    def _tick(self) -> None:
        self._ticks += 1
        # Commands are rare, and the bus is reliable: only those of other daemons are looked for.
        commands = self._shared and self._ticks % COMMAND_TICKS == 0
        # All at once, so that they share their reading.
        for (topic, _), listeners in self._listeners.items():
            if topic is not Topic.CONTROL or commands:
                wake(listeners)
        self._ticking = self._loop.call_later(TICK, self._tick)

    def _notify(self) -> None:
        # In the publisher's thread.
        if not self._due:
            self._due = True
            self._loop.call_soon_threadsafe(self._schedule)

    def _schedule(self) -> None:
        wait = self._last + INTERVAL - self._loop.time()
        if wait > 0:
            self._loop.call_later(wait, self._deliver)
        else:
            self._deliver()

    def _deliver(self) -> None:
        self._last = self._loop.time()
        self._due = False  # before looking: what comes later schedules anew
        if self.stopped:
            return
        keys = set()
        for event in self._subscription.drain():
            keys.add((event.topic, event.run_id))
            keys.add((event.topic, ANY_RUN))
        if self._subscription.dropped != self._dropped:
            self._dropped = self._subscription.dropped
            keys = set(self._listeners)
        for key in keys & self._listeners.keys():
            wake(self._listeners[key])


class Listener:
    """Hears of one topic of one run from when it is entered."""

    def __init__(self, pulse: Pulse, key: Key) -> None:
        self._pulse = pulse
        self._key = key
        self._news = asyncio.Event()

    def __enter__(self) -> Listener:
        self._pulse.add(self._key, self._news)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pulse.remove(self._key, self._news)

    def forget(self) -> None:
        """Call before looking at the store: news from here on end the next wait at once."""
        self._news.clear()

    async def wait(self) -> None:
        """Return at news since :meth:`forget`, at the next tick, or at the daemon's end."""
        if not self._pulse.stopped:
            await self._news.wait()


def wake(listeners: set[asyncio.Event]) -> None:
    """Set all these events."""
    for news in listeners:
        news.set()
