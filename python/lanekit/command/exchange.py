"""All requests of one client under way, and the thread that receives their answers."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Literal, Protocol

from lanekit import errors
from lanekit.command.channel import Channel
from lanekit.command.envelope import BadPayload, error_of, pack, unpack
from lanekit.command.flatbuffer import Message
from lanekit.command.messages import Envelope, Kind
from lanekit.command.method import Method

_logger = logging.getLogger(__name__)

Keep = Literal["newest", "all"]

WAIT_SLICE = 0.1
"""Seconds that a caller waits at once. A signal that comes just before a wait does not end it, so
that Ctrl-C is only sure to be seen between two."""

# How long the receiving thread waits at once: deadlines are looked at, and closing is noticed, as
# often as that.
_TURN = 0.05
# A server that died stays dead until somebody starts another: no need to ask at full speed.
_LOST_PAUSE = 0.2
# Small messages about a stream wait this long for room before the stream is given up.
_TELL_TIMEOUT = 10.0


def late_reply(method: str, timeout: float | None) -> errors.ReplyTimeout:
    """Return the error of a call whose answer did not come."""
    return errors.ReplyTimeout(
        f"{method}: no answer within {timeout:g} s; is the server pumping? A request that it has "
        "not begun by now will not be run"
    )


class _Pending(Protocol):
    """A request that something is still to come for."""

    method: Method[Any, Any]
    deadline: float | None

    def take(self, reply: Envelope) -> bool:
        """Take a message that belongs to it; True when it was the last."""
        ...

    def fail(self, error: Exception) -> None:
        """End it with an error."""
        ...


class _Call:
    """A call whose answer has not come."""

    def __init__(self, method: Method[Any, Any], timeout: float | None) -> None:
        self.method = method
        self.timeout = timeout
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.future: Future[Any] = Future()

    def take(self, reply: Envelope) -> bool:
        error = error_of(reply, self.method.name)
        if error is None:
            error = _check_payload(self.method, reply)
        if error is not None:
            self.fail(error)
            return True
        with suppress(InvalidStateError):  # cancelled meanwhile
            self.future.set_result(reply.payload)
        return True

    def fail(self, error: Exception) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)


class Feed:
    """A stream's items between the receiving thread and whoever iterates."""

    deadline: float | None = None  # a stream has none

    def __init__(self, method: Method[Any, Any], keep: Keep, size: int) -> None:
        self.method = method
        self.keep = keep
        self.size = size
        self.correlation_id = 0
        self.items: deque[Message] = deque()
        self.taken = 0  # since credit was last given back
        self.dropped = 0
        self.ended = False
        self.error: Exception | None = None
        self.forgotten = False  # nobody holds the stream, and the server is yet to be told
        self.changed = threading.Condition()

    def take(self, reply: Envelope) -> bool:
        """Take an item, or the stream's end."""
        error = error_of(reply, self.method.name)
        last = reply.kind == Kind.STREAM_END
        if error is None and not last:
            error = _check_payload(self.method, reply)
        with self.changed:
            if error is None and not last:
                assert reply.payload is not None
                if len(self.items) >= self.size:
                    self.items.popleft()  # with keep="all" the credit keeps this from happening
                    self.dropped += 1
                self.items.append(reply.payload)
                self.dropped += reply.skipped
            else:
                self.ended = True
                self.error = error
            self.changed.notify_all()
        return last or error is not None

    def fail(self, error: Exception) -> None:
        """End the stream with an error, behind the items that have come."""
        with self.changed:
            if not self.ended:
                self.ended = True
                self.error = error
                self.changed.notify_all()


def _check_payload(method: Method[Any, Any], reply: Envelope) -> errors.MalformedMessage | None:
    if type(reply.payload) is method.response:
        return None
    found = "nothing" if reply.payload is None else f"a {type(reply.payload).__name__}"
    return errors.MalformedMessage(
        f"{method.name}: the server answered with {found} instead of a {method.response.__name__}"
    )


class Exchange:
    """All requests under way, and the thread that receives their answers."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._session = secrets.randbits(64) | 1
        self._next_id = 0
        self._pending: dict[int, _Pending] = {}
        self._numbers: dict[Future[Any], int] = {}
        self._given_up: deque[int] = deque(maxlen=4096)
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._broken: Exception | None = None
        self._look_at = 0.0  # when to look for calls whose time is over
        self.forgotten: deque[Feed] = deque()
        self.late = 0
        self.discarded = 0

    # --- from the callers' threads ----------------------------------------------------------------

    def begin_call(
        self, method: Method[Any, Any], request: Message, timeout: float | None
    ) -> Future[Any]:
        """Send a request and return the future of its answer."""
        call = _Call(method, timeout)
        number = self._begin(call)
        with self._lock:
            self._numbers[call.future] = number
        # A future that is cancelled, or ended in any other way, has nothing pending any more.
        call.future.add_done_callback(self._forget)
        deadline = None if timeout is None else time.monotonic_ns() + int(timeout * 1e9)
        envelope = Envelope(
            session=self._session,
            correlation_id=number,
            method=method.name,
            deadline_ns=deadline or 0,
            payload=request,
        )
        try:
            self._send(envelope, method.name, timeout)
        except BaseException:
            self.abandon(call.future)
            raise
        return call.future

    def begin_stream(self, feed: Feed, request: Message, timeout: float | None) -> None:
        """Send the request for a stream; its items go to the feed."""
        feed.correlation_id = self._begin(feed)
        envelope = Envelope(
            session=self._session,
            correlation_id=feed.correlation_id,
            method=feed.method.name,
            credit=feed.size if feed.keep == "all" else 0,
            payload=request,
        )
        try:
            self._send(envelope, feed.method.name, timeout)
        except BaseException:
            with self._lock:
                self._pending.pop(feed.correlation_id, None)
            raise

    def _begin(self, pending: _Pending) -> int:
        with self._lock:
            if self._stopped:
                raise errors.HandleClosed("this command client was closed")
            if self._broken is not None:
                raise self._broken
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._receive_all, name="lanekit-commands", daemon=True
                )
                self._thread.start()
            self._next_id += 1
            self._pending[self._next_id] = pending
            return self._next_id

    def _send(self, envelope: Envelope, what: str, timeout: float | None) -> None:
        message = pack(envelope)
        begun = time.monotonic()
        if not self._sending.acquire(timeout=-1 if timeout is None else timeout):
            raise _full(what, timeout)
        try:
            left = None if timeout is None else begun + timeout - time.monotonic()
            if not self._channel.send(message, left):
                raise _full(what, timeout)
        except errors.TooLarge as error:
            raise errors.TooLarge(f"{what}: {error}") from None
        finally:
            self._sending.release()

    def _forget(self, future: Future[Any]) -> None:
        with self._lock:
            number = self._numbers.pop(future, None)
            if number is not None and self._pending.pop(number, None) is not None:
                self._given_up.append(number)

    def abandon(self, future: Future[Any]) -> None:
        """Wait for this answer no more."""
        self._forget(future)
        future.cancel()

    def next_item(self, feed: Feed, timeout: float | None) -> Any:
        """Return a feed's next item, None at its end, and give credit back."""
        begun = time.monotonic()
        with feed.changed:
            while not feed.items and not feed.ended:
                left = WAIT_SLICE if timeout is None else begun + timeout - time.monotonic()
                if left <= 0:
                    raise errors.WaitTimeout(f"{feed.method.name}: no item within {timeout:g} s")
                feed.changed.wait(min(left, WAIT_SLICE))
            if not feed.items:
                if feed.error is not None:
                    raise feed.error
                return None
            item = feed.items.popleft()
            feed.taken += 1
            # Half a window at once: one small message for many items.
            credit = feed.taken if feed.keep == "all" and 2 * feed.taken >= feed.size else 0
            feed.taken -= credit
        if credit and not feed.ended:
            try:
                self._tell(feed, Kind.CREDIT, credit, timeout=_TELL_TIMEOUT)
            except errors.LanekitError as error:
                feed.fail(error)  # it can not go on: told after the items that have come
        return item

    def cancel_stream(self, feed: Feed) -> None:
        """End a feed, and tell the server."""
        if self._end_feed(feed):
            with suppress(errors.LanekitError):  # a server that can not be told has nothing to end
                self._tell(feed, Kind.CANCEL, timeout=_TELL_TIMEOUT)

    def _end_feed(self, feed: Feed) -> bool:
        """End a feed at this end; whether the server is still to be told."""
        with feed.changed:
            feed.items.clear()
            under_way, feed.ended = not feed.ended, True
            feed.changed.notify_all()
        with self._lock:
            if self._pending.pop(feed.correlation_id, None) is not None:
                self._given_up.append(feed.correlation_id)
        return under_way and not self._stopped

    def _tell(self, feed: Feed, kind: Kind, credit: int = 0, *, timeout: float) -> None:
        envelope = Envelope(
            session=self._session, correlation_id=feed.correlation_id, kind=kind, credit=credit
        )
        self._send(envelope, feed.method.name, timeout)

    def stop(self) -> None:
        """Let the thread end, soon."""
        self._stopped = True

    def close(self) -> None:
        """End the thread and everything that is pending."""
        self._stopped = True
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._fail_all(_closed)

    # --- in the receiving thread ------------------------------------------------------------------

    def _receive_all(self) -> None:
        lost_until = 0.0
        while not self._stopped:
            self._cancel_forgotten()
            self._expire()
            if time.monotonic() < lost_until:
                time.sleep(_TURN)
                continue
            try:
                message = self._channel.receive(_TURN)
            except errors.PeerLost as error:
                self._fail_all(_lost(str(error)))
                lost_until = time.monotonic() + _LOST_PAUSE
            except Exception as error:
                with self._lock:
                    self._broken = error
                self._fail_all(lambda _: self._broken)
                return
            else:
                if message is not None:
                    self._take(message)
        self._fail_all(_closed)

    def _cancel_forgotten(self) -> None:
        """Cancel streams that nobody holds any more; without waiting, since answers wait here."""
        while self.forgotten:
            feed = self.forgotten.popleft()
            feed.forgotten = feed.forgotten or self._end_feed(feed)
            if not feed.forgotten:
                continue
            try:
                self._tell(feed, Kind.CANCEL, timeout=0.0)
            except errors.ReplyTimeout:
                self.forgotten.appendleft(feed)  # there is no room: next time
                return
            except errors.LanekitError:
                pass

    def _take(self, message: bytes) -> None:
        problem: Exception | None = None
        try:
            reply = unpack(message)
        except BadPayload as error:
            reply, problem = error.envelope, error
        except errors.MalformedMessage as error:
            self.discarded += 1
            _logger.warning("dropped a message that is none: %s", error)
            return
        number = reply.correlation_id
        with self._lock:
            pending = self._pending.get(number)
            if reply.session != self._session or pending is None:
                if reply.session == self._session and number in self._given_up:
                    self.late += 1
                else:
                    self.discarded += 1
                return
            if isinstance(pending, _Call) or problem is not None:
                del self._pending[number]
        if problem is not None:
            pending.fail(errors.MalformedMessage(f"{pending.method.name}: {problem}"))
        elif pending.take(reply):
            with self._lock:
                self._pending.pop(number, None)

    def _expire(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _TURN
        with self._lock:
            due = [
                (number, pending)
                for number, pending in self._pending.items()
                if pending.deadline is not None and pending.deadline <= now
            ]
            for number, _ in due:
                del self._pending[number]
                self._given_up.append(number)
        for _, pending in due:
            assert isinstance(pending, _Call)
            pending.fail(late_reply(pending.method.name, pending.timeout))

    def _fail_all(self, make: Callable[[str], Exception | None]) -> None:
        with self._lock:
            pending = list(self._pending.values())
            self._pending.clear()
        for one in pending:
            error = make(one.method.name)
            assert error is not None
            one.fail(error)


def _closed(what: str) -> errors.HandleClosed:
    return errors.HandleClosed(f"{what}: the command client was closed")


def _lost(text: str) -> Callable[[str], errors.PeerLost]:
    return lambda what: errors.PeerLost(f"{what}: {text}")


def _full(what: str, timeout: float | None) -> errors.ReplyTimeout:
    return errors.ReplyTimeout(
        f"{what}: could not be sent within {timeout:g} s, the lane is full; is the server pumping?"
    )
