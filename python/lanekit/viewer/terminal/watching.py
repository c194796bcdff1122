"""Show a run in the terminal: the newest frame in half-block cells, and its numbers below.

Each frame is averaged down to the size of the terminal and only cells that changed are sent, which
keeps a slow link usable. What a terminal can not do is left out: without 24-bit colour the picture
has 256 colours, with ``NO_COLOR`` it is made of characters of different weight, and a pipe or a
dumb terminal gets one line of numbers per second.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TextIO

from lanekit.viewer.terminal.plain_lines import PlainLines
from lanekit.viewer.terminal.quit_signals import QuitSignals
from lanekit.viewer.terminal.screen import FullScreen
from lanekit.viewer.terminal.stream import colour_depth
from lanekit.viewer.terminal.watched_run import WatchedRun


@dataclass(frozen=True)
class Outcome:
    """How watching a run ended."""

    frames_shown: int
    appeared: bool
    """Whether there was a writer at all."""
    quit_asked: bool
    """Whether the user ended it, by a key or a signal."""
    metadata: Mapping[str, object]
    """What the newest frame said about itself."""


def watch(
    run_id: str,
    *,
    fps: float = 30.0,
    seconds: float | None = None,
    out: TextIO | None = None,
    wait_for_writer: float | None = 10.0,
) -> int:
    """Show the run as :func:`follow` does, and return an exit status.

    It is 1 if no writer appeared; whoever did not want to wait for one knows.
    """
    outcome = follow(run_id, fps=fps, seconds=seconds, out=out, wait_for_writer=wait_for_writer)
    return 0 if outcome.appeared or outcome.quit_asked else 1


def follow(
    run_id: str,
    *,
    fps: float = 30.0,
    seconds: float | None = None,
    out: TextIO | None = None,
    wait_for_writer: float | None = 10.0,
    alive: Callable[[], bool] = lambda: True,
) -> Outcome:
    """Show the run until the user quits, ``seconds`` have passed or ``alive`` says no.

    ``wait_for_writer`` bounds the wait for the first writer; None waits for ever. A writer that
    leaves is waited for without a bound.
    """
    if not 0 < fps < math.inf:
        raise ValueError(f"fps must be a positive number, got {fps}")
    stream = sys.stdout if out is None else out
    started = time.monotonic()
    end = math.inf if seconds is None else started + seconds
    patience = math.inf if wait_for_writer is None else started + wait_for_writer
    with (
        QuitSignals() as signals,
        face_for(stream, os.environ) as face,
        WatchedRun(run_id, 1.0 / fps) as run,
    ):
        while not (quit_asked := signals.quit or face.quit_asked()) and alive():
            now = time.monotonic()
            if now >= end or (now >= patience and not run.appeared):
                break
            if signals.suspend:
                signals.suspend = False
                face.suspend()
            if run.wait():
                face.show(run.reading(), run.frame)
    return Outcome(run.frames_shown, run.appeared, quit_asked, run.metadata)


def face_for(out: TextIO, environment: Mapping[str, str]) -> FullScreen | PlainLines:
    """Choose the best that the stream can show."""
    if not out.isatty() or environment.get("TERM", "dumb") == "dumb":
        return PlainLines(out)
    return FullScreen(out, colour_depth(environment, out.encoding))
