"""Telemetry that never ends the training it tells of."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from lanekit.slow.emit import Emitter


class LastingEmitter(Emitter):
    """An :class:`Emitter` that outlives its reader.

    When a line can not be written (the reader has gone, the disk behind a redirection is full), one
    warning on stderr says so, and further lines are dropped.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._own_stream = stream
        self._lost = False

    def write_line(self, text: str) -> None:
        """Write a line if anybody can still take it."""
        if self._lost:
            return
        try:
            super().write_line(text)
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            self._lost = True
            warn(
                f"nobody takes this worker's telemetry any more ({error}); training goes on "
                "without it. `lanekit run` and `lanekit proxy` keep what a worker prints"
            )
            if self._own_stream is None:
                _send_stdout_nowhere()


def _send_stdout_nowhere() -> None:
    """Let other prints succeed, too, and Python's flush at its exit."""
    # Suppressed: stdout is not a file. Then nothing is flushed into one at exit either.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def warn(text: str) -> None:
    """Say something on stderr, if that is still there."""
    with contextlib.suppress(OSError, ValueError):
        print(f"lanekit: {text}", file=sys.stderr, flush=True)
