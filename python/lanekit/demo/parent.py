"""The process that wants a training, which must not outlive it."""

from __future__ import annotations

import os
import select
import time
from typing import Self

_LOOK_SECONDS = 0.1


class Parent:
    """A process, known by more than its number, which the system may give out again."""

    def __init__(self, pid: int) -> None:
        """Prepare to watch a process; 0 means that nobody in particular wants the training."""
        self._pid = pid
        self._descriptor: int | None = None
        self._next_look = 0.0
        self._gone = False

    def __enter__(self) -> Self:
        if self._pid:
            try:
                self._descriptor = os.pidfd_open(self._pid)
            except ProcessLookupError:
                self._gone = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    @property
    def gone(self) -> bool:
        """Whether it has ended; looked up ten times a second."""
        now = time.monotonic()
        if self._descriptor is not None and not self._gone and now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            self._gone = bool(poll.poll(0))
        return self._gone
