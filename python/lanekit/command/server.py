"""The server: handlers that run where it is pumped, and streams."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from lanekit import errors
from lanekit._core import seconds_to_ns
from lanekit.command.channel import Channel
from lanekit.command.envelope import BadPayload, error_reply, pack, unpack
from lanekit.command.flatbuffer import Message
from lanekit.command.messages import Envelope, ErrorCode, Kind
from lanekit.command.method import Method
from lanekit.command.methods import METHODS

_logger = logging.getLogger(__name__)

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)

#: What answers a request: a message; for a stream an iterator of them, in which None means that
#: there is nothing new yet.
Handler = Callable[[Any], Any]


@dataclass
class CommandServerStats:
    """What a server has seen."""

    requests: int = 0
    #: Handlers that raised.
    failed: int = 0
    #: Requests that came too late, or that nobody handles, or that were malformed.
    refused: int = 0
    #: Messages that were none.
    discarded: int = 0
    #: Answers that could not be sent: nobody took them.
    lost_replies: int = 0


class _Stream:
    """A stream that a client has asked for."""

    def __init__(self, request: Envelope, method: Method[Any, Any]) -> None:
        self.request = request
        self.method = method
        self.items: Iterator[Any] | None = None  # None: fed by publish()
        self.lossless = request.credit > 0
        self.credit = request.credit
        self.skipped = 0
        self.waiting: Message | None = None  # made, but there was no room for it
        rate = getattr(request.payload, "target_fps", 0)
        self.interval = 1.0 / rate if rate else 0.0
        self.due = 0.0
        self.look_again = 0.0  # it was due, and there was nothing new yet

    @property
    def eager(self) -> bool:
        """Whether items are made while pump() waits; else one for each pump()."""
        # Without a rate, only a client that takes all can say when it is enough.
        return self.items is not None and (self.credit > 0 if self.lossless else self.interval > 0)

    def schedule(self, now: float) -> None:
        """Note that an item was made: when the next one is due."""
        # From when it was due, so that a stream keeps its rate; not from long ago.
        self.due = max(self.due + self.interval, now) if self.due else now + self.interval


class CommandServer:
    """Answers what clients call, in the thread that pumps it.

    >>> from lanekit.command import Agent, CommandServer, ResetAgentResponse
    >>> def reset(request):
    ...     return ResetAgentResponse(success=True)
    >>> server = CommandServer(channel, {Agent.ResetAgent: reset})            # doctest: +SKIP
    >>> server.pump()            # between two steps of the simulation          # doctest: +SKIP

    A handler takes the request and returns the answer; what it raises goes to the client. The
    handler of a stream is a generator: it is resumed when the next item is due, as often as the
    request's ``target_fps`` says, or else once by each :meth:`pump`, and as often as there is room
    for a client that takes all. For a stream without a handler of its own, see :meth:`publish`.
    """

    def __init__(
        self,
        channel: Channel,
        handlers: Mapping[Any, Handler] | None = None,
        *,
        reply_timeout: float = 1.0,
    ) -> None:
        """Serve a channel. `handlers` maps methods, or their names, to handlers.

        `reply_timeout` is how long an answer may wait for a client that takes nothing, before it is
        given up: the longest that a bad client can hold the pumping thread, per request.
        """
        seconds_to_ns(reply_timeout)
        self._channel = channel
        self._reply_timeout = reply_timeout
        self._handlers: dict[str, tuple[Method[Any, Any], Handler | None]] = {}
        self._streams: dict[int, _Stream] = {}
        self._session = 0
        self._pumping = threading.Lock()
        self._pumping_thread = 0
        self.stats = CommandServerStats()
        for method, handler in (handlers or {}).items():
            self.register(method, handler)

    # --- what is served ---------------------------------------------------------------------------

    def register(self, method: Method[Q, R] | str, handler: Callable[[Q], Any] | None) -> None:
        """Answer a method with a handler from now on.

        None, for a stream: its items come from :meth:`publish`.
        """
        found = METHODS.get(method) if isinstance(method, str) else method
        if found is None:
            raise ValueError(
                f"no method {method!r} in the schema; for one of your own pass a Method"
            )
        if handler is None and not found.streams:
            raise ValueError(f"{found.name} gives an answer: it needs a handler")
        if handler is not None and not callable(handler):
            raise TypeError(f"the handler of {found.name} is not callable")
        self._handlers[found.name] = (found, handler)

    def handles(self, method: Method[Q, R]) -> Callable[[Callable[[Q], Any]], Callable[[Q], Any]]:
        """Register the decorated function: ``@server.handles(Agent.ResetAgent)``."""

        def decorate(handler: Callable[[Q], Any]) -> Callable[[Q], Any]:
            self.register(method, handler)
            return handler

        return decorate

    @property
    def streams(self) -> int:
        """How many streams are open now."""
        return len(self._streams)

    def watched(self, method: Method[Any, Any]) -> bool:
        """Whether somebody streams this method: if not, its items need not be made."""
        return any(stream.method.name == method.name for stream in list(self._streams.values()))

    # --- pumping ----------------------------------------------------------------------------------

    def pump(self, max: int = 64, timeout: float | None = 0.0) -> int:
        """Handle what has come, and give open streams what is due. Return the requests handled.

        Handles up to `max` requests, after having waited up to `timeout` seconds for the first
        (None: without end). A client that dies is no error here: its streams end, and the next
        client is served.
        """
        if max < 1:
            raise ValueError(f"max must be 1 or more, not {max}")
        limit = seconds_to_ns(timeout)
        end = None if limit is None else time.monotonic() + limit / 1e9
        with _Turn(self):
            handled = 0
            self._advance_streams(eager_only=False)
            while True:
                self._advance_streams(eager_only=True)
                if not self._receive(0.0 if handled else self._patience(end)):
                    if handled or (end is not None and time.monotonic() >= end):
                        return handled
                    continue
                handled += 1
                if handled >= max:
                    return handled

    def publish(self, method: Method[Q, R], item: R) -> int:
        """Send an item to the open streams of a method that has no handler of its own.

        Goes to those whose ``target_fps`` lets it, and returns how many these were. What the lane
        has no room for is left out, and the client is told how much. A client that asked to keep
        all gets each item while it has credit; then items are left out too, since nothing here
        could wait.
        """
        if type(item) is not method.response:
            wanted = method.response.__name__
            raise TypeError(f"{method.name} streams {wanted}, not {type(item).__name__}")
        now = time.monotonic()
        sent = 0
        with _Turn(self):
            for stream in list(self._streams.values()):
                if stream.method.name != method.name or stream.items is not None:
                    continue
                if now < stream.due:
                    continue
                stream.schedule(now)
                if stream.lossless and stream.credit == 0:
                    stream.skipped += 1
                elif self._send_item(stream, item):
                    sent += 1
                else:
                    stream.skipped += 1
        return sent

    def _patience(self, end: float | None) -> float:
        """How long to wait for a request: until the time is over, or a stream is due."""
        now = time.monotonic()
        until = now + 0.5 if end is None else end
        for stream in self._streams.values():
            if stream.waiting is not None:
                until = min(until, now + _SOON)
            elif stream.eager:
                until = min(until, max(stream.due, stream.look_again))
        return max(0.0, until - now)

    def _receive(self, timeout: float) -> bool:
        """Take one message; False when there is none. True only for those that count."""
        while True:
            try:
                message = self._channel.receive(timeout)
            except errors.PeerLost:
                # Nothing to do for it any more. Whoever waits here waits for its successor.
                self._end_session(0)
                time.sleep(min(timeout, 0.05))
                return False
            if message is None:
                return False
            if self._take(message):
                return True
            timeout = 0.0

    def _take(self, message: bytes) -> bool:
        """Act on a message; whether it was a request."""
        problem = ""
        try:
            request = unpack(message)
        except BadPayload as error:
            request, problem = error.envelope, str(error)
        except errors.MalformedMessage as error:
            self.stats.discarded += 1
            _logger.warning("dropped a message that is none: %s", error)
            return False
        if request.session != self._session:
            self._end_session(request.session)
        if request.kind == Kind.REQUEST:
            self.stats.requests += 1
            self._answer(request, problem)
            return True
        stream = self._streams.get(request.correlation_id)
        if request.kind == Kind.CANCEL and stream is not None:
            self._close(stream)
        elif request.kind == Kind.CREDIT and stream is not None:
            stream.credit = min(stream.credit + request.credit, 2**31)
        elif request.kind not in (Kind.CANCEL, Kind.CREDIT):
            self.stats.discarded += 1
        return False

    def _answer(self, request: Envelope, problem: str) -> None:
        method, handler = self._handlers.get(request.method, (None, None))
        end = Kind.STREAM_END if method is not None and method.streams else Kind.RESPONSE
        if method is None:
            known = ", ".join(sorted(self._handlers)) or "none at all"
            text = f"nobody handles {request.method!r} here; handled are: {known}"
            self._refuse(request, end, ErrorCode.UNKNOWN_METHOD, text)
        elif problem or type(request.payload) is not method.request:
            found = type(request.payload).__name__
            text = problem or f"{method.name} takes a {method.request.__name__}, not a {found}"
            self._refuse(request, end, ErrorCode.MALFORMED_REQUEST, text)
        elif request.deadline_ns and time.monotonic_ns() > request.deadline_ns:
            text = "the server found the request after its deadline, and did not run it"
            self._refuse(request, end, ErrorCode.DEADLINE_PASSED, text)
        elif method.streams:
            self._open(_Stream(request, method), handler)
        else:
            assert handler is not None
            self._run(request, method, handler)

    def _refuse(self, request: Envelope, kind: Kind, code: ErrorCode, text: str) -> None:
        self.stats.refused += 1
        self._reply(error_reply(request, kind, code, "", text))

    def _run(self, request: Envelope, method: Method[Any, Any], handler: Handler) -> None:
        try:
            answer = handler(request.payload)
            _check_answer(method, answer)
        except BaseException as error:
            self.stats.failed += 1
            self._reply(_failure(request, Kind.RESPONSE, error))
            if not isinstance(error, Exception):
                raise
            return
        self._reply(
            Envelope(
                session=request.session,
                correlation_id=request.correlation_id,
                kind=Kind.RESPONSE,
                payload=answer,
            )
        )

    def _reply(self, reply: Envelope) -> None:
        try:
            message = pack(reply)
            if len(message) > self._channel.max_size:
                message = pack(_too_large(reply, len(message), self._channel.max_size))
            if not self._channel.send(message, self._reply_timeout):
                self.stats.lost_replies += 1
        except errors.PeerLost:
            self.stats.lost_replies += 1

    # --- streams ----------------------------------------------------------------------------------

    def _open(self, stream: _Stream, handler: Handler | None) -> None:
        request = stream.request
        if handler is not None:
            try:
                stream.items = iter(handler(request.payload))
            except BaseException as error:
                self.stats.failed += 1
                self._reply(_failure(request, Kind.STREAM_END, error))
                if not isinstance(error, Exception):
                    raise
                return
        self._streams[request.correlation_id] = stream

    def _advance_streams(self, *, eager_only: bool) -> None:
        for stream in list(self._streams.values()):
            if stream.waiting is not None:
                self._offer(stream, stream.waiting)
            elif stream.eager:
                if time.monotonic() >= max(stream.due, stream.look_again):
                    self._advance(stream)
            elif stream.items is not None and not stream.lossless and not eager_only:
                self._advance(stream)

    def _advance(self, stream: _Stream) -> None:
        assert stream.items is not None
        now = time.monotonic()
        try:
            item: Any = next(stream.items, _END)
            if item is not _END and item is not None:
                _check_answer(stream.method, item)
        except BaseException as error:
            self.stats.failed += 1
            self._drop(stream)
            self._reply(_failure(stream.request, Kind.STREAM_END, error))
            if not isinstance(error, Exception):
                raise
            return
        if item is _END:
            self._drop(stream)
            self._reply(_end_of(stream))
        elif item is not None:
            stream.schedule(now)
            self._offer(stream, item)
        else:
            stream.look_again = time.monotonic() + _SOON

    def _offer(self, stream: _Stream, item: Message) -> None:
        if self._send_item(stream, item):
            stream.waiting = None
        elif stream.lossless:
            stream.waiting = item
        else:
            stream.skipped += 1

    def _send_item(self, stream: _Stream, item: Message) -> bool:
        """Send an item if there is room for it now."""
        request = stream.request
        message = pack(
            Envelope(
                session=request.session,
                correlation_id=request.correlation_id,
                kind=Kind.STREAM_ITEM,
                skipped=min(stream.skipped, 2**32 - 1),
                payload=item,
            )
        )
        if len(message) > self._channel.max_size:
            self._close(stream)
            end = _end_of(stream)
            self._reply(_too_large(end, len(message), self._channel.max_size))
            return True  # it is dealt with
        try:
            if not self._channel.send(message, 0.0):
                return False
        except errors.PeerLost:
            self._end_session(0)
            return True
        stream.skipped = 0
        stream.credit -= stream.lossless
        return True

    def _drop(self, stream: _Stream) -> None:
        self._streams.pop(stream.request.correlation_id, None)

    def _close(self, stream: _Stream) -> None:
        """End a stream from outside of its generator, which may have something to put away."""
        self._drop(stream)
        close = getattr(stream.items, "close", None)
        if close is None:
            return
        try:
            close()
        except Exception:
            _logger.exception("%s: its handler failed while it was ended", stream.method.name)

    def _end_session(self, successor: int) -> None:
        """Forget a client that has gone."""
        self._session = successor
        for stream in list(self._streams.values()):
            self._close(stream)

    def close(self) -> None:
        """End all streams, and tell the client so."""
        with _Turn(self):
            for stream in list(self._streams.values()):
                self._close(stream)
                self._reply(_end_of(stream))


_END = object()
# When to look again for what did not come, or had no room.
_SOON = 0.001


class _Turn:
    """One thread at a time, and no handler that pumps."""

    def __init__(self, server: CommandServer) -> None:
        self._server = server

    def __enter__(self) -> None:
        server = self._server
        if not server._pumping.acquire(blocking=False):
            if server._pumping_thread == threading.get_ident():
                raise errors.OutOfTurn("a handler must not pump, publish or close its own server")
            raise errors.ConcurrentUse("another thread pumps this command server")
        server._pumping_thread = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._server._pumping_thread = 0
        self._server._pumping.release()


def _check_answer(method: Method[Any, Any], answer: object) -> None:
    if type(answer) is not method.response:
        wanted, found = method.response.__name__, type(answer).__name__
        raise TypeError(f"the handler of {method.name} gave a {found} instead of a {wanted}")


def _failure(request: Envelope, kind: Kind, error: BaseException) -> Envelope:
    name = type(error).__qualname__
    if type(error).__module__ != "builtins":
        name = f"{type(error).__module__}.{name}"
    return error_reply(request, kind, ErrorCode.HANDLER_FAILED, name, str(error))


def _end_of(stream: _Stream) -> Envelope:
    request = stream.request
    return Envelope(
        session=request.session, correlation_id=request.correlation_id, kind=Kind.STREAM_END
    )


def _too_large(reply: Envelope, size: int, limit: int) -> Envelope:
    text = (
        f"the answer has {size} bytes, and the lane carries {limit} at most; create the server "
        "with a larger command_ring, or ask for less"
    )
    return error_reply(reply, reply.kind, ErrorCode.TOO_LARGE, "", text)
