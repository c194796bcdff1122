"""Pause and stop a training loop: ask :class:`Steering` at every step whether to go on."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

from lanekit.slow.control import ControlInbox

LOOK_EVERY = 0.05
"""Seconds between two looks at what was asked for: a step may be a thousand times shorter."""

_now = time.monotonic


class Steering:
    """Hears what ``lanekit control`` asks of the run; hears nothing if no daemon started it.

    `keep_going`, e.g. that of a worker's runtime, is asked instead if it is given: it waits while
    the run is paused, and returns False to end it.

    >>> steering = Steering()
    >>> steering.keep_going()
    True
    """

    def __init__(self, keep_going: Callable[[], bool] | None = None) -> None:
        self._ask = keep_going or open_inbox().wait_while_paused
        self._next_look = 0.0
        self._going = True

    def keep_going(self) -> bool:
        """Stay here while the run is paused; False means: end the training now."""
        now = _now()
        if self._going and now >= self._next_look:
            self._going = self._ask()
            self._next_look = _now() + LOOK_EVERY
        return self._going


def open_inbox() -> ControlInbox:
    """Return where commands come in, or an inbox that stays empty, with a warning why."""
    try:
        return ControlInbox.from_environment()
    except OSError as error:
        warnings.warn(
            f"nobody can pause or stop this training: {error} (LANEKIT_CONTROL_FIFO); only the "
            "process that listens there should set that variable (training goes on)",
            stacklevel=3,
        )
        return ControlInbox(None)
