"""How long a test waits: for as long as it takes on this machine, but not for ever.

Nothing is to be learnt from how long something took, so all limits are watchdogs: generous, and the
more so the busier the machine is. Every limit of a test goes through :func:`patience`, which
tests/test_hygiene.py checks. The exception is a time-out that is itself what is tested.

Set LANEKIT_TEST_PATIENCE to a factor to have all limits multiplied by it instead.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LOAD = Path("/proc/loadavg")
_AT_REST = 2.0


def patience(seconds: float = 60.0) -> float:
    """Return a limit for what takes far less than `seconds` on a machine at rest."""
    return seconds * _stretch()


def patience_ms(seconds: float = 60.0) -> int:
    """Return the same in milliseconds, as Qt and browsers want it."""
    return round(patience(seconds) * 1000)


class Watchdog:
    """Fails a loop that goes on and on: ``check()`` raises once it has lasted too long."""

    def __init__(self, what: str, seconds: float = 60.0) -> None:
        self._what = what
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Count from now on: there was progress."""
        self._begun = time.monotonic()

    def check(self) -> None:
        """Raise if it has lasted too long, on a machine as busy as this one is now."""
        waited = time.monotonic() - self._begun
        if waited > self._seconds and waited > patience(self._seconds):
            raise AssertionError(f"waited {waited:.0f} s in vain for {self._what}")


def until(
    condition: Callable[[], Any], what: str = "it", seconds: float = 60.0, pause: float = 0.01
) -> Any:
    """Wait until the condition gives something true, and return that; fail if it never does."""
    watchdog = Watchdog(what, seconds)
    while not (value := condition()):
        watchdog.check()
        time.sleep(pause)
    return value


def _stretch() -> float:
    """Return how many times slower than at rest things may be here."""
    if wanted := os.environ.get("LANEKIT_TEST_PATIENCE"):
        return float(wanted)
    average, _, _, running, _ = _LOAD.read_text(encoding="ascii").split()
    # The average takes a minute to rise; those that want a core at this moment show at once.
    wanting = max(float(average), int(running.partition("/")[0]))
    return _AT_REST + wanting / (os.cpu_count() or 1)
