"""``lanekit demo``: train a cart-pole in one process and watch it learn in another."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import suppress

from lanekit import (
    LanekitError,
    SegmentExists,
    SegmentNotFound,
    inspect_segment,
    reclaim_segment,
    segment_name,
)
from lanekit.cli.view import non_empty, positive
from lanekit.demo.train import parse_seed
from lanekit.viewer.terminal.quit_signals import QuitSignals
from lanekit.viewer.terminal.watching import Outcome, follow

NAME = "demo"
HELP = "train a cart-pole and watch it learn, here in the terminal"

RUN_ID = "demo"
"""What the run is called, if nobody else is called so."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--seconds", type=positive, help="stop after this long")
    parser.add_argument("--seed", type=parse_seed, default=0, help="equal seeds learn equally")
    parser.add_argument("--run-id", type=non_empty, help="publish as this run, not as " + RUN_ID)


def run(args: argparse.Namespace) -> int:
    """Run the demo; the status is 1 if the training process ended before it was asked to."""
    run_id = args.run_id or _free_run_id()
    with QuitSignals() as signals, tempfile.TemporaryFile("w+", errors="replace") as complaints:
        child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "lanekit.demo.train",
                f"--run-id={run_id}",
                f"--seed={args.seed}",
                f"--parent={os.getpid()}",
                "--wait-for-viewer=5",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            process_group=0,  # Ctrl-C is for the viewer, which then ends the training
        )
        try:
            outcome = follow(
                run_id,
                seconds=args.seconds,
                wait_for_writer=None,  # it comes, or the training process ends
                alive=lambda: child.poll() is None and not signals.quit,
            )
            failure = child.poll()
        finally:
            _stop(child, run_id)
        if failure is None:
            with suppress(OSError):  # the terminal may have been closed
                print(_summary(run_id, outcome), flush=True)
            return 0
        complaints.seek(0)
        tail = "".join(complaints.readlines()[-20:])
    print(f"lanekit demo: the training process ended with status {failure}", file=sys.stderr)
    print(tail, end="", file=sys.stderr)
    return 1


def _free_run_id() -> str:
    """Return the usual run id, or one of our own if another process publishes under that."""
    try:
        other = inspect_segment(segment_name("frame", RUN_ID))
    except SegmentNotFound:
        return RUN_ID
    except LanekitError as problem:
        reason = str(problem)
    else:
        if other.orphan:
            return RUN_ID
        reason = f"process {other.owner_pid} publishes run {RUN_ID!r}"
    run_id = f"{RUN_ID}-{os.getpid()}"
    print(f"lanekit demo: {reason}; this is run {run_id!r}", file=sys.stderr)
    return run_id


def _stop(child: subprocess.Popen[bytes], run_id: str) -> None:
    child.terminate()
    try:
        child.wait(timeout=3.0)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    # A process that was killed could not tidy up. Most often there is nothing left to remove; if
    # the run turns out to be somebody else's, it stays.
    with suppress(SegmentNotFound, SegmentExists):
        reclaim_segment(segment_name("frame", run_id))


def _summary(run_id: str, outcome: Outcome) -> str:
    best = outcome.metadata.get("best", 0)
    return (
        f"run {run_id!r}: {outcome.frames_shown:,} frames shown, best return {best:g} of 500\n"
        "next: `lanekit ls` lists live runs, `lanekit view RUN` shows one from another terminal"
    )
