"""The browser's page as a part of the daemon: no port is open until somebody asks for the page."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from lanekit.errors import MissingExtra, TelemetryError
from lanekit.slow.daemon.access import Tokens
from lanekit.slow.daemon.frames.tap import FrameTap
from lanekit.slow.daemon.methods import Context, Method, Refusal
from lanekit.slow.daemon.pulse import Pulse
from lanekit.slow.daemon.runs import Runs
from lanekit.slow.daemon.security import CallGate, check_web
from lanekit.slow.daemon.workers import Workers
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.run_store import RunStore

if TYPE_CHECKING:
    from lanekit.slow.web.app import WebApp
    from lanekit.slow.web.server import WebServer


@dataclass(frozen=True)
class DaemonParts:
    """What of the daemon the page uses: the same parts that serve gRPC."""

    store: RunStore
    pulse: Pulse
    runs: Runs
    workers: Workers
    tap: FrameTap


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections the page has at once: --web-connections, and of one address."""

    in_all: int = 512
    per_address: int = 128

    def __post_init__(self) -> None:
        for name in ("in_all", "per_address"):
            if getattr(self, name) < 8:
                raise ValueError(
                    f"a browser alone takes 8 connections; got a limit of {getattr(self, name)}"
                )


@dataclass(frozen=True)
class WebSettings:
    """What the daemon was told that concerns the page."""

    state: Path
    """Where the page's own token is kept, if the daemon has none."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    origins: tuple[str, ...] = ()
    """Further addresses under which browsers reach the page."""
    behind_proxy: bool = False
    """Whether X-Forwarded-For of a request from loopback says where it comes from."""
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)


class WebPage:
    """Serves the page of one daemon, at one address at most."""

    def __init__(self, parts: DaemonParts, gate: CallGate, settings: WebSettings) -> None:
        self._parts = parts
        self._gate = gate
        self._settings = settings
        self._opening = asyncio.Lock()
        self._address = ""
        self._own_token = ""
        self._app: WebApp | None = None
        self._server: WebServer | None = None

    def methods(self) -> dict[str, Method]:
        """Return the rpc by name."""
        return {"OpenWeb": self._open_web}

    async def open(self, address: str) -> str:
        """Serve the page at PORT or HOST:PORT, and return where that is.

        Raises ValueError for an address that is none, LanekitError for what is in the way.
        """
        tls = self._settings.tls_cert, self._settings.tls_key
        host, port = check_web(address, tls=tls[0] is not None)
        try:
            from lanekit.slow.web.access import Access, own_token
            from lanekit.slow.web.app import WebApp
            from lanekit.slow.web.server import Certificate, WebServer
            from lanekit.slow.web.site import Site, certificate_names
        except ModuleNotFoundError as error:
            raise MissingExtra(
                f"the browser's page needs more packages where the daemon runs ({error}): "
                "pip install 'lanekit[web]'"
            ) from None
        tokens = self._gate.tokens
        if not tokens.needed:
            # The socket's permissions are the daemon's door then. A port has none.
            self._own_token = own_token(self._settings.state)
            tokens = Tokens(self._own_token)
        certificate = None if tls[0] is None or tls[1] is None else Certificate(tls[0], tls[1])
        settings = self._settings
        access = Access(tokens, self._gate.guesses, behind_proxy=settings.behind_proxy)
        names = [host]
        if certificate is not None:
            names += await asyncio.to_thread(certificate_names, certificate.chain, certificate.key)
        site = Site("http" if certificate is None else "https", names, settings.origins)
        app = WebApp(self._parts, access, site, secure=certificate is not None)
        try:
            server = WebServer(app.asgi, host, port, certificate, settings.limits)
            self._address = await server.start()
        except BaseException:
            app.close()
            raise
        self._app, self._server = app, server
        return self._address

    async def stop(self) -> None:
        """Close the port and all connections to it."""
        if self._server is not None:
            await self._server.stop()

    def close(self) -> None:
        """Let go of the store."""
        if self._app is not None:
            self._app.close()

    async def _open_web(self, request: Any, _: Context) -> pb.OpenWebResponse:
        if request.port > 65535:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "a port is at most 65535")
        async with self._opening:
            if not self._address:
                try:
                    await self.open(f"127.0.0.1:{request.port}")
                except MissingExtra:
                    raise
                except TelemetryError as error:
                    raise Refusal(grpc.StatusCode.UNAVAILABLE, str(error)) from error
        return pb.OpenWebResponse(address=self._address, token=self._own_token)
