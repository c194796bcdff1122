"""``lanekit gui``: all runs in a window: watch, start, pause, stop."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

from lanekit.cli.connection import add_connection_arguments, connect, missing_slow
from lanekit.cli.view import non_empty, positive
from lanekit.viewer.qt_platform import obstacle_to_windows

NAME = "gui"
HELP = "open the main window: all runs, live pictures, numbers, control"
EXAMPLES = (
    ("lanekit gui", "all runs"),
    ("lanekit gui my-run", "with this run in front"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "run_id", metavar="RUN", type=non_empty, nargs="?", help="open with this run in front"
    )
    add_connection_arguments(parser)
    parser.add_argument(
        "--store",
        metavar="PATH|URL",
        help="the daemon's store, which replays are read from (default: the usual one)",
    )
    parser.add_argument("--seconds", type=positive, help="close the window after this long")


def run(args: argparse.Namespace) -> int:
    """Show the window until it is closed; the status is 1 if there can be none."""
    obstacle = obstacle_to_windows(os.environ)
    if obstacle is not None:
        # Only what this installation can run is of help.
        lister = "lanekit runs" if importlib.util.find_spec("grpc") else "lanekit ls"
        print(
            f"lanekit gui: no window: {obstacle}; `{lister}` and `lanekit view --terminal` need "
            "none",
            file=sys.stderr,
        )
        return 1
    # Refuses an address or a token file that can not be used here, not in a window.
    with connect(args) as client:
        target = client.target
    try:
        from lanekit.viewer.window.daemon_access import DaemonAccess
        from lanekit.viewer.window.showing import show_main_window
    except ModuleNotFoundError as error:
        raise missing_slow(error) from None
    access = DaemonAccess(
        lambda: connect(args),
        target,
        may_start=args.daemon is None,
        token_file=args.token_file,
        store=args.store,
    )
    return show_main_window(access, run_id=args.run_id, seconds=args.seconds)
