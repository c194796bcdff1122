"""``lanekit control``: pause, resume, stop or cancel a run."""

from __future__ import annotations

import argparse
import sys

from lanekit.cli.cluster import add_cluster_argument, daemon_of
from lanekit.cli.connection import add_connection_arguments, connect
from lanekit.cli.endings import MISUSE

NAME = "control"
HELP = "ask a run's workers to pause, resume or stop; or cancel it"
EXAMPLES = (
    ("lanekit control my-run pause", "until: lanekit control my-run resume"),
    ("lanekit control my-run stop", "at the end of its step"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_cluster_argument(parser)
    add_connection_arguments(parser)
    parser.add_argument("run_id", metavar="RUN", help="the run's id, as `lanekit runs` prints it")
    parser.add_argument("action", choices=("pause", "resume", "stop", "cancel"))
    parser.add_argument(
        "--grace",
        type=seconds,
        metavar="SECONDS",
        help="cancel: between SIGTERM and SIGKILL (default 10)",
    )


def run(args: argparse.Namespace) -> int:
    """Send the command and say who got it."""
    if args.grace is not None and args.action != "cancel":
        print("lanekit control: --grace is for cancel", file=sys.stderr)
        return MISUSE
    with connect(args) if args.cluster is None else daemon_of(args) as daemon:
        if args.action == "cancel":
            from lanekit.slow.daemon.run_states import state_word

            ended = daemon.cancel_run(args.run_id, grace=args.grace)
            print(f"run {ended.run_id}: {state_word(ended)}")
            return 0
        command_id, workers = daemon.control_run(args.run_id, args.action)
    reached = "1 worker is connected" if workers == 1 else f"{workers} workers are connected"
    print(f"run {args.run_id}: {args.action} is command {command_id}; {reached}")
    return 0


def seconds(text: str) -> float:
    """Return a number of seconds, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be 0 or more seconds, got {text!r}")
    return value
