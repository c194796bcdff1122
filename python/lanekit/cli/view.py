"""``lanekit view``: show a run in the terminal."""

from __future__ import annotations

import argparse
import sys

from lanekit.viewer.terminal.watching import watch

NAME = "view"
HELP = "show a run in this terminal"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "run_id", metavar="RUN", type=non_empty, help="the run id, as `lanekit ls` prints it"
    )
    parser.add_argument("--fps", type=positive, default=30.0, help="most frames to show per second")
    parser.add_argument("--seconds", type=positive, help="stop after this long")


def non_empty(text: str) -> str:
    """Return ``text``, if there is any."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def positive(text: str) -> float:
    """Return the number that ``text`` holds, if it is finite and above zero."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return value


def run(args: argparse.Namespace) -> int:
    """Show the run until the user quits; the status is 1 if it never appeared."""
    status = watch(args.run_id, fps=args.fps, seconds=args.seconds)
    if status:
        print(
            f"lanekit view: nothing publishes run {args.run_id!r}; "
            "`lanekit ls` shows what there is",
            file=sys.stderr,
        )
    return status
