"""Painting at a pace that people can follow, whatever the pace of what comes in."""

from __future__ import annotations

from collections import deque
from typing import Any

from PyQt6.QtCore import QObject, QTimer, pyqtSignal

RENDER_QUEUE_SIZE = 32
RENDER_DELAY_MS = 100
RENDER_BOOTSTRAP_TIMEOUT_MS = 500


class RenderingSpeedRegulator(QObject):
    """Takes payloads at any rate and hands out the freshest, one each interval.

    What comes before :meth:`start` is kept, the newest 32; if nobody starts it, it starts itself
    half a second after the first payload. Once stopped, it starts when it is told to. `dropped`
    counts what was never handed out.
    """

    payload_ready = pyqtSignal(object)

    def __init__(
        self, *, render_delay_ms: int = RENDER_DELAY_MS, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._queue: deque[Any] = deque(maxlen=RENDER_QUEUE_SIZE)
        self.dropped = 0
        self._stopped = False
        self._drain_timer = QTimer(self)
        self.set_delay(render_delay_ms)
        self._drain_timer.timeout.connect(self._drain)
        self._bootstrap = QTimer(self)
        self._bootstrap.setSingleShot(True)
        self._bootstrap.setInterval(RENDER_BOOTSTRAP_TIMEOUT_MS)
        self._bootstrap.timeout.connect(self.start)

    @property
    def running(self) -> bool:
        """Whether payloads are handed out."""
        return self._drain_timer.isActive()

    @property
    def waiting(self) -> int:
        """How many payloads are in the queue."""
        return len(self._queue)

    def set_delay(self, render_delay_ms: int) -> None:
        """Choose another pace."""
        if render_delay_ms < 1:
            raise ValueError(f"render_delay_ms is at least 1, not {render_delay_ms}")
        self._drain_timer.setInterval(render_delay_ms)

    def start(self) -> None:
        """Begin to hand out: the freshest of what is there at once. May be called twice."""
        self._stopped = False
        self._bootstrap.stop()
        if not self.running:
            self._drain_timer.start()
            self._drain()

    def stop(self) -> None:
        """Hand out nothing more; what is waiting stays, and what comes is kept as before."""
        self._stopped = True
        self._bootstrap.stop()
        self._drain_timer.stop()

    def submit_payload(self, payload: Any) -> None:
        """Take a payload, in place of the oldest if there are too many."""
        if len(self._queue) == RENDER_QUEUE_SIZE:
            self.dropped += 1
        self._queue.append(payload)
        if not (self.running or self._stopped or self._bootstrap.isActive()):
            self._bootstrap.start()

    def _drain(self) -> None:
        if not self._queue:
            return
        freshest = self._queue.pop()
        self.dropped += len(self._queue)
        self._queue.clear()
        self.payload_ready.emit(freshest)
