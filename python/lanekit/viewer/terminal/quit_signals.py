"""The signals by which a user ends or suspends a viewer."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Self


class QuitSignals:
    """Turns signals into flags for as long as it is entered, then puts the handlers back.

    A flag, unlike an exception, can not cut an escape sequence or a clean-up in two. A signal that
    was ignored before, as under ``nohup``, stays ignored. Off the main thread, where Python allows
    no handlers, nothing happens.
    """

    def __init__(self) -> None:
        """Prepare; no handler is touched before entering."""
        self.quit = False
        self.suspend = False
        self._former: dict[signal.Signals, Callable[[int, FrameType | None], object] | int] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
                former = signal.getsignal(number)
                if former is not None and former != signal.SIG_IGN:
                    self._former[number] = former
                    signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)

    def _note(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGTSTP:
            self.suspend = True
        else:
            self.quit = True
