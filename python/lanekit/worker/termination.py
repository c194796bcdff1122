"""SIGTERM, for a training: first a request, then an exception."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

PATIENCE_SECONDS = 5.0
"""How long a training may go on after SIGTERM: less than a cancelled run's ten until SIGKILL."""


class Terminated(BaseException):
    """SIGTERM came, and the training did not end by itself. No ``Exception``: few catch it."""


class Termination:
    """Remembers that SIGTERM came, and sees to it that it is obeyed.

    Without a lock: a signal's handler may interrupt whoever holds one.
    """

    def __init__(self) -> None:
        self._asked_at: float | None = None
        self._enforcing = False

    @property
    def asked(self) -> bool:
        """Whether SIGTERM came."""
        return self._asked_at is not None

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Take SIGTERM while this lasts; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, self._take)
        _forks.guarded = True
        try:
            yield
        finally:
            _forks.guarded = False
            # None: a handler that was not set from Python, and can not be set again from here.
            signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)

    @contextlib.contextmanager
    def enforced(self) -> Iterator[None]:
        """Let a second SIGTERM raise :class:`Terminated` in here."""
        self._enforcing = True
        try:
            yield
        finally:
            self._enforcing = False

    def insist(self) -> None:
        """Send the second SIGTERM if the first has not been obeyed for long; from any thread."""
        asked_at = self._asked_at
        if not self._enforcing or asked_at is None:
            return
        if time.monotonic() - asked_at >= PATIENCE_SECONDS:
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGTERM)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._asked_at is None:
            self._asked_at = time.monotonic()
        elif self._enforcing:
            self._enforcing = False
            raise Terminated("SIGTERM")


class _Forks:
    """Gives processes that a training forks off SIGTERM's usual meaning: they end.

    ``Process.terminate()`` may come before the new process has run a line of Python, which would
    forget the signal. So SIGTERM waits, from before the fork until the new process is ready.
    """

    def __init__(self) -> None:
        self.guarded = False
        self._of_thread = threading.local()

    def before(self) -> None:
        """Hold SIGTERM back."""
        if self.guarded:
            self._of_thread.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def in_parent(self) -> None:
        """Let it in again."""
        mask = self._of_thread.__dict__.pop("mask", None)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def in_child(self) -> None:
        """Let it in, and let it end this process."""
        if hasattr(self._of_thread, "mask"):
            self.guarded = False
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.in_parent()


_forks = _Forks()
os.register_at_fork(
    before=_forks.before, after_in_parent=_forks.in_parent, after_in_child=_forks.in_child
)
