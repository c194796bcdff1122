"""The daemon's list of runs, kept up to date in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import QObject, pyqtSignal

from lanekit import errors
from lanekit.slow.daemon_client import DaemonClient
from lanekit.viewer.window.run_row import row_of
from lanekit.viewer.window.watching_thread import WatchingThread

RETRY_SECONDS = 1.0


class DaemonWatch(WatchingThread):
    """Says which runs changed, and whether the daemon answers; goes on trying when it does not."""

    runs_listed = pyqtSignal(list)
    """Every run there is, as rows: whenever a daemon begins to answer, which may be another one."""
    runs_changed = pyqtSignal(list)
    """Rows of those that changed since, as they are now."""
    daemon_changed = pyqtSignal(bool, str)
    """Whether it answers; if not, why, and if it does, why it cannot store anything, in words."""

    def __init__(self, connect: Callable[[], DaemonClient], parent: QObject | None = None) -> None:
        super().__init__("daemon-watch", parent)
        self._connect = connect
        self._said: tuple[bool, str] | None = None

    def _watch(self) -> None:
        while not self._stopped.is_set():
            try:
                self._watch_once()
            except (errors.LanekitError, ValueError) as error:
                # ValueError: gRPC's word for a channel that stop() closed meanwhile.
                self._say(False, str(error))
            self._stopped.wait(RETRY_SECONDS)

    def _watch_once(self) -> None:
        """Follow one daemon until it, or stop(), ends the stream."""
        client = self._connect()
        try:
            with self._lock:
                self._client = client
                if self._stopped.is_set():
                    return
            first = True
            for page in client.watch_runs():
                if self._stopped.is_set():
                    return
                self._say(True, page.store_problem)
                (self.runs_listed if first else self.runs_changed).emit(
                    [row_of(run) for run in page.runs]
                )
                first = False
        finally:
            with self._lock:
                self._client = None
            client.close()

    def _say(self, answers: bool, reason: str) -> None:
        if not self._stopped.is_set() and self._said != (answers, reason):
            self._said = (answers, reason)
            self.daemon_changed.emit(answers, reason)
