"""The client: calls and streams, from any number of threads, over one channel."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from types import EllipsisType, TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from lanekit._core import seconds_to_ns
from lanekit.command.channel import Channel
from lanekit.command.exchange import WAIT_SLICE, Exchange, Feed, Keep, late_reply
from lanekit.command.flatbuffer import Message
from lanekit.command.method import Method
from lanekit.command.methods import METHODS

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)

_DEFAULT_TIMEOUT = 10.0


@dataclass(frozen=True)
class CommandClientStats:
    """What a client has seen besides what it was asked for."""

    #: Answers that came after their call had been given up.
    late_replies: int
    #: Messages that were no messages, or answers to somebody else.
    discarded: int


class CommandClient:
    """Calls methods of the server at the other end.

    >>> from lanekit.command import Agent, CommandClient, ResetAgentRequest
    >>> client = CommandClient(channel)                                       # doctest: +SKIP
    >>> client.call(Agent.ResetAgent, ResetAgentRequest("agent_0"), timeout=2)  # doctest: +SKIP
    ResetAgentResponse(success=True, message='')

    Any number of threads may call, submit and stream at once. A thread of the client's own receives
    what comes. ``asyncio.wrap_future(client.submit(...))`` waits in an event loop.
    """

    def __init__(self, channel: Channel, *, timeout: float | None = _DEFAULT_TIMEOUT) -> None:
        """Use a channel; `timeout` is for calls that name none, None means without end."""
        self._timeout = _seconds(timeout)
        self._exchange = Exchange(channel)
        # The thread knows the exchange and not the client, so that a forgotten client goes.
        weakref.finalize(self, self._exchange.stop)

    @property
    def stats(self) -> CommandClientStats:
        """What came besides answers that were waited for."""
        return CommandClientStats(self._exchange.late, self._exchange.discarded)

    @overload
    def call(
        self, method: Method[Q, R], request: Q | None = None, timeout: float | None = ...
    ) -> R: ...
    @overload
    def call(
        self, method: str, request: Message | None = None, timeout: float | None = ...
    ) -> Any: ...
    def call(
        self,
        method: Method[Any, Any] | str,
        request: Message | None = None,
        timeout: float | None | EllipsisType = ...,
    ) -> Any:
        """Call a method and return its answer.

        `method` is one of the schema, such as ``Agent.ResetAgent``, or its name as a string.
        Without a `request` an empty one is sent. `timeout` is in seconds, None for one without end.

        Raises :class:`~lanekit.ReplyTimeout`, :class:`~lanekit.UnknownMethod`,
        :class:`~lanekit.RemoteError` with what the handler raised,
        :class:`~lanekit.MalformedMessage`, :class:`~lanekit.TooLarge`,
        :class:`~lanekit.PeerLost`.
        """
        timeout = self._timeout if isinstance(timeout, EllipsisType) else _seconds(timeout)
        found = _find(method)
        begun = time.monotonic()
        future: Future[Any] = self.submit(found, request, timeout=timeout)
        try:
            while not future.done():
                left = WAIT_SLICE if timeout is None else begun + timeout - time.monotonic()
                wait([future], max(0.0, min(left, WAIT_SLICE)))
                if left <= 0 and not future.done():
                    raise late_reply(found.name, timeout)
        except BaseException:  # Ctrl-C among them: nobody waits any more
            self._exchange.abandon(future)
            raise
        return future.result()

    @overload
    def submit(
        self, method: Method[Q, R], request: Q | None = None, timeout: float | None = ...
    ) -> Future[R]: ...
    @overload
    def submit(
        self, method: str, request: Message | None = None, timeout: float | None = ...
    ) -> Future[Any]: ...
    def submit(
        self,
        method: Method[Any, Any] | str,
        request: Message | None = None,
        timeout: float | None | EllipsisType = ...,
    ) -> Future[Any]:
        """Send a call and return a future of its answer, which ends by itself at the timeout."""
        timeout = self._timeout if isinstance(timeout, EllipsisType) else _seconds(timeout)
        found = _find(method)
        if found.streams:
            raise ValueError(f"{found.name} gives a stream: use stream()")
        return self._exchange.begin_call(found, _fill(found, request), timeout)

    @overload
    def stream(
        self,
        method: Method[Q, R],
        request: Q | None = None,
        *,
        keep: Keep = ...,
        buffer: int = ...,
        timeout: float | None = ...,
    ) -> CommandStream[R]: ...
    @overload
    def stream(
        self,
        method: str,
        request: Message | None = None,
        *,
        keep: Keep = ...,
        buffer: int = ...,
        timeout: float | None = ...,
    ) -> CommandStream[Any]: ...
    def stream(
        self,
        method: Method[Any, Any] | str,
        request: Message | None = None,
        *,
        keep: Keep = "newest",
        buffer: int = 16,
        timeout: float | None | EllipsisType = ...,
    ) -> CommandStream[Any]:
        """Ask for a stream and return it; iterate over it, and cancel it when done.

        At most `buffer` items wait here for whoever iterates. With ``keep="newest"`` the oldest of
        them go when more come, and the server leaves out what the lane has no room for:
        ``stream.dropped`` counts both. With ``keep="all"`` nothing is lost: the server waits until
        there is room.
        """
        timeout = self._timeout if isinstance(timeout, EllipsisType) else _seconds(timeout)
        found = _find(method)
        if not found.streams:
            raise ValueError(f"{found.name} gives one answer and no stream: use call()")
        if keep not in ("newest", "all"):
            raise ValueError(f"keep is 'newest' or 'all', not {keep!r}")
        if not 1 <= buffer <= 1_000_000:
            raise ValueError(f"buffer must be from 1 to 1000000 items, not {buffer}")
        feed = Feed(found, keep, buffer)
        self._exchange.begin_stream(feed, _fill(found, request), timeout)
        return CommandStream(self, self._exchange, feed)

    def close(self) -> None:
        """End all calls and streams with :class:`~lanekit.HandleClosed`; the channel stays."""
        self._exchange.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class CommandStream(Generic[R]):
    """The items of a stream, one after the other; ends when the server ends it.

    Used by one thread at a time. A context manager: leaving it cancels the stream.
    """

    def __init__(self, client: CommandClient, exchange: Exchange, feed: Feed) -> None:
        """Take over a stream that has begun; use :meth:`CommandClient.stream`."""
        self._client = client  # which would end with its last reference
        self._exchange = exchange
        self._feed = feed
        # Collection may come in the midst of anything: it takes no lock and sends nothing itself.
        self._finalizer = weakref.finalize(self, exchange.forgotten.append, feed)

    @property
    def dropped(self) -> int:
        """Items that never came to be iterated over.

        0 with ``keep="all"``, unless the server pushes faster than its items are taken.
        """
        return self._feed.dropped

    def next(self, timeout: float | None = None) -> R | None:
        """Return the next item, or None when the stream has ended.

        Raises :class:`~lanekit.WaitTimeout` when none came within `timeout` seconds; the stream
        goes on.
        """
        item: R | None = self._exchange.next_item(self._feed, _seconds(timeout))
        return item

    def cancel(self) -> None:
        """Tell the server that no more items are wanted. What has come already is dropped."""
        if self._finalizer.detach() is not None:
            self._exchange.cancel_stream(self._feed)

    def __iter__(self) -> Iterator[R]:
        while (item := self.next()) is not None:
            yield item

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()


def _seconds(timeout: float | None) -> float | None:
    """Return a timeout that is one: not below zero, None if it is without end."""
    limit = seconds_to_ns(timeout)
    return None if limit is None else limit / 1e9


def _find(method: Method[Any, Any] | str) -> Method[Any, Any]:
    if isinstance(method, Method):
        return method
    found = METHODS.get(method)
    if found is None:
        raise ValueError(
            f"no method {method!r} in the schema; for one of your own pass a Method, "
            f"those of the schema are {', '.join(METHODS)}"
        )
    return found


def _fill(method: Method[Any, Any], request: Message | None) -> Message:
    wanted: type[Message] = method.request
    if request is None:
        return wanted()
    if type(request) is not wanted:
        found = type(request).__name__
        raise TypeError(f"{method.name} takes a {wanted.__name__}, not {found}")
    return request
