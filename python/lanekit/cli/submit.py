"""``lanekit submit``: have the daemon start a worker and look after it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from lanekit.cli.connection import add_connection_arguments, connect
from lanekit.cli.endings import MISUSE
from lanekit.errors import InvalidEvent

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
    with connect(args) as daemon:
        from lanekit.slow.batches import check_run_id

        try:
            run_id = "" if args.run_id is None else check_run_id(args.run_id)
            config = _config(args.config)
        except (InvalidEvent, ValueError) as error:
            print(f"lanekit submit: {error}", file=sys.stderr)
            return MISUSE
        submitted = daemon.submit_run(
            command,
            run_id=run_id,
            environment=dict(args.env),
            working_directory=_directory(args.directory, here=daemon.target.is_loopback),
            config_json=config,
            worker_id=args.worker,
            mirror_frames=args.mirror_frames,
        )
    print(submitted.run_id, flush=True)
    if sys.stderr.isatty():
        print(f"  started; how it is: lanekit show {submitted.run_id}", file=sys.stderr)
    return 0


def _config(file: Path | None) -> bytes:
    """Return the file's content; ValueError says what is wrong with it."""
    if file is None:
        return b""
    try:
        content = file.read_bytes()
        json.loads(content)
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{file} holds no JSON: {error}") from error
    return content


def _directory(asked: str | None, *, here: bool) -> str:
    """Return where the worker starts; what `.` means is known on this machine only."""
    if here:
        return os.path.abspath(asked or ".")
    return asked or ""


def assignment(text: str) -> tuple[str, str]:
    """Return name and value of ``NAME=VALUE``."""
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise argparse.ArgumentTypeError(f"takes NAME=VALUE, got {text!r}")
    return name, value
