"""The daemon's list of runs, kept up to date in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from PyQt6.QtCore import QObject, pyqtSignal

from lanekit import errors
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.proto import telemetry_pb2 as pb

RETRY_SECONDS = 1.0


class DaemonWatch(QObject):
    """Says which runs changed, and whether the daemon answers; goes on trying when it does not."""

    runs_changed = pyqtSignal(list)
    """``pb.Run`` of those that changed, as they are now; all of them at first."""
    daemon_changed = pyqtSignal(bool, str)
    """Whether it answers, and if not, why, in words."""

    def __init__(self, connect: Callable[[], DaemonClient], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._connect = connect
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._client: DaemonClient | None = None
        self._thread = threading.Thread(target=self._watch, name="daemon-watch", daemon=True)

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
        said: tuple[bool, str] | None = None
        while not self._stopped.is_set():
            client = self._connect()
            with self._lock:
                self._client = client
            answer = (False, "")
            try:
                # From the beginning each time: another daemon may answer now, with other runs.
                for page in client.watch_runs():
                    if self._stopped.is_set():
                        return
                    if said != (True, ""):
                        said = (True, "")
                        self.daemon_changed.emit(*said)
                    self.runs_changed.emit(list(page.runs))
            except (errors.DaemonError, ValueError) as error:
                # ValueError: gRPC's word for a channel that stop() closed meanwhile.
                answer = (False, str(error))
            finally:
                with self._lock:
                    self._client = None
                client.close()
            if not self._stopped.is_set() and said != answer:
                said = answer
                self.daemon_changed.emit(*answer)
            self._stopped.wait(RETRY_SECONDS)


def is_live(run: pb.Run) -> bool:
    """Tell whether a run may still show something new."""
    return run.state in (pb.RUN_STATE_SUBMITTED, pb.RUN_STATE_RUNNING, pb.RUN_STATE_PAUSED)
