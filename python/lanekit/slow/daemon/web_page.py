"""The browser's page as a part of the daemon: no port is open until somebody asks for the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lanekit.errors import MissingExtra
from lanekit.slow.daemon.access import Tokens
from lanekit.slow.daemon.security import check_web
from lanekit.slow.daemon.service import TrainerService
from lanekit.slow.store.run_store import RunStore

if TYPE_CHECKING:
    from lanekit.slow.web.app import WebApp
    from lanekit.slow.web.server import WebServer


class WebPage:
    """Serves the page of one daemon, at one address at most."""

    def __init__(
        self,
        service: TrainerService,
        store: RunStore,
        tokens: Tokens,
        state: Path,
        tls_cert: Path | None,
        tls_key: Path | None,
    ) -> None:
        self._service = service
        self._store = store
        self._tokens = tokens
        self._state = state
        self._tls = None if tls_cert is None or tls_key is None else (tls_cert, tls_key)
        self._app: WebApp | None = None
        self._server: WebServer | None = None

    async def open(self, address: str) -> str:
        """Serve the page at PORT or HOST:PORT, and return where that is.

        Raises ValueError for an address that is none, LanekitError for what is in the way.
        """
        host, port = check_web(address, tls=self._tls is not None)
        try:
            from lanekit.slow.web.access import Access, own_token
            from lanekit.slow.web.app import DaemonParts, WebApp
            from lanekit.slow.web.server import Certificate, WebServer
        except ModuleNotFoundError as error:
            raise MissingExtra(
                f"the browser's page needs more packages ({error}): pip install 'lanekit[web]'"
            ) from None
        service = self._service
        parts = DaemonParts(self._store, service.pulse, service.runs, service.workers, service.tap)
        # Where the daemon has no token, its socket's permissions are its door. A port has none.
        tokens = self._tokens if self._tokens.needed else Tokens(own_token(self._state))
        access = Access(tokens)
        self._app = WebApp(parts, access, secure=self._tls is not None)
        certificate = None if self._tls is None else Certificate(*self._tls)
        self._server = WebServer(self._app.asgi, host, port, certificate)
        return await self._server.start()

    async def stop(self) -> None:
        """Close the port and all connections to it."""
        if self._server is not None:
            await self._server.stop()

    def close(self) -> None:
        """Let go of the store."""
        if self._app is not None:
            self._app.close()
