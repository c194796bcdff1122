"""The arguments with which a command finds its daemon, and the client they make."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lanekit.errors import LanekitError, MissingExtra, TelemetryError, distribution_of

if TYPE_CHECKING:
    from lanekit.slow.daemon_client import DaemonClient


def add_connection_arguments(
    parser: argparse._ActionsContainer, default: str = "LANEKIT_DAEMON, else the usual socket"
) -> None:
    """Declare --daemon and what a daemon on TCP asks for."""
    parser.add_argument(
        "--daemon", metavar="TARGET", help=f"unix:/path or host:port (default: {default})"
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        default=path_from("LANEKIT_TOKEN_FILE"),
        help="the daemon's token (default: LANEKIT_TOKEN_FILE)",
    )
    parser.add_argument(
        "--tls-ca",
        type=Path,
        metavar="FILE",
        default=path_from("LANEKIT_TLS_CA"),
        help="who signed its certificate (default: LANEKIT_TLS_CA)",
    )
    parser.add_argument(
        "--insecure-loopback", action="store_true", help="no TLS; for a loopback address only"
    )


def connect(args: argparse.Namespace) -> DaemonClient:
    """Return a client for the daemon that the arguments name."""
    try:
        from lanekit.slow.daemon_client import DaemonClient
    except ModuleNotFoundError as error:
        raise missing_slow(error) from None
    from lanekit.slow.endpoint import default_socket, read_token

    try:
        return DaemonClient(
            args.daemon or default_socket(),
            token=None if args.token_file is None else read_token(args.token_file),
            ca_file=args.tls_ca,
            insecure=args.insecure_loopback,
        )
    except ValueError as error:
        raise TelemetryError(str(error)) from error


def usual_daemons_store_problem() -> str | None:
    """Return why the usual daemon cannot write its store, empty if it can; None: nobody says."""
    try:
        from lanekit.slow.daemon_client import DaemonClient
        from lanekit.slow.endpoint import default_socket, parse_target, read_token
        from lanekit.slow.local_daemon import somebody_listens
    except ModuleNotFoundError:
        return None
    try:
        target = parse_target(default_socket())
        if not target.is_unix or not somebody_listens(target.path):
            return None
        token = path_from("LANEKIT_TOKEN_FILE")
        with DaemonClient(
            str(target), token=None if token is None else read_token(token), timeout=5.0
        ) as client:
            return client.store_problem()
    except (LanekitError, ValueError, OSError):
        return None


def path_from(variable: str) -> Path | None:
    """Return the path that an environment variable names, if it names one."""
    return Path(text) if (text := os.environ.get(variable)) else None


def missing_slow(error: ModuleNotFoundError) -> MissingExtra:
    """Say how to install what a command of the slow lane needs."""
    return MissingExtra(
        f"this command needs lanekit's slow lane, and {distribution_of(error)} is not installed: "
        "pip install 'lanekit[slow]'"
    )
