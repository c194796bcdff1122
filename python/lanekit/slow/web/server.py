"""The page's port: opened in the daemon's event loop when asked for, closed with the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from lanekit.errors import TelemetryError
from lanekit.slow.daemon.web_page import ConnectionLimits
from lanekit.slow.web.connections import Arrival, Connections, WebSocketProtocol

BACKLOG = 128
LONGEST_MESSAGE = 64 * 1024
"""Bytes of one message from a browser: it has little to say."""
PING_SECONDS = 20.0
"""A browser is asked for a sign of life this often, and has as long to give it."""
GOODBYE_SECONDS = 2
"""How long browsers get to answer that the websockets are closed."""


@dataclass(frozen=True)
class Certificate:
    """What TLS needs, as two PEM files."""

    chain: Path
    key: Path


class _Server(uvicorn.Server):
    """uvicorn inside somebody else's process: signals are the daemon's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class WebServer:
    """Serves an ASGI application at one address."""

    def __init__(
        self,
        app: Any,
        host: str,
        port: int,
        certificate: Certificate | None,
        limits: ConnectionLimits,
    ) -> None:
        self._place = (host, port)
        self._limits = limits
        self._scheme = "http" if certificate is None else "https"
        self._listener: asyncio.Server | None = None
        self._connections: Connections | None = None
        tls: dict[str, Any] = {}
        if certificate is not None:
            tls = {"ssl_certfile": certificate.chain, "ssl_keyfile": certificate.key}
        try:
            config = uvicorn.Config(
                app,
                http="h11",
                ws=WebSocketProtocol,
                ws_max_size=LONGEST_MESSAGE,
                ws_ping_interval=PING_SECONDS,
                ws_ping_timeout=PING_SECONDS,
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=GOODBYE_SECONDS,
                **tls,
            )
            config.load()
        except OSError as error:
            raise TelemetryError(
                f"the page's certificate or key can not be used: {error}"
            ) from error
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Listen, and return the page's address."""
        host, port = self._place
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            place = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise TelemetryError(
                f"the page can not be served at {host}:{port} ({error.strerror or error}): "
                "choose another port; `lanekit web --port 0` and `lanekit daemon --web 0` take any "
                "that is free"
            ) from error
        # uvicorn opens no port by itself: connections get to it when they have a place.
        self._serving = asyncio.create_task(self._server.serve([]))
        while not self._server.started:
            if self._serving.done():
                place.close()
                self._serving.result()
                raise TelemetryError("the page's server ended as soon as it was started")
            await asyncio.sleep(0.01)
        connections = self._connections = Connections(self._limits)
        config, state = self._server.config, self._server.server_state
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: Arrival(connections, config, state), sock=place, backlog=BACKLOG
        )
        shown = f"[{host}]" if ":" in host else host
        return f"{self._scheme}://{shown}:{place.getsockname()[1]}/"

    async def stop(self) -> None:
        """Close all connections, and the port. Harmless when repeated."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._connections is not None:
            self._connections.close()
            self._connections = None
        if self._serving is not None:
            self._server.should_exit = True
            await asyncio.wait({self._serving})
            self._serving = None
