"""A thread that asks a daemon, and can be ended while it waits for the answer."""

from __future__ import annotations

import threading

from PyQt6.QtCore import QObject

from lanekit.slow.daemon_client import DaemonClient


class WatchingThread(QObject):
    """Runs ``_watch`` until ``_stopped`` is set; ``_client``, kept under ``_lock``, is closed then.

    What it finds out is told by signals, which arrive in the thread of whoever takes them.
    """

    def __init__(self, name: str, parent: QObject | None) -> None:
        super().__init__(parent)
        self._client: DaemonClient | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=name, daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no more; returns when the thread has ended."""
        self._stopped.set()
        with self._lock:
            if self._client is not None:
                self._client.close()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        raise NotImplementedError
