"""The viewer where there is no screen: lines of numbers, for a pipe or a dumb terminal."""

from __future__ import annotations

import math
import os
import signal
import time
from typing import Self, TextIO

from lanekit import FastLaneFrame
from lanekit.viewer.terminal.hud import Reading, State, status_line
from lanekit.viewer.terminal.stream import write


class PlainLines:
    """One line per second while the run is live, and one whenever the state changes."""

    def __init__(self, out: TextIO) -> None:
        """Write to ``out``, whatever it is."""
        self._out = out
        self._due = -math.inf
        self._state: State | None = None
        self._unread = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, reading: Reading, frame: FastLaneFrame | None) -> None:
        """Write a line if one is due."""
        now = time.monotonic()
        due = reading.state is State.LIVE and now >= self._due
        if reading.state is self._state and not due:
            return
        self._due, self._state = now + 1.0, reading.state
        try:
            write(self._out, status_line(reading) + "\n")
        except BrokenPipeError:
            # Whoever reads the pipe has seen enough. What is still buffered must not fail at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())
            self._unread = True

    def quit_asked(self) -> bool:
        """Say whether nobody reads the lines any more; there are no keys here."""
        return self._unread

    def suspend(self) -> None:
        """Stop this process; there is nothing to give back."""
        os.kill(os.getpid(), signal.SIGSTOP)
