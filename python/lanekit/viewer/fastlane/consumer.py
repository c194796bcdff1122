"""The bridge from a run's shared memory to Qt: looks every 16 ms, never waits, never gives up."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from PyQt6.QtCore import QObject, Qt, QTimer, pyqtSignal
from PyQt6.QtGui import QImage

from lanekit import errors
from lanekit.fast import FastLaneFrameInfo, FastLaneMetrics, FastLaneReader
from lanekit.viewer.fastlane.frame_image import FrameImages

Status = Literal["connected", "reconnecting", "fastlane-unavailable"]

TICK_MS = 16
_ATTACH_INTERVAL = 0.25
"""Seconds between two tries to attach: a run that is not there costs a system call each."""
_LIVENESS_INTERVAL = 0.5
"""Seconds without a frame after which the writer is asked after, and between two such questions."""


@dataclass(frozen=True, slots=True)
class FastLaneFrameEvent:
    """A frame as a window shows it."""

    image: QImage
    """Valid until the next event but one; who keeps it longer makes a copy."""
    hud_text: str
    metadata: bytes | None
    info: FastLaneFrameInfo


class FastLaneConsumer(QObject):
    """Reads one run's newest frames and says so in signals, on the thread it lives in.

    `status_changed` says "connected", "reconnecting" (the writer left or died; a new one is looked
    for) or "fastlane-unavailable" (there never was one yet); who connects late gets the current
    status and the last frame by :meth:`replay_to`.
    """

    frame_ready = pyqtSignal(object)
    status_changed = pyqtSignal(str)

    def __init__(self, run_id: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.run_id = run_id
        self._reader: FastLaneReader | None = None
        self._images: FrameImages | None = None
        self._status: Status = "fastlane-unavailable"
        self._last_event: FastLaneFrameEvent | None = None
        self._heard_at = 0.0
        self._next_try = 0.0
        self.problem = ""
        """Why the run can not be attached, in words; empty while there is none."""
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self.tick)

    @property
    def status(self) -> Status:
        """How things stand with the run's writer."""
        return self._status

    @property
    def last_event(self) -> FastLaneFrameEvent | None:
        """The frame shown last."""
        return self._last_event

    def start(self) -> None:
        """Begin to look."""
        self.tick()
        self._timer.start()

    def stop(self) -> None:
        """Stop looking, and leave the run: its writer no longer draws for us."""
        self._timer.stop()
        self._detach()

    def replay_to(self, on_status: Any, on_frame: Any = None) -> None:
        """Connect listeners, and tell them at once how things stand."""
        self.status_changed.connect(on_status)
        on_status(self._status)
        if on_frame is not None:
            self.frame_ready.connect(on_frame)
            if self._last_event is not None:
                on_frame(self._last_event)

    def metrics(self) -> FastLaneMetrics | None:
        """Return the run's newest numbers, which may be newer than its last frame."""
        try:
            return None if self._reader is None else self._reader.metrics()
        except errors.LanekitError:
            return None

    def tick(self) -> None:
        """Look once: emit the newest frame if there is a new one."""
        now = time.monotonic()
        if self._reader is None and (now < self._next_try or not self._attach(now)):
            return
        try:
            event = self._newest()
        except errors.LanekitError as error:
            self.problem = str(error)
            self._lose(now)
            return
        if event is not None:
            self._heard_at = now
            self._last_event = event
            self._set_status("connected")
            self.frame_ready.emit(event)
        elif now - self._heard_at >= _LIVENESS_INTERVAL:
            self._heard_at = now
            self._ask_after_the_writer(now)

    def _newest(self) -> FastLaneFrameEvent | None:
        reader = self._reader
        assert reader is not None
        if self._images is None or self._images.config != reader.config:
            self._images = FrameImages(reader.config)
        try:
            image = self._images.take(reader)
        except errors.GeometryChanged as change:
            self._images = FrameImages(change.config)
            image = self._images.take(reader)
        if image is None:
            return None
        info = reader.last_frame_info
        assert info is not None  # a frame was read
        return FastLaneFrameEvent(image, hud_text(info.metrics), info.metadata, info)

    def _attach(self, now: float) -> bool:
        self._next_try = now + _ATTACH_INTERVAL
        try:
            self._reader = FastLaneReader.attach(self.run_id)
        except errors.LanekitError as error:
            self.problem = str(error)
            return False
        self.problem = ""
        self._heard_at = now
        self._set_status("connected")
        return True

    def _ask_after_the_writer(self, now: float) -> None:
        assert self._reader is not None
        try:
            alive = self._reader.connected
        except errors.LanekitError as error:
            self.problem = str(error)
            alive = False
        # The reader moves to a new writer by itself, so it is kept.
        self._set_status("connected" if alive else "reconnecting")

    def _lose(self, now: float) -> None:
        """Let go of a segment that can not be read; a new writer makes a new one."""
        self._detach()
        self._next_try = now + _ATTACH_INTERVAL
        self._set_status("reconnecting")

    def _detach(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._images = None

    def _set_status(self, status: Status) -> None:
        if status != self._status:
            self._status = status
            self.status_changed.emit(status)


def hud_text(metrics: FastLaneMetrics) -> str:
    """Return the numbers beside the picture, a line each."""
    return (
        f"reward: {metrics.last_reward:.2f}\n"
        f"return: {metrics.rolling_return:.2f}\n"
        f"step/sec: {metrics.step_rate_hz:.1f}"
    )
