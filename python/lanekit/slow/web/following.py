"""Live data: runs as they change, and one run's episodes, steps and log as they are committed.

Everything is read from the store by cursor, so a page that was away goes on where it stopped. The
bus only says when to look again. Episodes and log entries come without exception; of steps a
page that is behind gets the newest, and is told how many it missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias

from lanekit.slow.daemon.access import Caller
from lanekit.slow.daemon.frames.tap import FrameTap
from lanekit.slow.daemon.pulse import Pulse
from lanekit.slow.display_rows import episode_block, steps_by_agent
from lanekit.slow.run_bus import Topic
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.web.messages import (
    episodes_message,
    events_message,
    run_message,
    steps_message,
)
from lanekit.slow.web.paced_socket import PacedSocket

INTERVAL = 0.1
"""Seconds between two messages of one kind: what comes between goes together."""
LANES_INTERVAL = 1.0
"""Seconds between two looks at which runs publish pictures."""
PAGE_ROWS = 1024
RECENT_STEPS = 2000
"""Steps whose rewards the page has a curve of, as the desktop's has."""
NEWEST_STEPS = 32
"""Steps that are told in full."""
RECENT_EVENTS = 500
"""Entries of the log that a page begins with."""


Page: TypeAlias = Callable[[RunStore, int], tuple[Any, int]]
"""Reads from a cursor on: a message, or None if there is nothing new, and where to go on."""


class Reader(Protocol):
    """Runs a query of the store in a thread."""

    async def __call__(self, query: Callable[[RunStore], Any]) -> Any:
        """Return what `query` returns."""


async def follow_runs(
    socket: PacedSocket,
    read: Reader,
    pulse: Pulse,
    tap: FrameTap,
    caller: Caller,
    after_revision: int,
) -> None:
    """Send the caller's runs that changed after a revision, then each change; and their lanes."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_follow_changes(socket, read, pulse, caller, after_revision))
        group.create_task(_follow_lanes(socket, pulse, tap, caller))


async def _follow_changes(
    socket: PacedSocket, read: Reader, pulse: Pulse, caller: Caller, after_revision: int
) -> None:
    revision, first = after_revision, True
    with pulse.listen(Topic.RUN_CHANGED) as news:
        while not pulse.stopped:
            await socket.room()
            news.forget()
            runs = await read(partial(RunStore.run_messages, after_revision=revision))
            revision = max((run.revision for run in runs), default=revision)
            runs = [run for run in runs if caller.may_touch(run.run_id)]
            if runs or first:
                shown = [run_message(run, caller) for run in runs]
                await socket.send({"runs": shown, "next": revision})
                first = False
            await news.wait()
            await asyncio.sleep(INTERVAL)


async def _follow_lanes(socket: PacedSocket, pulse: Pulse, tap: FrameTap, caller: Caller) -> None:
    """Send the lanes of each run that publishes pictures on this machine, when they change."""
    told: dict[str, dict[str, Any]] | None = None
    while not pulse.stopped:
        lanes: dict[str, dict[str, Any]] = {}
        for info in await tap.lanes():
            if info.live and caller.may_touch(info.run_id):
                created = info.created_unix_ns // 1_000_000
                found = lanes.setdefault(info.run_id, {"created": created, "lanes": []})
                found["lanes"].append(info.lane)
        if lanes != told:
            told = lanes
            await socket.send({"lanes": lanes})
        await pulse.unless_stopped(asyncio.sleep(LANES_INTERVAL))


class RunFollower:
    """Follows one run for one page."""

    def __init__(self, run_id: str, socket: PacedSocket, read: Reader, pulse: Pulse) -> None:
        self._run_id = run_id
        self._socket = socket
        self._read = read
        self._pulse = pulse

    async def follow(self, cursors: dict[str, int | None]) -> None:
        """Send what is committed from these cursors on, until the daemon ends.

        None begins where a page that knows nothing should: at all episodes, and at the newest
        steps and log entries.
        """
        counts = await self._read(lambda store: store.counts(self._run_id))
        kinds = {
            "episodes": (self._episodes, 0),
            "steps": (self._steps, max(0, counts.steps - RECENT_STEPS)),
            "events": (self._events, max(0, counts.events - RECENT_EVENTS)),
        }
        async with asyncio.TaskGroup() as group:
            for kind, cursor in cursors.items():
                follow, start = kinds[kind]
                group.create_task(follow(start if cursor is None else cursor))

    async def _episodes(self, cursor: int) -> None:
        def page(store: RunStore, cursor: int) -> tuple[Any, int]:
            episodes, following = store.episode_rows(self._run_id, cursor, PAGE_ROWS)
            if not episodes:
                return None, cursor
            return episodes_message(episode_block(episodes), following), following

        await self._pages(Topic.EPISODE_FINALIZED, page, cursor)

    async def _events(self, cursor: int) -> None:
        def page(store: RunStore, cursor: int) -> tuple[Any, int]:
            events, following = store.event_rows(self._run_id, cursor, PAGE_ROWS)
            return (events_message(events, following) if events else None), following

        await self._pages(Topic.EVENT_APPENDED, page, cursor)

    async def _steps(self, cursor: int) -> None:
        def page(store: RunStore, cursor: int) -> tuple[Any, int]:
            total = store.counts(self._run_id).steps
            start = max(cursor, total - RECENT_STEPS)
            if start >= total:
                return None, cursor
            columns, following = store.step_columns(self._run_id, start, RECENT_STEPS, frames=False)
            steps = steps_by_agent(columns, start, NEWEST_STEPS)
            return steps_message(steps, start - cursor, following), following

        await self._pages(Topic.STEP_APPENDED, page, cursor)

    async def _pages(self, topic: Topic, page: Page, cursor: int) -> None:
        with self._pulse.listen(topic, self._run_id) as news:
            while not self._pulse.stopped:
                await self._socket.room()
                news.forget()
                message, following = await self._read(at(page, cursor))
                if message is not None:
                    await self._socket.send(message)
                at_end = following - cursor < PAGE_ROWS
                cursor = following
                if at_end:
                    await news.wait()
                    await asyncio.sleep(INTERVAL)


def at(page: Page, cursor: int) -> Callable[[RunStore], tuple[Any, int]]:
    """Return the query for the page that begins at a cursor."""
    return lambda store: page(store, cursor)
