"""Ways to step a batch of environments in another process, one short module each.

Each module has ``PACKAGE``, the distribution it needs; ``CALLS``, the call that is timed; and
``begin(task)``, which starts the other process and returns a function that makes one round trip:
actions there, observations back.

They run as processes of their own, without lanekit unless it is what is measured: ``python -m
bench.peers.steppers NAME TASK`` (TASK is JSON, see :class:`Task`) writes one line of JSON about
itself and then answers each ``{"steps": N, "hz": H, "seconds": S}`` on its standard input with the
nanoseconds that each of N steps took, or of as many as S seconds had room for. ``hz`` 0 is flat
out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

Step = Callable[[], object]


@dataclass(frozen=True)
class Task:
    """What is stepped, and how."""

    envs: int = 4096
    obs: int = 100
    act: int = 12
    work: str = "touch"
    """What the engine does in a step. "touch": one number, so that only the way is measured;
    "write": all observations and rewards."""
    take: str = "view"
    """What the trainer does with the observations. "view": looks at one; "copy": copies all."""
    wait: str = "hybrid"
    pipelined: bool = False
    cores: tuple[int, int] | None = None
    """The trainer's core and the engine's; None: wherever the system puts them."""

    def pin_trainer(self) -> None:
        """Keep this process on the trainer's core."""
        if self.cores is not None:
            os.sched_setaffinity(0, {self.cores[0]})

    def pin_engine(self) -> None:
        """Keep this process on the engine's core."""
        if self.cores is not None:
            os.sched_setaffinity(0, {self.cores[1]})
