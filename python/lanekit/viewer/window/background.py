"""Work that would block the window, done in threads; its outcome comes back to the window's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from PyQt6.QtCore import QObject, pyqtSignal

from lanekit.slow.daemon_client import DaemonClient

Answer = TypeVar("Answer")

_CLOSING_SECONDS = 10.0


class Background(QObject):
    """Runs functions beside the window, and asks the daemon questions there."""

    _over = pyqtSignal(object, object)

    def __init__(self, connect: Callable[[], DaemonClient], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._connect = connect
        self._lock = threading.Lock()
        self._closed = False
        self._clients: set[DaemonClient] = set()
        self._threads: set[threading.Thread] = set()
        self._over.connect(self._tell)

    @property
    def busy(self) -> bool:
        """Whether something is still going on."""
        return bool(self._threads)

    def run(
        self,
        work: Callable[[], Answer],
        done: Callable[[Answer], None],
        failed: Callable[[str], None],
    ) -> None:
        """Do `work` in a thread; then call `done` with its answer, or `failed` with the reason."""

        def do() -> None:
            outcome: Callable[[], None]
            try:
                answer = work()
                outcome = lambda: done(answer)  # noqa: E731 - as short as it can be
            except Exception as error:  # whatever it is, the window shows it
                # Not the error itself, which would keep all that its frames hold.
                words = str(error) or type(error).__name__
                outcome = lambda: failed(words)  # noqa: E731
            if not self._closed:
                self._over.emit(threading.current_thread(), outcome)

        if not self._closed:
            thread = threading.Thread(target=do, name="window-background", daemon=True)
            self._threads.add(thread)
            thread.start()

    def ask(
        self,
        question: Callable[[DaemonClient], Answer],
        done: Callable[[Answer], None],
        failed: Callable[[str], None],
    ) -> None:
        """Ask the daemon in a thread."""
        self.run(lambda: self.ask_here(question), done, failed)

    def close(self) -> None:
        """End all that goes on; nothing is told any more."""
        with self._lock:
            self._closed = True
            clients = list(self._clients)
        for client in clients:
            client.close()
        for thread in self._threads:
            thread.join(_CLOSING_SECONDS)
        self._threads.clear()

    def ask_here(self, question: Callable[[DaemonClient], Answer]) -> Answer:
        """Ask the daemon in the calling thread, which :meth:`close` can end; not the window's."""
        client = self._connect()
        try:
            with self._lock:
                if self._closed:
                    raise RuntimeError("the window was closed")
                self._clients.add(client)
            return question(client)
        finally:
            with self._lock:
                self._clients.discard(client)
            client.close()

    def _tell(self, thread: Any, outcome: Callable[[], None]) -> None:
        thread.join()
        self._threads.discard(thread)
        if not self._closed:
            outcome()
