"""``lanekit view``: show a run in a window, in the terminal, or as a picture."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from lanekit import errors
from lanekit.cli.ls import printable
from lanekit.cli.remote_view import add_remote_arguments, remote_run, remote_snapshot
from lanekit.integrations.showing.lanes import state_lane_of
from lanekit.segments import SegmentInfo, scan_segments
from lanekit.viewer.qt_platform import obstacle_to_windows
from lanekit.viewer.snapshot import take_snapshot
from lanekit.viewer.terminal.watching import watch

NAME = "view"
HELP = "show a run in a window, in this terminal, or as a picture"
EXAMPLES = (
    ("lanekit view", "the only run that is live"),
    ("lanekit view my-run --terminal", "here, not in a window"),
    ("lanekit view my-run --snapshot now.png", "one picture"),
)

_WIDEST = 400


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "run_id",
        metavar="RUN",
        type=non_empty,
        nargs="?",
        help="the run id, as `lanekit ls` prints it; default: the only one that is live",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--terminal", action="store_true", help="show it here, not in a window")
    where.add_argument(
        "--snapshot", metavar="PNG", type=Path, help="write the newest frame to a file, and end"
    )
    parser.add_argument(
        "--wait",
        type=positive,
        default=10.0,
        metavar="SECONDS",
        help="how long to wait for the snapshot's frame (default: 10)",
    )
    parser.add_argument(
        "--captures",
        metavar="DIR",
        type=Path,
        help="where the window saves screenshots and films (default: here)",
    )
    parser.add_argument(
        "--eval",
        metavar="DIR",
        type=Path,
        help="the run is an evaluation: the window shows what DIR/eval_summary.json says",
    )
    parser.add_argument(
        "--fps",
        type=positive,
        default=30.0,
        help="most frames per second, in the terminal or from a daemon (default: 30)",
    )
    parser.add_argument("--seconds", type=positive, help="stop after this long")
    add_remote_arguments(parser)


def non_empty(text: str) -> str:
    """Return ``text``, if there is any."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def positive(text: str) -> float:
    """Return the number that ``text`` holds, if it is finite and above zero."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text!r}")
    return value


def run(args: argparse.Namespace) -> int:
    """Show the run until the user quits; the status is 1 if it never appeared."""
    if args.daemon is None:
        run_id = args.run_id or the_live_run()
        return 1 if run_id is None else show(run_id, args)
    if args.snapshot is not None:
        return remote_snapshot(args)
    with remote_run(args) as run_id:
        return show(run_id, args)


def show(run_id: str, args: argparse.Namespace) -> int:
    """Show a run of this machine's."""
    if args.snapshot is not None:
        return snapshot(run_id, args.snapshot, args.wait)
    if not args.terminal:
        obstacle = obstacle_to_windows(os.environ)
        if obstacle is None:
            from lanekit.viewer.fastlane.watching import watch_in_window

            return watch_in_window(
                run_id,
                seconds=args.seconds,
                capture_directory=args.captures,
                eval_directory=args.eval,
            )
        complain(f"no window: {obstacle}; showing the run in the terminal")
    # Somebody at a terminal may be about to start the run in another; a script is told soon.
    patience = 60.0 if sys.stdout.isatty() else 10.0
    status = watch(run_id, fps=args.fps, seconds=args.seconds, wait_for_writer=patience)
    if status:
        say_nothing_publishes(run_id)
    return status


def the_live_run() -> str | None:
    """Return the only live run; None, having said what there is, if there is not exactly one."""
    found = {
        segment.run_id
        for segment in scan_segments()
        if isinstance(segment, SegmentInfo) and segment.kind == "frame" and not segment.orphan
    }
    found -= {state_lane_of(run_id) for run_id in found}  # those carry no pictures
    if len(found) == 1:
        return found.pop()
    if found:
        complain("several runs are live; name one of them:")
        for run_id in sorted(found):
            print(f"  lanekit view {as_typed(run_id)}", file=sys.stderr)
    else:
        complain("no run is live; `lanekit demo` starts one, `lanekit ls` shows what was left")
    return None


def as_typed(run_id: str) -> str:
    """Return a run id as a shell takes it, whatever it is made of."""
    word = shlex.quote(run_id)
    if not run_id.isprintable():
        # As bash, zsh and ksh read it. Raw, it would command the terminal and could not be copied.
        word = f"$'{''.join(map(_escaped, run_id))}'"
    return f"-- {word}" if run_id.startswith("-") else word


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape"))


def snapshot(run_id: str, path: Path, wait: float) -> int:
    """Write the newest frame and say so."""
    try:
        frame = take_snapshot(run_id, path, wait=wait)
    except errors.LanekitError:
        raise  # of the lane, not of the file that is written
    except OSError as error:
        complain(f"{path} cannot be written: {error.strerror or error}")
        return 1
    if frame is None:
        say_nothing_publishes(run_id)
        return 1
    print(
        f"{path}: frame {frame.seq} of {printable(run_id, _WIDEST)}, {frame.width}x{frame.height}"
    )
    return 0


def say_nothing_publishes(run_id: str) -> None:
    """Say that there is nothing to show."""
    complain(f"nothing publishes run {run_id!r}; `lanekit ls` shows what there is")


def complain(text: str) -> None:
    """Say something on standard error."""
    print(f"lanekit view: {text}", file=sys.stderr)
