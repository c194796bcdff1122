"""Workers' calls: announcing a stream, the heartbeat, and the commands that travel back over it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from concurrent.futures import Future
from typing import Any

import grpc

from lanekit import errors
from lanekit.slow.batches import check_run_id, check_stream_id, check_worker_id
from lanekit.slow.daemon.methods import Context, Method, Refusal, check_parsed
from lanekit.slow.daemon.pulse import Pulse
from lanekit.slow.daemon.run_states import ended, state_word
from lanekit.slow.limits import MAX_MESSAGE_BYTES, MAX_RECEIVED_BYTES
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.run_bus import BusEvent, RunBus, Topic
from lanekit.slow.store.db_sink import TelemetryDBSink
from lanekit.slow.store.life_cycle import is_daemon_stream

MAX_INTEGER = 2**63 - 1
"""The largest number that a database takes."""
RETRY = 0.5
"""Seconds between two attempts to store what must not be lost."""
MAX_TEXT_BYTES = 4096
"""Of a host or a path that a worker names."""


class Workers:
    """The streams there are, and the heartbeats held open."""

    def __init__(self, sink: TelemetryDBSink, bus: RunBus, pulse: Pulse) -> None:
        self._sink = sink
        self._bus = bus
        self._pulse = pulse
        self._heartbeats: defaultdict[str, dict[str, HeartbeatCall]] = defaultdict(dict)

    def methods(self) -> dict[str, Method]:
        """Return the rpcs by name."""
        return {
            "RegisterWorker": self.register,
            "Heartbeat": self.heartbeat,
            "ControlRun": self.control,
        }

    async def register(self, request: Any, _: Context) -> pb.RegisterWorkerResponse:
        """Make a stream known and say what is committed of it."""
        run_id, stream_id = check_run_id(request.run_id), check_stream_id(request.stream_id)
        for name in (stream_id, request.continues.stream_id):
            if is_daemon_stream(name):
                raise Refusal(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"stream id {name!r} is a daemon's own; choose another",
                )
        check_worker_id(request.worker_id)
        for other in (request.journal_id, request.continues.stream_id):
            if other:
                check_stream_id(other)
        for name in ("host", "spool_directory"):
            text = getattr(request, name)
            if len(text.encode()) > MAX_TEXT_BYTES or "\0" in text:
                raise Refusal(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"{name} takes at most {MAX_TEXT_BYTES} bytes, and no NUL",
                )
        committed = await asyncio.wrap_future(
            self._sink.call(
                lambda store: store.register_stream(
                    run_id,
                    stream_id,
                    worker_id=request.worker_id,
                    pid=request.pid,
                    host=request.host,
                    spool_directory=request.spool_directory,
                    require_run=request.require_run,
                    journal_id=request.journal_id,
                    continues=request.continues if request.HasField("continues") else None,
                )
            )
        )
        return pb.RegisterWorkerResponse(
            continued=committed.continued,
            notice=committed.notice,
            committed_steps=committed.steps,
            committed_episodes=committed.episodes,
            committed_events=committed.events,
            max_message_bytes=MAX_RECEIVED_BYTES,
            max_request_bytes=MAX_MESSAGE_BYTES,
        )

    def connected(self, run_id: str, stream_id: str) -> bool:
        """Tell whether a stream's heartbeat is held open."""
        return stream_id in self._heartbeats.get(run_id, ())

    async def control(self, request: Any, _: Context) -> pb.ControlRunResponse:
        """Record a command and tell the run's heartbeats."""
        run_id = check_run_id(request.run_id)
        if request.action not in pb.ControlAction.values() or not request.action:
            raise Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"a command is pause (1), resume (2) or stop (3); got {request.action}",
            )
        run = await asyncio.wrap_future(self._sink.call(lambda store: store.run(run_id)))
        # A cancelled run's workers are being ended; of another one that has ended some may be left.
        left = bool(self._heartbeats.get(run_id)) and run.state != pb.RUN_STATE_CANCELLED
        if ended(run) and not left:
            raise Refusal(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"run {run_id!r} has ended ({state_word(run)}): nobody is left to obey",
            )
        command_id = await self.command(run_id, request.action)
        return pb.ControlRunResponse(
            command_id=command_id, connected_workers=len(self._heartbeats.get(run_id, ()))
        )

    async def command(self, run_id: str, action: pb.ControlAction.ValueType) -> int:
        """Record a command for all workers of a run, and return its number."""
        command_id = await asyncio.wrap_future(
            self._sink.call(lambda store: store.add_command(run_id, action))
        )
        command = pb.ControlCommand(command_id=command_id, action=action)
        self._bus.publish(Topic.CONTROL, BusEvent(Topic.CONTROL, run_id, payload=command))
        return int(command_id)

    async def heartbeat(self, _: object, context: Context) -> None:
        """Hold a worker's heartbeat."""
        request = await self._pulse.unless_stopped(context.read())
        if request is None:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "the daemon is shutting down")
        if request is grpc.aio.EOF:
            return
        check_parsed(request)
        run_id, stream_id = check_run_id(request.run_id), check_stream_id(request.stream_id)
        call = HeartbeatCall(self._sink, context, request)
        calls = self._heartbeats[run_id]
        if (older := calls.get(stream_id)) is not None:
            older.end(
                Refusal(grpc.StatusCode.ABORTED, f"stream {stream_id!r} has a newer heartbeat")
            )
        calls[stream_id] = call
        try:
            await call.run(self._pulse)
        finally:
            if calls.get(stream_id) is call:
                del calls[stream_id]
            if not calls:
                self._heartbeats.pop(run_id, None)


class HeartbeatCall:
    """One worker's heartbeat: its signs of life in, commands out, each once and in order."""

    def __init__(self, sink: TelemetryDBSink, context: Context, first: Any) -> None:
        self._sink = sink
        self._context = context
        self._run_id: str = first.run_id
        self._stream_id: str = first.stream_id
        self._sent: int = min(first.delivered_command_id, MAX_INTEGER)
        self._first = first
        self._end: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._writing = asyncio.Lock()

    def end(self, reason: Exception | None) -> None:
        """End the call. The first reason counts."""
        if not self._end.done():
            self._end.set_result(reason)

    async def run(self, pulse: Pulse) -> None:
        """Serve the call to its end."""
        await asyncio.wrap_future(self._touch(self._first))  # an unknown stream is NOT_FOUND
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._deliver(pulse))]
        try:
            reason = await self._end
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if reason is not None:
            raise reason

    async def _read(self) -> None:
        try:
            await self._write(pb.HeartbeatResponse())
            touched, noted = self._touch(self._first), self._first.rejected_lines
            while (request := await self._context.read()) is not grpc.aio.EOF:
                check_parsed(request)
                if (request.run_id, request.stream_id) != (self._run_id, self._stream_id):
                    raise Refusal(
                        grpc.StatusCode.INVALID_ARGUMENT,
                        f"this heartbeat is of run {self._run_id!r} stream {self._stream_id!r}; "
                        f"got run {request.run_id!r} stream {request.stream_id!r}",
                    )
                if request.rejected_lines != noted:
                    # Before the answer: this may be the last beat, and its count is to stay.
                    await self._note(request)
                    noted = request.rejected_lines
                elif touched.done():  # else the store is stalled: one more of the same is no use
                    touched = self._touch(request)
                await self._write(pb.HeartbeatResponse())
        except Exception as error:  # whatever it is: the call ends with it, and tells the worker
            self.end(error)
        else:
            self.end(None)

    async def _deliver(self, pulse: Pulse) -> None:
        try:
            with pulse.listen(Topic.CONTROL, self._run_id) as news:
                while not pulse.stopped:
                    news.forget()
                    commands = await asyncio.wrap_future(
                        self._sink.call(lambda store: store.commands(self._run_id, self._sent))
                    )
                    for command in commands:
                        await self._write(pb.HeartbeatResponse(command=command))
                        self._sent = command.command_id
                    await news.wait()
            self.end(Refusal(grpc.StatusCode.UNAVAILABLE, "the daemon is shutting down"))
        except Exception as error:  # as in _read: nobody awaits this task to hear of it
            self.end(error)

    async def _write(self, response: pb.HeartbeatResponse) -> None:
        async with self._writing:  # gRPC takes one message at a time
            await self._context.write(response)

    async def _note(self, request: Any) -> None:
        """Store what a beat says, however long the store can not be written."""
        while True:
            try:
                return await asyncio.wrap_future(self._touch(request))
            except errors.StoreError:
                await asyncio.sleep(RETRY)

    def _touch(self, request: Any) -> Future[None]:
        rejected = min(request.rejected_lines, MAX_INTEGER)
        return self._sink.call(
            lambda store: store.touch_stream(
                self._run_id, self._stream_id, last_seen_ns=time.time_ns(), rejected=rejected
            )
        )
