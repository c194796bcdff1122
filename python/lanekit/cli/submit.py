"""``lanekit submit``: have the daemon start a worker and look after it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from lanekit.cli.connection import add_connection_arguments, connect
from lanekit.cli.endings import MISUSE

NAME = "submit"
HELP = "start a worker under the daemon's care; its prints are telemetry"
EXAMPLES = (("lanekit submit --run first -- python train.py", "a program of yours"),)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_connection_arguments(parser)
    parser.add_argument("--run", dest="run_id", metavar="RUN", help="the run's id; default: new")
    parser.add_argument("--worker", metavar="ID", default="", help="the worker's id")
    parser.add_argument("--config", type=Path, metavar="FILE", help="JSON, kept with the run")
    parser.add_argument(
        "--env",
        type=assignment,
        action="append",
        default=[],
        metavar="K=V",
        help="in the worker's environment; may be repeated",
    )
    parser.add_argument(
        "--directory",
        metavar="DIR",
        help="where the worker starts, on the daemon's machine "
        "(default: here if the daemon is on this machine, else where the daemon is)",
    )
    parser.add_argument(
        "--mirror-frames",
        action="store_true",
        help="show frames found in its steps on the fast lane (lanekit view RUN)",
    )
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="program and arguments"
    )


def run(args: argparse.Namespace) -> int:
    """Submit the run and print its id; the status is 2 for a misuse."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        print(
            "lanekit submit: name the command to run, after --: lanekit submit -- python train.py",
            file=sys.stderr,
        )
        return MISUSE
    config = b""
    if args.config is not None:
        try:
            config = args.config.read_bytes()
        except OSError as error:
            print(f"lanekit submit: {args.config}: {error.strerror}", file=sys.stderr)
            return MISUSE
    with connect(args) as daemon:
        directory = args.directory
        if directory is None:
            directory = os.getcwd() if daemon.target.is_loopback else ""
        submitted = daemon.submit_run(
            command,
            run_id=args.run_id or "",
            environment=dict(args.env),
            working_directory=directory,
            config_json=config,
            worker_id=args.worker,
            mirror_frames=args.mirror_frames,
        )
    print(submitted.run_id, flush=True)
    if sys.stderr.isatty():
        print(f"  started; how it is: lanekit show {submitted.run_id}", file=sys.stderr)
    return 0


def assignment(text: str) -> tuple[str, str]:
    """Return name and value of ``NAME=VALUE``."""
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise argparse.ArgumentTypeError(f"takes NAME=VALUE, got {text!r}")
    return name, value
