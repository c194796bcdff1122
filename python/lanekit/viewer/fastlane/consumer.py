"""The bridge from a run's shared memory to Qt: looks every 16 ms, never waits, never gives up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from PyQt6.QtCore import QMetaMethod, QObject, QTimer, pyqtSignal
from PyQt6.QtGui import QImage

from lanekit import errors
from lanekit.fast import FastLaneFrameInfo, FastLaneMetrics, FastLaneReader
from lanekit.segments import inspect_segment, segment_name
from lanekit.viewer.fastlane.frame_image import FrameImages
from lanekit.viewer.fastlane.turns import TICK_MS, TurnTimer

Status = Literal["connected", "reconnecting", "fastlane-unavailable"]

SUSPENDED_TICK_MS = 500
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
    for) or "fastlane-unavailable" (there was none yet). Who connects to it late is told the
    status, too, in the event loop's next turn; the others then hear it again.
    """

    frame_ready = pyqtSignal(object)
    status_changed = pyqtSignal(str)

    def __init__(
        self,
        run_id: str,
        parent: QObject | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parent)
        self.run_id = run_id
        self._clock = clock
        self._reader: FastLaneReader | None = None
        self._images: FrameImages | None = None
        self._status: Status = "fastlane-unavailable"
        self._last_event: FastLaneFrameEvent | None = None
        self._heard_at = 0.0
        self._next_try = 0.0
        self._suspended = False
        self.problem = ""
        """Why the run can not be shown, in words; empty while there is nothing to say."""
        self._timer = TurnTimer(TICK_MS, self)
        self._timer.timeout.connect(self.tick)
        # Only from here on does a new listener mean a late one.
        self._retell: QTimer | None = QTimer(self)
        self._retell.setSingleShot(True)
        self._retell.timeout.connect(self._tell_status)

    def connectNotify(self, signal: QMetaMethod) -> None:  # noqa: N802 - Qt's name
        """Plan to tell a new listener how things stand."""
        retell = getattr(self, "_retell", None)
        if retell is not None and signal.name() == b"status_changed":
            retell.start(0)

    @property
    def status(self) -> Status:
        """How things stand with the run's writer."""
        return self._status

    @property
    def last_event(self) -> FastLaneFrameEvent | None:
        """The frame emitted last."""
        return self._last_event

    @property
    def suspended(self) -> bool:
        """Whether frames are left alone for now."""
        return self._suspended

    @property
    def attached(self) -> bool:
        """Whether the run's memory is mapped here."""
        return self._reader is not None

    def start(self) -> None:
        """Begin to look."""
        self.tick()
        self._timer.start()

    def stop(self) -> None:
        """Stop looking, and leave the run: its writer no longer draws for us."""
        self._timer.stop()
        self.let_go()

    def let_go(self) -> None:
        """Unmap the run's memory; works even when the rest of this object is gone."""
        self._detach()

    def suspend(self) -> None:
        """Leave the run, so that nothing is drawn for nobody; only its writer's state is told."""
        if not self._suspended:
            self._suspended = True
            self._timer.set_interval(SUSPENDED_TICK_MS)
            self._detach(keep_images=True)

    def resume(self) -> None:
        """Read frames again after :meth:`suspend`."""
        if self._suspended:
            self._suspended = False
            self._timer.set_interval(TICK_MS)
            self._next_try = 0.0

    def metrics(self) -> FastLaneMetrics | None:
        """Return the run's newest numbers, which may be newer than its last frame."""
        try:
            return None if self._reader is None else self._reader.metrics()
        except errors.LanekitError:
            return None

    def tick(self) -> None:
        """Look once: emit the newest frame if there is a new one."""
        if self._suspended:
            self._look_from_afar()
            return
        now = self._clock()
        if self._reader is None and (now < self._next_try or not self._attach(now)):
            return
        try:
            event = self._newest()
        except (errors.LanekitError, MemoryError) as error:
            self._lose(now, str(error))
            return
        if event is not None:
            self._heard_at = now
            self._last_event = event
            if self._status != "connected":
                self._ask_after_the_writer()  # a dead writer's last frame is a picture, too
            self.frame_ready.emit(event)
        elif now - self._heard_at >= _LIVENESS_INTERVAL:
            self._heard_at = now
            self._ask_after_the_writer()

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
        info = reader.last_frame_info
        if image is None or info is None or self._is_old(info):
            return None
        return FastLaneFrameEvent(image, hud_text(info.metrics), info.metadata, info)

    def _is_old(self, info: FastLaneFrameInfo) -> bool:
        """Whether it was emitted before: a reader that joins again gets the last frame again."""
        last = self._last_event
        return last is not None and (last.info.seq, last.info.timestamp_ns) == (
            info.seq,
            info.timestamp_ns,
        )

    def _attach(self, now: float) -> bool:
        self._next_try = now + _ATTACH_INTERVAL
        try:
            self._reader = FastLaneReader.attach(self.run_id)
        except errors.LanekitError as error:
            self.problem = str(error)
            self._set_status(self._status_without_writer())
            return False
        self.problem = ""
        self._heard_at = now
        self._ask_after_the_writer()
        return True

    def _ask_after_the_writer(self) -> None:
        """Tell whether it lives. The reader moves to a new writer by itself, so it is kept."""
        assert self._reader is not None
        try:
            alive = self._reader.connected
        except errors.LanekitError as error:
            self.problem = str(error)
            alive = False
        self._set_status("connected" if alive else "reconnecting")

    def _look_from_afar(self) -> None:
        """Tell how the writer is without counting as one who watches."""
        try:
            alive = not inspect_segment(segment_name("frame", self.run_id)).orphan
        except errors.LanekitError:
            alive = False
        self._set_status("connected" if alive else self._status_without_writer())

    def _status_without_writer(self) -> Status:
        return "fastlane-unavailable" if self._status == "fastlane-unavailable" else "reconnecting"

    def _lose(self, now: float, problem: str) -> None:
        """Let go of a segment that can not be read; a new writer makes a new one."""
        self._detach()
        self.problem = problem
        self._next_try = now + _ATTACH_INTERVAL
        self._set_status("reconnecting")

    def _detach(self, *, keep_images: bool = False) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if not keep_images:
            self._images = None

    def _set_status(self, status: Status) -> None:
        if status != self._status:
            self._status = status
            self._tell_status()

    def _tell_status(self) -> None:
        self.status_changed.emit(self._status)


def hud_text(metrics: FastLaneMetrics) -> str:
    """Return the numbers beside the picture, a line each."""
    return (
        f"reward: {metrics.last_reward:.2f}\n"
        f"return: {metrics.rolling_return:.2f}\n"
        f"step/sec: {metrics.step_rate_hz:.1f}"
    )
