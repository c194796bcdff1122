"""Workers that vanished without a word: on another machine, or with a spool of their own.

A worker whose spool is the daemon's is looked after by the supervisor. Of any other the daemon has
only its calls; when there are none for long, and no process of it is seen on this machine, its
stream counts as lost until it is heard of again.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from lanekit import errors
from lanekit.slow.daemon.spools import lock_holder, running_worker, start_time
from lanekit.slow.limits import HEARTBEAT_INTERVAL
from lanekit.slow.store.db_sink import TelemetryDBSink
from lanekit.slow.store.telemetry_store import OpenStream

logger = logging.getLogger(__name__)

LOST_AFTER = 6 * HEARTBEAT_INTERVAL
"""Seconds without a call after which a stream is given up."""


class Silence:
    """Notices streams that nobody sends any more."""

    def __init__(self, sink: TelemetryDBSink, connected: Callable[[str, str], bool]) -> None:
        self._sink = sink
        self._connected = connected
        self._last_heard: dict[tuple[str, str], float] = {}

    async def watch(self) -> None:
        """Look at all open streams, again and again."""
        while True:
            await asyncio.sleep(LOST_AFTER / 6)
            try:
                await self._look()
            except errors.StoreError:
                continue  # nothing can be recorded now

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        streams = await asyncio.wrap_future(self._sink.call(lambda store: store.open_streams()))
        heard = {}
        for stream in streams:
            key = (stream.run_id, stream.stream_id)
            present = self._connected(*key) or await asyncio.to_thread(lives_here, stream)
            # One that is new to this daemon gets its time too, whenever it was heard of before.
            heard[key] = now if present else self._last_heard.get(key, now)
            if now - heard[key] >= LOST_AFTER:
                await self._give_up(stream)
        self._last_heard = heard

    async def _give_up(self, stream: OpenStream) -> None:
        place = f" on {stream.host}" if stream.host else ""
        reason = (
            f"worker {stream.worker_id or stream.stream_id!r}{place} has not been heard of for "
            f"{LOST_AFTER:g} s; it is taken up again when it comes back"
        )
        logger.warning("run %s: %s", stream.run_id, reason)
        await asyncio.wrap_future(
            self._sink.call(
                lambda store: store.give_up_stream(stream.run_id, stream.stream_id, reason)
            )
        )


def lives_here(stream: OpenStream) -> bool:
    """Tell whether a process of this machine may yet send the stream's events."""
    if stream.host != socket.gethostname():
        return False
    if stream.spool_directory:
        spool = Path(stream.spool_directory)
        return lock_holder(spool / "lock") is not None or running_worker(spool) is not None
    return stream.pid > 0 and start_time(stream.pid) is not None
