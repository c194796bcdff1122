"""When consumers look: each at a moment of its own, and in a turn of the event loop of its own.

Timers of Qt that are due together are served together, and nothing else until the last of them has
been: with many runs on the screen, keys and clicks would wait for the pictures of all.
"""

from __future__ import annotations

import itertools
import math
import threading
import time

from PyQt6 import sip
from PyQt6.QtCore import QCoreApplication, QObject, Qt, QTimer, pyqtSignal

TICK_MS = 16
_GOLDEN_RATIO = 0.6180339887498949
_SOON = 0.001
"""Seconds that Qt's timers may be early."""


class TurnTimer(QObject):
    """Comes back again and again, like a QTimer; of those that are due, one in each turn."""

    timeout = pyqtSignal()

    def __init__(self, milliseconds: int, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._seconds = milliseconds / 1000
        self._phase = phase(next(_numbers))
        self.due = math.inf
        """When it wants its turn, by the monotonic clock."""

    @property
    def active(self) -> bool:
        """Whether it comes back."""
        return self.due != math.inf

    @property
    def interval_ms(self) -> int:
        """Milliseconds from one turn to the next."""
        return round(self._seconds * 1000)

    def start(self) -> None:
        """Come at the next moment that is this one's own. May be called twice."""
        now = time.monotonic()
        self.due = now + (self._phase - now) % (TICK_MS / 1000)
        _clock().add(self)

    def stop(self) -> None:
        """Come no more. May be called twice."""
        if self.active:
            self.due = math.inf
            _clock().remove(self)

    def set_interval(self, milliseconds: int) -> None:
        """Come at another pace; the phase stays."""
        self._seconds = milliseconds / 1000
        if self.active:
            self.start()

    def plan_next(self, now: float) -> None:
        """Want another turn after this one. Turns that were missed are lost."""
        self.due += max(1, math.ceil((now - self.due) / self._seconds)) * self._seconds


class _Clock(QObject):
    """Gives a thread's timers their turns."""

    def __init__(self, parent: QObject | None) -> None:
        super().__init__(parent)
        self._timers: list[TurnTimer] = []
        self._next = QTimer(self)
        self._next.setTimerType(Qt.TimerType.PreciseTimer)
        self._next.setSingleShot(True)
        self._next.timeout.connect(self._serve_one)

    def add(self, timer: TurnTimer) -> None:
        """Serve a timer, or serve it at another time."""
        if timer not in self._timers:
            self._timers.append(timer)
        self._wait()

    def remove(self, timer: TurnTimer) -> None:
        """Serve a timer no more."""
        self._timers = [each for each in self._timers if each is not timer]
        self._wait()

    def _serve_one(self) -> None:
        # Some may have gone with their parents, without a word.
        self._timers = [timer for timer in self._timers if not sip.isdeleted(timer)]
        now = time.monotonic()
        timer = min(self._timers, key=_due, default=None)
        if timer is None or timer.due > now + _SOON:
            self._wait()
            return
        timer.plan_next(now)
        self._wait()  # before the turn, in which a loop of its own may run
        timer.timeout.emit()

    def _wait(self) -> None:
        if not self._timers:
            self._next.stop()
            return
        seconds = min(timer.due for timer in self._timers) - time.monotonic()
        self._next.start(max(0, round(seconds * 1000)))


_numbers = itertools.count()
_of_thread = threading.local()


def _due(timer: TurnTimer) -> float:
    return timer.due


def _clock() -> _Clock:
    """Return this thread's clock."""
    clock: _Clock | None = getattr(_of_thread, "clock", None)
    if clock is None or sip.isdeleted(clock):
        application = QCoreApplication.instance()
        is_main = threading.current_thread() is threading.main_thread()
        clock = _of_thread.clock = _Clock(application if is_main else None)
    return clock


def phase(number: int) -> float:
    """Return when in each tick the timer with this number has its turn, in seconds.

    Each has a moment of its own, as far from the others' as can be, however many there are.
    """
    return number * _GOLDEN_RATIO % 1 * TICK_MS / 1000
