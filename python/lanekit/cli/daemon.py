"""``lanekit daemon``: take telemetry in, keep runs, serve both over gRPC."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from lanekit.cli.connection import missing_slow, path_from
from lanekit.cli.endings import MISUSE

NAME = "daemon"
HELP = "serve runs and their telemetry: gRPC on a Unix socket, or TCP"
EXAMPLES = (
    ("lanekit daemon", "for this machine, until Ctrl-C"),
    ("lanekit daemon --web 7071", "with a page for browsers"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--store", metavar="PATH|URL", help="a SQLite file, or postgresql://USER@HOST/DATABASE"
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        help="where workers' spools are kept (default: beside a file --store, or lanekit's state)",
    )
    parser.add_argument("--socket", type=Path, metavar="PATH", help="the Unix socket to listen on")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="listen on TCP too; needs TLS and --token-file"
    )
    parser.add_argument(
        "--web",
        metavar="[HOST:]PORT",
        help="serve the browser's page too; TLS is needed beyond loopback",
    )
    parser.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="certificate chain, PEM (default: LANEKIT_TLS_CERT); `lanekit certs` makes one",
    )
    parser.add_argument(
        "--tls-key",
        type=Path,
        metavar="FILE",
        help="its private key, PEM (default: LANEKIT_TLS_KEY)",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        default=path_from("LANEKIT_TOKEN_FILE"),
        help="every call must bring this file's token (default: LANEKIT_TOKEN_FILE)",
    )
    parser.add_argument(
        "--tokens",
        type=Path,
        metavar="FILE",
        help="further tokens, a line each: NAME TOKEN; each is for the runs NAME.* only",
    )
    parser.add_argument(
        "--insecure-loopback",
        action="store_true",
        help="allow --listen without TLS on a loopback address",
    )
    parser.add_argument(
        "--durability",
        choices=("normal", "full"),
        default="normal",
        help="full: each commit survives a power cut, not only a crash (default %(default)s)",
    )
    configure_limits(parser)


def configure_limits(parser: argparse.ArgumentParser) -> None:
    """Declare what bounds the daemon's callers and browsers."""
    group = parser.add_argument_group("limits", "see docs/remote.md, docs/web.md")
    for name, usual, what in (
        ("--calls-per-token", "256", "calls that one of --tokens may have under way"),
        ("--calls", "4096", "calls that everybody together may have under way"),
        ("--mib-per-token", "96", "MiB taken in for one of --tokens and not stored yet"),
        ("--mib", "256", "MiB taken in for everybody and not stored yet"),
        ("--web-connections", "512", "connections to the page"),
        ("--web-connections-per-address", "128", "of them from one address beyond loopback"),
    ):
        group.add_argument(name, type=int, metavar="N", help=f"{what} (default {usual})")
    group.add_argument(
        "--web-origin",
        action="append",
        metavar="URL",
        help="an address under which browsers reach the page, if it is not the one it is served "
        "at, such as https://lab.example; may be repeated (default: LANEKIT_WEB_ORIGINS)",
    )
    group.add_argument(
        "--web-behind-proxy",
        action="store_true",
        help="a reverse proxy on this machine says in X-Forwarded-For where requests come from",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C; the status is 2 for options that do not go together."""
    try:
        from lanekit.slow.daemon.admission import AdmissionLimits
        from lanekit.slow.daemon.server import DaemonOptions, serve
        from lanekit.slow.daemon.web_page import ConnectionLimits
        from lanekit.slow.store.address import parse_store
    except ModuleNotFoundError as error:
        raise missing_slow(error) from None
    from lanekit.slow.endpoint import (
        default_socket,
        default_store,
        is_loopback,
        parse_target,
        state_directory,
    )

    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        if args.socket is None:
            target = parse_target(default_socket())
            if not target.is_unix:
                raise ValueError(
                    f"LANEKIT_DAEMON names {target}, which is no Unix socket: give --socket PATH"
                )
            socket = Path(target.path)
        else:
            socket = Path(parse_target(f"unix:{args.socket}").path)
        store = parse_store(args.store or default_store())
        state = args.state or state_directory()
        if isinstance(store, Path):
            store = store.absolute()
            state = args.state or (store.parent if args.store else state)
        over_tls = args.listen is not None and not args.insecure_loopback
        over_tls = over_tls or (args.web is not None and not is_loopback(host_of(args.web)))
        options = DaemonOptions(
            store=store,
            state=state.absolute(),
            socket=socket,
            listen=args.listen,
            web=args.web,
            token_file=args.token_file,
            tokens_file=args.tokens,
            tls_cert=args.tls_cert or (path_from("LANEKIT_TLS_CERT") if over_tls else None),
            tls_key=args.tls_key or (path_from("LANEKIT_TLS_KEY") if over_tls else None),
            insecure_loopback=args.insecure_loopback,
            durability=args.durability,
            admission=AdmissionLimits(
                **given(
                    calls_per_token=args.calls_per_token,
                    calls=args.calls,
                    bytes_per_token=args.mib_per_token and args.mib_per_token * 2**20,
                    bytes=args.mib and args.mib * 2**20,
                )
            ),
            web_origins=tuple(args.web_origin or os.environ.get("LANEKIT_WEB_ORIGINS", "").split()),
            web_behind_proxy=args.web_behind_proxy,
            web_limits=ConnectionLimits(
                **given(in_all=args.web_connections, per_address=args.web_connections_per_address)
            ),
        )
        serve(options, announce)
    except ValueError as error:
        print(f"lanekit daemon: {error}", file=sys.stderr)
        return MISUSE
    except OSError as error:
        print(
            f"lanekit daemon: {error.filename or 'the state'} can not be used: "
            f"{error.strerror or error}; --state DIR, --store FILE and --socket PATH name other "
            "places",
            file=sys.stderr,
        )
        return 1
    return 0


def given(**limits: int | None) -> dict[str, int]:
    """Return those that were given; the others are as usual."""
    return {name: value for name, value in limits.items() if value is not None}


def host_of(address: str) -> str:
    """Return the host of ``[HOST:]PORT``; this machine's own where none is named."""
    return address.rpartition(":")[0] or "127.0.0.1"


def announce(addresses: list[str]) -> None:
    """Say, in one line, that calls are answered now."""
    print(f"listening on {', '.join(addresses)}", flush=True)
