"""The page's connections: how many there are, and how long one may keep its place doing nothing.

Anybody who can reach the port can open connections, so each has to be of use soon: TLS agreed
upon, a request complete, an answer read. One that takes too long is closed. When all places are
taken, a new connection gets the place of the one that has waited longest for its own browser;
those that are being answered, and websockets, keep theirs. If there are only such, the
new one is told to come back later (503).

One address has a part of the places. On loopback this does not count: behind a reverse proxy or
an SSH tunnel everybody comes from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import logging
import ssl
from collections import Counter
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from lanekit.slow.daemon.guesses import group_of
from lanekit.slow.daemon.listening import file_limit
from lanekit.slow.daemon.web_page import ConnectionLimits
from lanekit.slow.endpoint import is_loopback

logger = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 10.0
"""For TLS."""
HEADER_SECONDS = 10.0
"""From the connection, or the answer before, to the end of a request's headers."""
BODY_SECONDS = 30.0
"""From there to the end of its body."""
READING_SECONDS = 60.0
"""For a browser that does not read what it is sent, before it is cut off."""
CLOSING_SECONDS = 5.0
"""For a connection that was closed, and has something left to send."""
SWEEP_SECONDS = 0.5
MOST_REFUSALS = 32
"""Connections that are told to come back later, at the same time; others are cut off."""
RETRY_SECONDS = 5
MOST_FRAGMENTS = 256
"""Pieces of one websocket message."""

_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Phase(enum.Enum):
    """What a connection is doing, and whose turn it is."""

    HANDSHAKE = enum.auto()
    HEADERS = enum.auto()
    BODY = enum.auto()
    ANSWER = enum.auto()
    WEBSOCKET = enum.auto()


_PATIENCE = {
    Phase.HANDSHAKE: lambda: HANDSHAKE_SECONDS,
    Phase.HEADERS: lambda: HEADER_SECONDS,
    Phase.BODY: lambda: BODY_SECONDS,
}
"""Seconds that a phase may take in which the browser's turn it is."""


class Visitor:
    """One connection, from its first byte to its last."""

    def __init__(
        self, transport: asyncio.Transport, address: str, refused: bool, now: float
    ) -> None:
        self.transport = transport
        """What the bytes travel over; TLS is above."""
        self.address = address
        """Empty: not counted by address."""
        self.refused = refused
        """Whether it is only told that there is no room."""
        self.protocol: WebProtocol | None = None
        self.phase = Phase.HANDSHAKE
        self.since = now
        self.unread_since: float | None = None
        self.closed_since: float | None = None

    def enter(self, phase: Phase, now: float) -> None:
        """Begin a phase."""
        self.phase, self.since = phase, now

    @property
    def waits(self) -> bool:
        """Whether it is the browser's turn: nothing is lost if the connection is."""
        return self.phase in _PATIENCE


class Connections:
    """All connections of the page."""

    def __init__(self, limits: ConnectionLimits) -> None:
        # Leave files for the store, and for the workers' connections.
        self._most = min(limits.in_all, max(8, file_limit() // 4))
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._visitors: set[Visitor] = set()
        self._refused = 0
        self._by_address: Counter[str] = Counter()
        self._sweeping: asyncio.TimerHandle | None = None
        self._told = False

    def admit(self, transport: asyncio.Transport) -> Visitor | None:
        """Give a new connection a place. None: not even to tell it that there is none."""
        host = (transport.get_extra_info("peername") or ("",))[0]
        address = "" if is_loopback(host) else group_of(host)
        refused = not self._has_place(address)
        if refused:
            self._tell(address)
            if self._refused >= MOST_REFUSALS:
                return None
        visitor = Visitor(transport, address, refused, self._loop.time())
        self._visitors.add(visitor)
        self._count(visitor, 1)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        return visitor

    def leave(self, visitor: Visitor) -> None:
        """Take back a place. Harmless when repeated."""
        if visitor in self._visitors:
            self._visitors.remove(visitor)
            self._count(visitor, -1)

    def close(self) -> None:
        """End what is not in the care of a server yet."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for visitor in tuple(self._visitors):
            if visitor.protocol is None:
                visitor.transport.abort()

    def _has_place(self, address: str) -> bool:
        if address and self._by_address[address] >= self._limits.per_address:
            return False
        if len(self._visitors) - self._refused < self._most:
            return True
        waiting = [each for each in self._visitors if each.waits and not each.refused]
        if not waiting:
            return False
        slowest = min(waiting, key=lambda each: each.since)
        self.leave(slowest)
        slowest.transport.abort()
        return True

    def _count(self, visitor: Visitor, change: int) -> None:
        if visitor.refused:
            self._refused += change
        elif visitor.address:
            self._by_address[visitor.address] += change
            if not self._by_address[visitor.address]:
                del self._by_address[visitor.address]

    def _tell(self, address: str) -> None:
        if not self._told:
            self._told = True
            logger.warning(
                "the page turns connections away: %d in all and %d from one address are the most "
                "(--web-connections, --web-connections-per-address)%s",
                self._most,
                self._limits.per_address,
                f"; the first came from {address}" if address else "",
            )

    def _sweep(self) -> None:
        """Close what takes too long."""
        now = self._loop.time()
        for visitor in tuple(self._visitors):
            transport = visitor.transport
            if transport.is_closing() or (visitor.protocol and visitor.protocol.is_closing()):
                visitor.closed_since = visitor.closed_since or now
            limit = _PATIENCE.get(visitor.phase)
            if visitor.closed_since is not None:
                if now - visitor.closed_since > CLOSING_SECONDS:
                    transport.abort()
            elif visitor.unread_since is not None:
                if now - visitor.unread_since > READING_SECONDS:
                    transport.abort()
            elif limit is not None and now - visitor.since > limit():
                if visitor.protocol is None:
                    transport.abort()
                else:
                    visitor.protocol.time_out()
        self._sweeping = (
            self._loop.call_later(SWEEP_SECONDS, self._sweep) if self._visitors else None
        )


class Arrival(asyncio.Protocol):
    """A connection that was just made: gets a place, then TLS, then HTTP."""

    def __init__(self, connections: Connections, config: Config, state: ServerState) -> None:
        self._connections = connections
        self._config = config
        self._state = state
        self._securing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the connection a place, if there is one."""
        assert isinstance(transport, asyncio.Transport)
        visitor = self._connections.admit(transport)
        if visitor is None:
            transport.abort()
        elif self._config.ssl is None:
            http = WebProtocol(self._connections, visitor, self._config, self._state)
            transport.set_protocol(http)
            http.connection_made(transport)
        else:
            transport.pause_reading()
            securing = self._secure(visitor, transport, self._config.ssl)
            self._securing = asyncio.get_running_loop().create_task(securing)

    async def _secure(
        self, visitor: Visitor, transport: asyncio.Transport, context: ssl.SSLContext
    ) -> None:
        early = EarlyBytes()
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport,
                early,
                context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=CLOSING_SECONDS,
            )
        except (OSError, ssl.CertificateError):  # no TLS, or none in time, or gone
            secured = None
        if secured is None:
            transport.abort()
            self._connections.leave(visitor)
            return
        http = WebProtocol(self._connections, visitor, self._config, self._state)
        http.connection_made(secured)
        early.pass_on(http)
        secured.set_protocol(http)


class EarlyBytes(asyncio.Protocol):
    """Keeps what comes between the end of a TLS handshake and the protocol that is to have it."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._lost: tuple[Exception | None] | None = None

    def data_received(self, data: bytes) -> None:
        """Keep some bytes. TLS reads no more than a few records at once."""
        self._data.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Keep that it is over."""
        self._lost = (exc,)

    def pass_on(self, protocol: asyncio.Protocol) -> None:
        """Tell the protocol all of it."""
        for data in self._data:
            protocol.data_received(data)
        if self._lost is not None:
            protocol.connection_lost(*self._lost)


class WebProtocol(H11Protocol):
    """uvicorn's HTTP, which knows whose turn it is."""

    def __init__(
        self, connections: Connections, visitor: Visitor, config: Config, state: ServerState
    ) -> None:
        super().__init__(config, state, {})
        self._places = connections
        self.visitor = visitor
        visitor.protocol = self
        if visitor.refused:
            self.app = come_back_later

    def is_closing(self) -> bool:
        """Whether the connection was closed from here."""
        return self.transport is not None and self.transport.is_closing()

    def time_out(self) -> None:
        """End a connection whose browser takes too long."""
        if self.cycle is None or not self.cycle.response_started:
            self.transport.write(_TIMED_OUT)
        self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.visitor.enter(Phase.HEADERS, self.loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._places.leave(self.visitor)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, and see whose turn it is then."""
        if not self.transport.is_closing():
            super().data_received(data)
            self._note_phase()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.visitor.enter(Phase.HEADERS, self.loop.time())
        super().on_response_complete()
        self._note_phase()

    def _note_phase(self) -> None:
        if self.visitor.phase is Phase.WEBSOCKET:
            return
        theirs = self.conn.their_state
        if theirs is h11.IDLE:
            phase = Phase.HEADERS
        elif theirs is h11.SEND_BODY:
            phase = Phase.BODY
        else:
            phase = Phase.ANSWER
        if phase is not self.visitor.phase:
            self.visitor.enter(phase, self.loop.time())

    def _should_upgrade(self) -> bool:
        return not self.visitor.refused and super()._should_upgrade()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Hand the place over to the websocket."""
        self.visitor.enter(Phase.WEBSOCKET, self.loop.time())
        super().handle_websocket_upgrade(event)
        protocol = self.transport.get_protocol()
        assert isinstance(protocol, WebSocketProtocol)
        protocol.take_place(self._places, self.visitor)

    def pause_writing(self) -> None:
        """Note that the browser does not read."""
        self.visitor.unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that it does again."""
        self.visitor.unread_since = None
        super().resume_writing()


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's websocket, which gives its place back."""

    _places: Connections | None = None
    _visitor: Visitor | None = None

    def take_place(self, places: Connections, visitor: Visitor) -> None:
        """Have the place that the HTTP request had."""
        self._places, self._visitor = places, visitor

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        if self._places is not None and self._visitor is not None:
            self._places.leave(self._visitor)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Note that the browser does not read."""
        if self._visitor is not None:
            self._visitor.unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that it does again."""
        if self._visitor is not None:
            self._visitor.unread_since = None
        super().resume_writing()

    def handle_cont(self, event: Any) -> None:
        """Take a piece of a message; endlessly many empty ones would be endless too."""
        if len(self.frames) >= MOST_FRAGMENTS:
            with contextlib.suppress(Exception):
                self.conn.send_close(1009, "a message in too many pieces")
            self.handle_parser_exception()
            return
        super().handle_cont(event)


async def come_back_later(scope: Any, receive: Any, send: Any) -> None:
    """Answer whatever is asked: there is no room now."""
    words = "the page has as many connections as it may have: try again in a few seconds"
    body = json.dumps({"problem": words}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", str(RETRY_SECONDS).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
