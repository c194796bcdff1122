"""Let a training take turns with others: some steps, then it waits until it may go on.

The environment's own ``step`` is where all frameworks come by, however they wrap it. It is replaced
in this process alone, for every mode alike; the process that draws a shadow has the original.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

_NO_END = 1 << 62


class Took(NamedTuple):
    """What one turn took."""

    steps: int
    train_seconds: float
    train_cpu_seconds: float
    """Of this process."""


class Pace:
    """Calls `between` before the first step of a training with None, then after each of its turns.

    What `between` does is not in the time that a turn took. After the last turn a training goes on
    as it likes.
    """

    def __init__(self, steps: int, between: Callable[[Took | None], None]) -> None:
        self._steps = steps
        self._between = between
        self._steps_left = _NO_END
        self._turns_left = 0
        self._began: tuple[float, float] | None = None

    def govern(self, environment: type) -> None:
        """Have all steps of these environments counted."""
        step = environment.step  # type: ignore[attr-defined]

        def counted(env: Any, action: Any) -> Any:
            if self._steps_left == 0:
                self._next_turn()
            self._steps_left -= 1
            return step(env, action)

        environment.step = counted  # type: ignore[attr-defined]

    def start(self, turns: int) -> None:
        """Let a training begin that has so many turns."""
        self._turns_left = turns
        self._began = None
        self._steps_left = 0

    def _next_turn(self) -> None:
        took = None
        if self._began is not None:
            wall, cpu = self._began
            took = Took(self._steps, time.perf_counter() - wall, time.process_time() - cpu)
            self._turns_left -= 1
        self._between(took)
        self._steps_left = self._steps if self._turns_left else _NO_END
        self._began = time.perf_counter(), time.process_time()
