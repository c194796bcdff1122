"""Frames out: the WatchFrames calls, and which lanes there are.

A client gives credit for as many responses as it has room for; each credit fetches the newest
frame at the moment it is used. So at most the credits given are on their way, in gRPC's buffers or
the network's, and none of them grows old there.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from lanekit.slow.daemon.access import words_for
from lanekit.slow.daemon.frames.tap import FrameTap, FrameWatch
from lanekit.slow.daemon.methods import Context, Method, Refusal, check_parsed, who_calls
from lanekit.slow.daemon.pulse import Pulse
from lanekit.slow.frame_messages import lane_message, read_wish, update_message
from lanekit.slow.limits import MAX_MESSAGE_BYTES
from lanekit.slow.proto import telemetry_pb2 as pb

MAX_CREDITS = 16
MAX_RUN_ID_BYTES = 4096


class Watching:
    """The rpcs about frames, over the daemon's tap."""

    def __init__(self, tap: FrameTap, pulse: Pulse) -> None:
        self._tap = tap
        self._pulse = pulse

    def methods(self) -> dict[str, Method]:
        """Return the rpcs by name."""
        return {"WatchFrames": self.watch, "ListLanes": self.lanes}

    async def lanes(self, request: Any, context: Context) -> pb.ListLanesResponse:
        """Return the lanes of a run, or all that are the caller's."""
        caller = who_calls(context)
        found = await self._tap.lanes(request.run_id)
        return pb.ListLanesResponse(
            lanes=[lane_message(info) for info in found if caller.may_touch(info.run_id)]
        )

    async def watch(self, _: object, context: Context) -> None:
        """Send a lane's newest frames as long as the caller wants them."""
        first = await self._pulse.unless_stopped(context.read())
        if first is None:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "the daemon is shutting down")
        if first is grpc.aio.EOF:
            return
        check_parsed(first)
        if not 0 < len(first.run_id.encode()) <= MAX_RUN_ID_BYTES:
            raise Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"the first request names the run, in at most {MAX_RUN_ID_BYTES} bytes",
            )
        try:
            rate, recipe = read_wish(first.wish)
            watch = self._tap.watch(first.run_id, first.lane, rate=rate, recipe=recipe)
        except ValueError as error:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from None
        with watch:
            try:
                await WatchCall(watch, context, first).run()
            except ValueError as error:  # the encoding has no room for such a frame
                raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from None
        if self._pulse.stopped:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "the daemon is shutting down")


class WatchCall:
    """One caller's watch: credits in, frames out."""

    def __init__(self, watch: FrameWatch, context: Context, first: Any) -> None:
        self._watch = watch
        self._context = context
        self._lane = (first.run_id, first.lane)
        self._credits = 0
        self._room = asyncio.Event()
        self._failure: Exception | None = None
        self._grant(first.credits)

    async def run(self) -> None:
        """Serve the call to its end."""
        reading = asyncio.create_task(self._read())
        try:
            while await self._has_room():
                async for update in self._watch:
                    message = update_message(update)
                    message.problem = words_for(who_calls(self._context), message.problem)
                    check_size(message)
                    self._credits -= 1
                    await self._context.write(message)
                    del message, update  # a frame is large, and the next wait may be long
                    break
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    async def _has_room(self) -> bool:
        """Wait until the caller can take a frame; False when the watch has ended."""
        while self._credits == 0 and not self._watch.ended:
            self._room.clear()
            await self._room.wait()
        return not self._watch.ended

    def _grant(self, credits: int) -> None:
        self._credits = min(MAX_CREDITS, self._credits + credits)
        if self._credits:
            self._room.set()

    async def _read(self) -> None:
        try:
            while (request := await self._context.read()) is not grpc.aio.EOF:
                check_parsed(request)
                self._take(request)
        except Exception as error:  # whatever it is: the call ends with it, and tells the caller
            self._failure = error
        self._watch.close()
        self._room.set()

    def _take(self, request: Any) -> None:
        if (request.run_id, request.lane) != self._lane:
            raise Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"this call watches run {self._lane[0]!r} lane {self._lane[1]!r}; "
                "another lane needs another call",
            )
        if request.HasField("wish"):
            try:
                rate, recipe = read_wish(request.wish)
                self._watch.change(rate=rate, recipe=recipe)
            except ValueError as error:
                raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from None
        self._grant(request.credits)


def check_size(message: pb.WatchFramesResponse) -> None:
    """Raise Refusal for a frame that no message can hold."""
    size = len(message.frame.data) + len(message.frame.metadata)
    if size > MAX_MESSAGE_BYTES:
        raise Refusal(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            f"a frame of {message.frame.width}x{message.frame.height} takes {size} bytes, and a "
            f"message {MAX_MESSAGE_BYTES}: ask for a smaller size, or for JPEG",
        )
