"""``--grpc``: a worker starts itself again under a telemetry proxy, which reports to a daemon."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NoReturn

from lanekit.slow.endpoint import Target, default_socket, parse_target
from lanekit.worker.lasting_emitter import warn

_WITH_VALUE = {"--grpc-target": "--daemon", "--token-file": "--token-file", "--tls-ca": "--tls-ca"}
"""A worker's options about its daemon, and what the proxy calls them."""
_FLAGS = ("--grpc", "--insecure-loopback")
_NEEDED = ("grpc", "google.protobuf", "msgspec")
_CONNECT_SECONDS = 2.0
_DRAIN_SECONDS = 2.0
"""How long to wait at the end for a daemon that was away at the beginning."""


def why_no_proxy() -> str | None:
    """Return what keeps this worker from reporting through a proxy of its own; None if nothing."""
    if os.environ.get("LANEKIT_TELEMETRY_FIFO"):
        return "--grpc: a proxy has started this worker already"
    missing = [name for name in _NEEDED if not _installed(name)]
    if missing:
        return f"--grpc needs {', '.join(missing)}: pip install 'lanekit[slow]'"
    return None


def start_again_under_a_proxy(run_id: str, args: argparse.Namespace) -> NoReturn:
    """Become ``lanekit proxy``, which starts this command line without what asks for it.

    Raises ``ValueError`` if the daemon's address is none.
    """
    target = parse_target(args.grpc_target or default_socket())
    command = [sys.executable, "-m", "lanekit", "proxy", "--run", run_id]
    for option, proxy_option in _WITH_VALUE.items():
        value = getattr(args, option.removeprefix("--").replace("-", "_"))
        if value is not None:
            command += [proxy_option, value]
    if args.insecure_loopback:
        command += ["--insecure-loopback"]
    if not answers(target):
        warn(
            f"no daemon answers at {target}; training goes on, and its telemetry is kept on disk. "
            "`lanekit daemon` starts one; it gets everything, if it comes before the training ends"
        )
        command += ["--drain-timeout", str(_DRAIN_SECONDS)]
    sys.stdout.flush()
    again = [sys.executable, *without_daemon_options(sys.orig_argv[1:])]
    os.execv(sys.executable, [*command, "--", *again])


def without_daemon_options(arguments: Sequence[str]) -> list[str]:
    """Return a worker's command line without what is about its daemon."""
    kept, skip = [], False
    for argument in arguments:
        name = argument.partition("=")[0]
        if not skip and argument not in _FLAGS and name not in _WITH_VALUE:
            kept.append(argument)
        skip = argument in _WITH_VALUE and not skip
    return kept


def answers(target: Target) -> bool:
    """Tell whether anybody listens at an address."""
    try:
        if target.is_unix:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_CONNECT_SECONDS)
                probe.connect(target.path)
        else:
            address = (target.host.strip("[]"), target.port)
            socket.create_connection(address, _CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even its parent is there
        return False
