"""When the simulation may step: as asked, by itself, with the clock, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum


class Mode(Enum):
    """How simulated time goes on."""

    REALTIME = "realtime"
    """With the clock on the wall: a trainer's steps are held back to it, and without a trainer the
    engine steps by itself."""
    DETERMINISTIC = "deterministic"
    """Only when a trainer steps, and then at once."""
    FAST = "fast"
    """A trainer's steps at once, and without a trainer as fast as the machine can."""
    PAUSED = "paused"
    """Not at all: a trainer's steps wait. A number of steps can be let through."""


# Simulated time that was lost to a slow machine is not caught up with beyond this.
_MOST_BEHIND = 0.1
_WINDOW = 1.0


class Pace:
    """Says whether the next step may be made now."""

    def __init__(
        self, step_seconds: float, mode: Mode, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin in a mode."""
        self._step_seconds = step_seconds
        self._clock = clock
        self.mode = mode
        self.steps_left = 0
        self._due = clock()
        self._window_began = self._due
        self._window_steps = 0
        self._factor = 0.0

    def set(self, mode: Mode, steps: int = 0) -> None:
        """Go over to a mode; `steps` are those that a pause lets through."""
        if steps and mode is not Mode.PAUSED:
            raise ValueError("a number of steps goes with the mode 'paused'")
        self.mode = mode
        self.steps_left = steps
        self._due = self._clock()

    @property
    def may_step(self) -> bool:
        """Whether a step that is asked for may be made now."""
        if self.mode is Mode.PAUSED:
            return self.steps_left > 0
        return self.mode is not Mode.REALTIME or self._clock() >= self._due

    @property
    def by_itself(self) -> bool:
        """Whether the engine steps without being asked, if nobody is there to ask."""
        return self.mode in (Mode.REALTIME, Mode.FAST) or self.steps_left > 0

    @property
    def seconds_until_due(self) -> float:
        """How long until the clock lets the next step through; 0 if that is no matter of time."""
        if self.mode is not Mode.REALTIME:
            return 0.0
        return max(0.0, self._due - self._clock())

    @property
    def realtime_factor(self) -> float:
        """Simulated seconds in each second of the last while."""
        self._turn_window()
        return self._factor

    def stepped(self) -> None:
        """Note that a step was made."""
        now = self._clock()
        self._due = max(self._due + self._step_seconds, now - _MOST_BEHIND)
        if self.steps_left:
            self.steps_left -= 1
        self._window_steps += 1
        self._turn_window()

    def _turn_window(self) -> None:
        now = self._clock()
        passed = now - self._window_began
        if passed >= _WINDOW:
            self._factor = self._window_steps * self._step_seconds / passed
            self._window_began, self._window_steps = now, 0
