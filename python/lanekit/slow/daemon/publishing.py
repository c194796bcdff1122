"""Events in: batches from a sender's call to the store, acknowledgements back.

A call's reader takes a request only when the store's queue took the one before: gRPC's flow
control then holds the sender back, and a stalled disk fills no memory here. The writer thread
tells of its commits through one hand-over for all calls, and each call sends one acknowledgement
for all that was committed since its last one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias

import grpc

from lanekit.slow.batches import Batch, Kind, episodes_batch, events_batch, steps_batch
from lanekit.slow.daemon.methods import Context, Method, Refusal, check_parsed
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.db_sink import TelemetryDBSink

StreamKey: TypeAlias = tuple[str, str, Kind]


class Publishing:
    """All publish calls, and what they share: the sink, its commits, who publishes which stream."""

    def __init__(self, sink: TelemetryDBSink) -> None:
        self.sink = sink
        self.publishers: dict[StreamKey, PublishCall] = {}
        self._loop = asyncio.get_running_loop()
        self._calls: set[PublishCall] = set()
        self._settled: deque[tuple[PublishCall, Future[int]]] = deque()
        self._hand_over_due = False
        self._waiting_for_room: list[asyncio.Future[None]] = []
        self._unsubscribe = sink.on_space(self._space)

    def close(self) -> None:
        """Let go of the sink."""
        self._unsubscribe()

    def method(self, to_batch: Callable[[Any], Batch]) -> Method:
        """Return the rpc for one kind of event."""

        async def publish(_: object, context: Context) -> None:
            call = PublishCall(self, context, to_batch)
            self._calls.add(call)
            try:
                await call.run()
            finally:
                self._calls.discard(call)

        return publish

    def methods(self) -> dict[str, Method]:
        """Return the three publish rpcs by name."""
        return {
            "PublishRunSteps": self.method(steps_batch),
            "PublishRunEpisodes": self.method(episodes_batch),
            "PublishRunEvents": self.method(events_batch),
        }

    def publishes(self, run_id: str, stream_id: str) -> bool:
        """Tell whether a call of any kind publishes this stream now."""
        return any((run_id, stream_id, kind) in self.publishers for kind in Kind)

    def drain(self) -> None:
        """Read no further request; acknowledge what was read, then end each call."""
        for call in tuple(self._calls):
            call.end(Refusal(grpc.StatusCode.UNAVAILABLE, "the daemon is shutting down"))

    def cut(self) -> None:
        """End drained calls now: what the store has not taken by then stays unacknowledged."""
        for call in tuple(self._calls):
            call.cut()

    async def submit(self, batch: Batch) -> Future[int]:
        """Queue a batch for the store; wait, without reading on, while the queue is full."""
        while (future := self.sink.try_submit(batch)) is None:
            # No wake-up is lost: the sink's call arrives as a later callback of this same loop.
            room: asyncio.Future[None] = self._loop.create_future()
            self._waiting_for_room.append(room)
            await room
        return future

    def watch(self, call: PublishCall, future: Future[int]) -> None:
        """Tell the call, in the event loop, when its batch is committed or refused."""
        future.add_done_callback(partial(self._settle, call))

    def _settle(self, call: PublishCall, future: Future[int]) -> None:
        # In the writer thread. Waking the loop costs a system call: once for each group commit.
        self._settled.append((call, future))
        if not self._hand_over_due:
            self._hand_over_due = True
            self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._hand_over_due = False  # before emptying: what comes later schedules anew
        while self._settled:
            call, future = self._settled.popleft()
            call.settle(future)

    def _space(self) -> None:
        self._loop.call_soon_threadsafe(self._room_again)

    def _room_again(self) -> None:
        waiting, self._waiting_for_room = self._waiting_for_room, []
        for room in waiting:
            if not room.done():
                room.set_result(None)


class PublishCall:
    """One publish call."""

    def __init__(
        self, publishing: Publishing, context: Context, to_batch: Callable[[Any], Batch]
    ) -> None:
        self._publishing = publishing
        self._context = context
        self._to_batch = to_batch
        self._key: StreamKey | None = None
        self._pending = 0  # batches in the sink
        self._committed = 0
        self._news = asyncio.Event()
        self._unacknowledged = False
        self._cut = False
        self._refused: BaseException | None = None
        self._end: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def end(self, reason: Exception | None) -> None:
        """Stop reading, but commit and acknowledge what was read. The first reason counts."""
        if not self._end.done():
            self._end.set_result(reason)

    def cut(self) -> None:
        """Wait for the store no longer."""
        self._cut = True
        self._news.set()

    async def run(self) -> None:
        """Serve the call to its end."""
        reader = asyncio.create_task(self._read())
        acknowledger = asyncio.create_task(self._acknowledge())
        try:
            reason = await self._end
            reader.cancel()
            await acknowledger
        finally:
            reader.cancel()
            acknowledger.cancel()
            if self._key is not None and self._publishing.publishers.get(self._key) is self:
                del self._publishing.publishers[self._key]
        # A batch that was not stored matters more than why the reading ended.
        if (error := self._refused or reason) is not None:
            raise error

    async def _read(self) -> None:
        publishing = self._publishing
        try:
            while (request := await self._context.read()) is not grpc.aio.EOF:
                check_parsed(request)
                batch = self._to_batch(request)
                self._claim((batch.run_id, batch.stream_id, batch.kind))
                future = await publishing.submit(batch)
                self._pending += 1
                publishing.watch(self, future)
        except Exception as error:  # whatever it is: the call ends with it, and tells the sender
            self.end(error)
        else:
            self.end(None)

    def _claim(self, key: StreamKey) -> None:
        if key == self._key:
            return
        if self._key is not None:
            raise Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"one call publishes one stream: this one began with run {self._key[0]!r} stream "
                f"{self._key[1]!r}, and now names run {key[0]!r} stream {key[1]!r}",
            )
        self._key = key
        publishers = self._publishing.publishers
        if (older := publishers.get(key)) is not None:
            older.end(
                Refusal(
                    grpc.StatusCode.ABORTED,
                    f"another call publishes the {key[2]} of stream {key[1]!r} now",
                )
            )
        publishers[key] = self

    def settle(self, future: Future[int]) -> None:
        """Note that a batch was committed or refused."""
        self._pending -= 1
        error = future.exception()
        if error is None:
            self._committed = max(self._committed, future.result())
            self._unacknowledged = True
        elif self._refused is None:
            self._refused = error
            self.end(None)
        self._news.set()

    async def _acknowledge(self) -> None:
        """Acknowledge until the call ends and nothing is left in the sink, or until it is cut."""
        ended = asyncio.ensure_future(self._end)
        ended.add_done_callback(lambda _: self._news.set())
        while True:
            if self._unacknowledged:
                self._unacknowledged = False
                await self._context.write(pb.PublishAck(committed_seq=self._committed))
            elif self._end.done() and (self._pending == 0 or self._cut):
                return
            else:
                self._news.clear()
                await self._news.wait()
