"""How soon a proxy that ended is replaced, and when that is given up for a while."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

from lanekit.slow.sending.proxy import EXIT_REFUSED, EXIT_SPOOLED

SHORT_LIFE = 10.0
"""A proxy that ends within so many seconds is replaced later each time ..."""
MAX_DELAY = 30.0
"""... but after so many at the latest."""
MAX_FAILURES = 5
"""One that fails by itself (no signal) so soon, more often in a row than this, is given up."""
REVISIT = 600.0
"""Seconds until one that was given up is tried again; twice as many each time ..."""
MAX_REVISIT = 86400.0
"""... up to a day."""


@dataclass(slots=True)
class GivenUp:
    """A spool that is left alone until a time of the monotonic clock."""

    until: float
    delay: float


class Patience:
    """What is known of the proxies of each spool."""

    def __init__(self) -> None:
        self._short_lives: dict[Path, int] = {}
        self._failures: dict[Path, int] = {}
        self._given_up: dict[Path, GivenUp] = {}

    def delay(self, spool: Path, lived: float, status: int | None) -> float | None:
        """Seconds until a proxy that ended like this is replaced. None: give it up."""
        short = lived < SHORT_LIFE
        # Who kills proxies, however often, must not be able to end a run's telemetry.
        failed = short and status is not None and status > 0 and status != EXIT_SPOOLED
        lives = self._short_lives[spool] = self._short_lives.get(spool, 0) + 1 if short else 0
        failures = self._failures[spool] = self._failures.get(spool, 0) + 1 if failed else 0
        if status == EXIT_REFUSED or failures > MAX_FAILURES:
            return None
        if not short:
            self._given_up.pop(spool, None)
        return 0.0 if lives < 2 else min(0.2 * 2 ** min(lives, 16), MAX_DELAY)

    def give_up(self, spool: Path) -> float:
        """Leave a spool alone for some time, which is returned."""
        before = self._given_up.get(spool)
        delay = REVISIT if before is None else min(2 * before.delay, MAX_REVISIT)
        self._given_up[spool] = GivenUp(time.monotonic() + delay, delay)
        return delay

    def give_up_for_good(self, spool: Path) -> None:
        """Leave a spool alone from now on."""
        self._given_up[spool] = GivenUp(math.inf, math.inf)

    def is_due(self, spool: Path) -> bool:
        """Tell whether a spool may be taken up."""
        given_up = self._given_up.get(spool)
        return given_up is None or time.monotonic() >= given_up.until

    def forget(self, spool: Path) -> None:
        """Forget a spool with which all is well."""
        for known in (self._short_lives, self._failures, self._given_up):
            known.pop(spool, None)
