"""An object with a thread of its own, which no window ever waits for."""

from __future__ import annotations

import threading

from PyQt6.QtCore import QCoreApplication, QObject, pyqtSignal

_PATIENCE = 15.0
"""Seconds that the whole program waits at its end for what a thread still has to store."""

_at_work: set[OwnThread] = set()
"""Those whose threads have not ended: they must not go before them."""


class OwnThread(QObject):
    """Works in a thread and tells about it by signals, which arrive in the window's thread.

    A window that goes away calls :meth:`leave` and forgets this object; the object stays until its
    thread has ended.
    """

    ended = pyqtSignal()

    def __init__(self, name: str) -> None:
        super().__init__()
        self._left = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.ended.connect(self._forget)  # in the window's thread

    def start(self) -> None:
        """Begin."""
        _at_work.add(self)
        application = QCoreApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self._leave_and_wait)
        self._thread.start()

    def leave(self) -> None:
        """Have the thread end, soon; nothing that it still does is waited for."""
        with self._changed:
            self._left = True
            self._changed.notify_all()

    @property
    def is_alive(self) -> bool:
        """Whether the thread still works."""
        return self._thread.is_alive()

    def run(self) -> None:
        """Do the work, until `_left` is true."""
        raise NotImplementedError

    def _work(self) -> None:
        try:
            self.run()
        finally:
            self.ended.emit()

    def _leave_and_wait(self) -> None:
        self.leave()
        self._thread.join(_PATIENCE)

    def _forget(self) -> None:
        self._thread.join()
        application = QCoreApplication.instance()
        if application is not None:
            application.aboutToQuit.disconnect(self._leave_and_wait)
        _at_work.discard(self)
