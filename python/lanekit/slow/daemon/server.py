"""The daemon as a process: options in, a gRPC server until SIGTERM, an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_health.v1.health import SERVICE_NAME as HEALTH_NAME  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from lanekit.slow.daemon.access import known_tokens
from lanekit.slow.daemon.admission import Admission, AdmissionLimits
from lanekit.slow.daemon.guesses import Guesses
from lanekit.slow.daemon.health import Health
from lanekit.slow.daemon.listening import (
    SERVER_OPTIONS,
    FileLock,
    add_tcp_port,
    add_unix_socket,
    prepare_socket,
    tcp_options,
)
from lanekit.slow.daemon.methods import SERVICE
from lanekit.slow.daemon.security import (
    CallGate,
    GateInterceptor,
    check_listen,
    check_web,
    server_credentials,
)
from lanekit.slow.daemon.service import TrainerService
from lanekit.slow.daemon.supervisor import Supervisor
from lanekit.slow.daemon.web_page import ConnectionLimits, WebSettings
from lanekit.slow.endpoint import read_token
from lanekit.slow.run_bus import RunBus
from lanekit.slow.store.address import PostgresAddress
from lanekit.slow.store.database import Durability
from lanekit.slow.store.db_sink import TelemetryDBSink
from lanekit.slow.store.life_cycle import daemon_stream
from lanekit.slow.store.run_store import RunStore
from lanekit.slow.store.store_check import StoreCheck
from lanekit.slow.web.site import parse_origin

logger = logging.getLogger(__name__)

DRAIN = 10.0
"""Seconds that an orderly end may take before calls are cut off."""
LINGER = 0.2
"""Seconds for clients to read how their calls ended, before connections are closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonOptions:
    """What `lanekit daemon` is told."""

    store: Path | PostgresAddress
    """The SQLite file, or the database."""
    state: Path
    """Directory for the spools of the workers that the daemon starts."""
    socket: Path
    """Where it always listens; only this user can connect."""
    listen: str | None = None
    """HOST:PORT, to listen on TCP as well."""
    token_file: Path | None = None
    """Every call must bring this token, on the socket too. Needed for TCP."""
    web: str | None = None
    """PORT or HOST:PORT, to serve the browser's page."""
    tokens_file: Path | None = None
    """Further tokens, each for the runs of one name: see ``access``."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure_loopback: bool = False
    durability: Durability = "normal"
    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    """What callers may have under way at once."""
    web_origins: tuple[str, ...] = ()
    """Further addresses under which browsers reach the page: a proxy's, another name's."""
    web_behind_proxy: bool = False
    """Whether a proxy on this machine says where the page's requests come from."""
    web_limits: ConnectionLimits = field(default_factory=ConnectionLimits)


OTHER_DAEMON = "use that one; a second one takes a --socket, --state and --store of its own"


def serve(options: DaemonOptions, ready: Callable[[list[str]], None]) -> None:
    """Serve until SIGTERM or SIGINT. ``ready`` gets the addresses once calls are answered.

    Raises ValueError for options that do not go together, LanekitError for what is in the way.
    """
    if (options.tls_cert is None) != (options.tls_key is None):
        raise ValueError("--tls-cert and --tls-key go together")
    if options.listen is None and options.insecure_loopback:
        raise ValueError("--insecure-loopback is for --listen")
    if options.listen is None and options.web is None and options.tls_cert:
        raise ValueError("--tls-cert and --tls-key are for --listen and --web")
    if options.listen is not None:
        check_listen(
            options.listen,
            tls=options.tls_cert is not None,
            token=options.token_file is not None,
            insecure_loopback=options.insecure_loopback,
        )
    for origin in options.web_origins:
        parse_origin(origin)
    if options.web is not None:
        check_web(options.web, tls=options.tls_cert is not None)
    asyncio.run(Daemon(options).run(ready))


def close_sink(sink: TelemetryDBSink) -> None:
    """Commit what is queued. A store that could not be written so far gets one more second."""
    sink.close(timeout=1.0 if sink.status().stalled else 10.0)


def is_shared(store: Path | PostgresAddress) -> bool:
    """Tell whether other daemons may write to the same store."""
    return isinstance(store, PostgresAddress)


def daemon_id(state: Path) -> str:
    """What tells this daemon from others on the same store: the same as long as its spools are."""
    path = state / "daemon-id"
    with contextlib.suppress(FileNotFoundError):
        known = path.read_text(encoding="ascii", errors="replace").strip()
        if re.fullmatch(r"[0-9a-f]{12}", known):
            return known
    made = secrets.token_hex(6)
    path.write_text(f"{made}\n", encoding="ascii")
    return made


class Daemon:
    """One daemon: its locks, store, server and child processes."""

    def __init__(self, options: DaemonOptions) -> None:
        self._options = options
        self._stop = asyncio.Event()

    async def run(self, ready: Callable[[list[str]], None]) -> None:
        """Start, serve until told to stop, drain, end."""
        options = self._options
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        with contextlib.ExitStack() as held:
            owner = None if options.token_file is None else read_token(options.token_file)
            tokens = known_tokens(owner, options.tokens_file)
            self._take_locks(held)
            bus = RunBus()
            daemon = daemon_id(options.state) if is_shared(options.store) else ""
            sink = TelemetryDBSink(options.store, bus, durability=options.durability, daemon=daemon)
            # Last of all, and also when starting fails half way: commit what was taken in.
            held.callback(bus.close)
            held.callback(close_sink, sink)
            store = RunStore.open(options.store)
            held.callback(store.close)
            supervisor = Supervisor(
                options.state / "spool",
                f"unix:{options.socket}",
                options.token_file,
                sink,
                options.durability,
                daemon_stream(daemon),
            )
            held.callback(supervisor.close)
            web = WebSettings(
                options.state,
                options.tls_cert,
                options.tls_key,
                options.web_origins,
                options.web_behind_proxy,
                options.web_limits,
            )
            gate = CallGate(tokens, Guesses(), Admission(options.admission))
            service = TrainerService(sink, bus, store, supervisor, gate, web)
            held.callback(service.close)
            health = Health()
            await health.set(SERVICE.full_name, health_pb2.HealthCheckResponse.SERVING)
            server, tcp_server = (
                self._server(service, health, gate, settings)
                for settings in (SERVER_OPTIONS, tcp_options())
            )
            addresses = self._listen_on_tcp(tcp_server)
            if options.web is not None:
                addresses.append(await service.page.open(options.web))
            # Last: whoever finds the socket finds a daemon that has come up.
            add_unix_socket(server, options.socket)
            addresses.insert(0, f"unix:{options.socket}")
            servers = [server, tcp_server] if options.listen is not None else [server]
            for each in servers:
                await each.start()
            ready(addresses)
            if isinstance(options.store, Path):
                check = StoreCheck(options.store)
                held.callback(check.close)
                check.start()
            await supervisor.adopt_orphans()
            await supervisor.fail_abandoned()
            supervisor.sweep()
            await self._stop.wait()
            await self._drain(servers, service, health)

    def _take_locks(self, held: contextlib.ExitStack) -> None:
        options = self._options
        spool = options.state / "spool"
        # The socket first: where a daemon listens already, a second one leaves no file behind.
        locks = [
            (Path(f"{options.socket}.lock"), f"socket {options.socket}"),
            (spool / ".lock", f"spool directory {spool}"),
        ]
        if isinstance(options.store, Path):
            file = Path(f"{os.path.realpath(options.store)}.lock")
            locks.append((file, f"store {options.store}"))
        for path, what in locks:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = FileLock(path, what, OTHER_DAEMON)
            held.callback(lock.release)
        prepare_socket(options.socket)

    def _listen_on_tcp(self, server: grpc.aio.Server) -> list[str]:
        options = self._options
        if options.listen is None:
            return []
        host, port = check_listen(
            options.listen,
            tls=options.tls_cert is not None,
            token=options.token_file is not None,
            insecure_loopback=options.insecure_loopback,
        )
        credentials = None
        if options.tls_cert is not None and options.tls_key is not None:
            credentials = server_credentials(options.tls_cert, options.tls_key)
        return [add_tcp_port(server, host, port, credentials)]

    @staticmethod
    def _server(
        service: TrainerService, health: Health, gate: CallGate, settings: list[tuple[str, int]]
    ) -> grpc.aio.Server:
        server = grpc.aio.server(interceptors=(GateInterceptor(gate),), options=settings)
        server.add_generic_rpc_handlers((service.handler,))
        health_pb2_grpc.add_HealthServicer_to_server(health, server)
        reflection.enable_server_reflection(
            (SERVICE.full_name, HEALTH_NAME, reflection.SERVICE_NAME), server
        )
        return server

    async def _drain(
        self, servers: list[grpc.aio.Server], service: TrainerService, health: Health
    ) -> None:
        logger.info("shutting down: committing what was received")
        await health.enter_graceful_shutdown()
        service.drain()
        await service.page.stop()
        # Not yet the server's own stop: it would cut connections before the last acknowledgements
        # are read from them.
        try:
            await asyncio.wait_for(service.idle(), DRAIN)
        except TimeoutError:
            # The senders are told so, and send again: a call that gRPC itself has to break off
            # leaves them guessing, and a traceback in the log.
            service.cut()
        health.end_watches()
        await asyncio.sleep(LINGER)
        for server in servers:
            await server.stop(None)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(service.idle(), LINGER)
