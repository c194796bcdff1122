"""Events out: a run's history from a cursor on, then what is committed while the call lasts.

Both come from the store, page by page in position order, so there is no seam between history and
live where an event could be missed or repeated. Reading happens in a few threads of its own, in
pages small enough to let the writer in between; the bus only says when to look again. A client
that does not read stops its own call in ``write`` and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

import grpc

from lanekit.slow.batches import check_run_id
from lanekit.slow.daemon.methods import Context, Method, Refusal
from lanekit.slow.daemon.pages import PAGE_ROWS, Page, episodes_page, events_page, steps_page
from lanekit.slow.daemon.pulse import Pulse
from lanekit.slow.run_bus import Topic
from lanekit.slow.store.run_store import RunStore

READING_THREADS = 2
MAX_CURSOR = 2**62
"""Further on than any run gets, and still a number that SQLite takes."""

PageKey: TypeAlias = tuple[object, ...]
"""What makes two readings the same."""
ReadPage: TypeAlias = Callable[[RunStore, Any, int, int], Page]


class Streams:
    """The StreamRun* calls."""

    def __init__(self, store: RunStore, pulse: Pulse, busy: Callable[[], bool]) -> None:
        self._busy = busy
        self._history_turn = asyncio.Lock()
        self.store = store
        self.pulse = pulse
        self.threads = ThreadPoolExecutor(READING_THREADS, thread_name_prefix="lanekit-read")
        self._under_way: dict[PageKey, asyncio.Future[Page]] = {}

    def close(self) -> None:
        """End the reading threads."""
        self.threads.shutdown(cancel_futures=True)

    def methods(self) -> dict[str, Method]:
        """Return the three rpcs by name."""
        return {
            "StreamRunSteps": self._method(steps_page, Topic.STEP_APPENDED, "steps"),
            "StreamRunEpisodes": self._method(episodes_page, Topic.EPISODE_FINALIZED, "episodes"),
            "StreamRunEvents": self._method(events_page, Topic.EVENT_APPENDED, "events"),
        }

    async def read(self, function: Callable[[RunStore], Any]) -> Any:
        """Run a query in a reading thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, function, self.store)

    def _method(self, read_page: ReadPage, topic: Topic, kind: str) -> Method:
        async def stream(request: Any, context: Context) -> None:
            run_id = check_run_id(request.run_id)
            # NOT_FOUND before anything is sent; and where history ends, however fast more comes.
            counts = await self.read(lambda store: store.counts(run_id))
            end = getattr(counts, kind) if request.history_only else MAX_CURSOR
            cursor = sent = min(request.cursor, MAX_CURSOR)
            far_behind = False
            with self.pulse.listen(topic, run_id) as news:
                while not self.pulse.stopped:
                    news.forget()
                    next_page = self._history_page if far_behind else self._page
                    limit = max(1, min(PAGE_ROWS, end - cursor))
                    page = await next_page(read_page, request, cursor, limit)
                    far_behind = page.next_cursor - cursor >= PAGE_ROWS
                    if page.response is not None:
                        await context.write(page.response)
                        sent = page.next_cursor
                    at_end = page.next_cursor == cursor or page.next_cursor >= end
                    cursor = page.next_cursor
                    if not at_end:
                        continue
                    if cursor != sent:
                        # Nothing of the agent asked for lately: let the client's cursor move too.
                        await context.write(page.position)
                        sent = cursor
                    if request.history_only:
                        return
                    del page  # as large as its largest row, and the wait may be long
                    await news.wait()
            raise Refusal(
                grpc.StatusCode.UNAVAILABLE,
                f"the daemon is shutting down; go on with cursor {cursor} when it is back",
            )

        return stream

    async def _history_page(
        self, read_page: ReadPage, request: Any, cursor: int, limit: int
    ) -> Page:
        """Read a page of many, one call at a time, and half of the time while senders wait.

        Whoever is near the end is served meanwhile.
        """
        loop = asyncio.get_running_loop()
        async with self._history_turn:
            began = loop.time()
            page = await self._page(read_page, request, cursor, limit)
            if self._busy():
                await asyncio.sleep(loop.time() - began)
        return page

    async def _page(self, read_page: ReadPage, request: Any, cursor: int, limit: int) -> Page:
        """Read one page, together with all calls that ask for the same one at this moment."""
        # The request without its cursor: what else it asks for.
        asked = type(request)()
        asked.CopyFrom(request)
        asked.ClearField("cursor")
        key = (read_page, asked.SerializeToString(deterministic=True), cursor, limit)
        if (reading := self._under_way.get(key)) is None:
            loop = asyncio.get_running_loop()
            reading = loop.run_in_executor(
                self.threads, read_page, self.store, request, cursor, limit
            )
            self._under_way[key] = reading
            reading.add_done_callback(partial(self._read, key))
        # One call's end must not end the reading that others wait for.
        return await asyncio.shield(reading)

    def _read(self, key: PageKey, reading: asyncio.Future[Page]) -> None:
        del self._under_way[key]
        if not reading.cancelled():
            reading.exception()  # all who waited may be gone: then nobody else takes it
