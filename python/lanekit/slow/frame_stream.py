"""A client's side of WatchFrames: the newest frames of a lane on the daemon's machine."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NoReturn, Self

import grpc

from lanekit.slow.frame_messages import read_update, wish_message
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.watched_frames import FrameUpdate, Recipe

WINDOW = 2
"""Frames under way at a time: while one is looked at, the next one travels."""


class FrameStream:
    """One call of WatchFrames; iterate over it for :class:`FrameUpdate`.

    The daemon sends what is newest when there is room for it here, and there is room again each
    time the next update is asked for. So whoever is slow to ask misses frames, and the one it gets
    is at most :data:`WINDOW` frames' travelling time old. Close it, or use it in a ``with`` block.
    """

    def __init__(
        self,
        method: Any,
        metadata: Any,
        run_id: str,
        lane: str,
        rate: float,
        recipe: Recipe,
        fail: Callable[[Any], NoReturn],
    ) -> None:
        self._run_id, self._lane = run_id, lane
        self._fail = fail
        self._requests: queue.SimpleQueue[pb.WatchFramesRequest | None] = queue.SimpleQueue()
        self._request(WINDOW, wish_message(rate, recipe))
        self._owed = WINDOW
        self._closed = False
        # Waits for the daemon's first connection as long as the channel tries it.
        self._call = method(iter(self._requests.get, None), metadata=metadata)

    def change(self, *, rate: float, recipe: Recipe) -> None:
        """Ask for something else from the next frame on."""
        self._request(0, wish_message(rate, recipe))

    def __iter__(self) -> Iterator[FrameUpdate]:
        return self

    def __next__(self) -> FrameUpdate:
        """Wait for news; DaemonError or a kind of it when the call ends."""
        if self._owed < WINDOW:
            self._request(WINDOW - self._owed)
            self._owed = WINDOW
        try:
            message: pb.WatchFramesResponse = next(self._call)
        except grpc.RpcError as error:
            if self._closed:
                raise StopIteration from None
            self._fail(error)
        self._owed -= 1
        return read_update(message)

    def close(self) -> None:
        """End the call; from another thread, too. May be called twice."""
        self._closed = True
        self._requests.put(None)
        self._call.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _request(self, credits: int, wish: pb.FrameWish | None = None) -> None:
        self._requests.put(
            pb.WatchFramesRequest(run_id=self._run_id, lane=self._lane, credits=credits, wish=wish)
        )
