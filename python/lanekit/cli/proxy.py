"""``lanekit proxy``: run a worker and publish what it prints."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from typing import NoReturn

from lanekit.cli.connection import add_connection_arguments, missing_slow
from lanekit.cli.endings import MISUSE
from lanekit.errors import TelemetryError

NAME = "proxy"
HELP = "run a worker (or read stdin) and publish the telemetry it prints"
EXAMPLES = (("lanekit proxy --run first -- python train.py", "without the daemon's care"),)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--run", dest="run_id", metavar="RUN", help="the run's id")
    what.add_argument(
        "--adopt",
        metavar="SPOOL",
        help="take over the spool of a proxy that died, and its worker if that still lives",
    )
    parser.add_argument(
        "--new-stream",
        action="store_true",
        help="with --adopt: send the rest under a new stream id, to a daemon whose store has less "
        "than it acknowledged",
    )
    add_connection_arguments(parser)
    parser.add_argument("--spool", metavar="DIR", help="where to keep what is not acknowledged")
    parser.add_argument("--worker", metavar="ID", default="", help="the worker's id")
    parser.add_argument(
        "--mirror-frames", action="store_true", help="show frames found in steps on the fast lane"
    )
    parser.add_argument(
        "--fsync", action="store_true", help="a power cut loses nothing that was taken in"
    )
    parser.add_argument(
        "--require-run", action="store_true", help="refuse a run the daemon does not know"
    )
    parser.add_argument(
        "--drain-timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="how long to wait for the daemon after the worker's end (default %(default)s)",
    )
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="program and arguments"
    )


def run(args: argparse.Namespace) -> int:
    """Run the proxy.

    The status is the worker's own (128 + n for signal n); 75 if events are left in the spool
    because the daemon is away, 76 if because it refuses them, 74 if a part of the journal was lost.
    """
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    own = (command, args.spool, args.worker, args.mirror_frames, args.fsync)
    if args.adopt and any(own):
        print(
            "lanekit proxy: --adopt goes on as the first proxy was started; it takes no command, "
            "--spool, --worker, --mirror-frames or --fsync",
            file=sys.stderr,
        )
        return MISUSE
    if args.new_stream and not args.adopt:
        print("lanekit proxy: --new-stream goes with --adopt SPOOL", file=sys.stderr)
        return MISUSE
    if not args.adopt and not command and sys.stdin.isatty():
        print(
            "lanekit proxy: name the worker's command after --, or pipe its output here",
            file=sys.stderr,
        )
        return MISUSE
    try:
        from lanekit.slow.sending.proxy import TrainerTelemetryProxy
    except ModuleNotFoundError as error:
        raise missing_slow(error) from None
    from lanekit.slow.endpoint import read_token

    try:
        options = {
            "target": args.daemon,
            "token": None if args.token_file is None else read_token(args.token_file),
            "ca_file": args.tls_ca,
            "insecure": args.insecure_loopback,
            "drain_timeout": args.drain_timeout,
        }
        if args.adopt:
            proxy = TrainerTelemetryProxy.adopt(args.adopt, new_stream=args.new_stream, **options)
        else:
            proxy = TrainerTelemetryProxy(
                args.run_id,
                spool=args.spool,
                worker_id=args.worker,
                command=command,
                stdin=None if command else sys.stdin.fileno(),
                mirror_frames=args.mirror_frames,
                fsync=args.fsync,
                require_run=args.require_run,
                **options,
            )
    except ValueError as error:
        raise TelemetryError(str(error)) from error
    if command and not args.spool:
        print(f"lanekit: the worker's output is kept in {proxy.spool.directory}", file=sys.stderr)
    return leave(proxy.run())


def leave(status: int) -> NoReturn:
    """End the process here and now, with all that was sent and kept closed.

    An interpreter that ends in its own time stops gRPC's threads wherever they are. One that then
    has a call's lock in hand makes the end wait for ever, and whoever waits for this process, too.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)
