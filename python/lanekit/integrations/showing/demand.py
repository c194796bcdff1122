"""When to look whether a picture is wanted: at display rate, so a step costs one clock read."""

from __future__ import annotations

from dataclasses import dataclass

_UNWATCHED_NS = 100_000_000
"""How soon a viewer is noticed. A look finds its caches cold: 60 a second take 0.2 % of a core."""


@dataclass(frozen=True)
class Demand:
    """How often pictures are made while somebody watches; while nobody does, none are."""

    max_hz: float = 60.0
    """Most pictures per second; more than a screen shows are wasted."""
    every_step: bool = False
    """A picture of every step, whatever that costs."""

    def __post_init__(self) -> None:
        if not 0 < self.max_hz <= 1e6:
            raise ValueError(f"max_hz must be above 0 and at most 1,000,000, not {self.max_hz}")

    def next_look(self, now_ns: int, *, watched: bool = True) -> int:
        """Return when to look again, having looked at `now_ns`: while nobody watches, later.

        All processes of a machine look at the same moments, the multiples of the period: so the
        environments of a grid, which step together, show the same step. A look that comes late
        does not delay the next one, and one that was missed is not made up for.
        """
        if self.every_step:
            return 0
        period = int(1e9 / self.max_hz)
        if not watched:
            period *= max(1, _UNWATCHED_NS // period)
        return (now_ns // period + 1) * period
