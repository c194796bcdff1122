"""``lanekit demo``: train a cart-pole in one process and watch it learn in another."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import suppress

from lanekit import SegmentExists, SegmentNotFound, reclaim_segment, segment_name
from lanekit.cli.view import positive
from lanekit.viewer.terminal import Outcome, QuitSignals, follow

NAME = "demo"
HELP = "train a cart-pole and watch it learn, here in the terminal"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--seconds", type=positive, help="stop after this long")
    parser.add_argument("--seed", type=int, default=0, help="the same seed learns the same way")
    parser.add_argument("--run-id", default="demo", help="the run to publish as (%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run the demo; the status is 1 if the training process ended before it was asked to."""
    with QuitSignals() as signals, tempfile.TemporaryFile("w+", errors="replace") as complaints:
        child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "lanekit.demo.train",
                f"--run-id={args.run_id}",
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
                args.run_id,
                seconds=args.seconds,
                wait_for_writer=None,  # it comes, or the training process ends
                alive=lambda: child.poll() is None and not signals.quit,
            )
            failure = child.poll()
        finally:
            _stop(child, args.run_id)
        if failure is None:
            with suppress(OSError):  # the terminal may have been closed
                print(_summary(args.run_id, outcome), flush=True)
            return 0
        complaints.seek(0)
        tail = "".join(complaints.readlines()[-20:])
    print(f"lanekit demo: the training process ended with status {failure}", file=sys.stderr)
    print(tail, end="", file=sys.stderr)
    return 1


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
