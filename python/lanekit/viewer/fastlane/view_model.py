"""What one run's view shows and what people can do with it, without a pixel."""

from __future__ import annotations

from dataclasses import replace

from PyQt6.QtCore import QObject, pyqtSignal, pyqtSlot

from lanekit.viewer.fastlane.consumer import FastLaneConsumer, FastLaneFrameEvent
from lanekit.viewer.qt_property import pyqtProperty

_HINTS = {
    "fastlane-unavailable": "Nobody publishes this run yet.\nThe picture comes by itself.",
    "reconnecting": "The worker has left. Waiting for it to come back.",
    "connected": "Connected. Waiting for the first frame.",
}


class FastLaneViewModel(QObject):
    """The state behind ``FastLaneView.qml``."""

    changed = pyqtSignal()
    hudTextChanged = pyqtSignal()  # noqa: N815 - Qt's way of writing
    fitRequested = pyqtSignal()  # noqa: N815
    frame_shown = pyqtSignal(object)

    def __init__(self, consumer: FastLaneConsumer, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._consumer = consumer
        self._hud_text = ""
        self._status: str = consumer.status
        self._hud_visible = True
        self._paused = False
        self._recording = False
        self._eval_text = ""
        self._frames = 0
        consumer.replay_to(self._take_status, self._take_frame)

    @pyqtProperty(str, notify=hudTextChanged)
    def hudText(self) -> str:  # noqa: N802 - a QML name
        """The numbers, a line each."""
        return self._hud_text

    @pyqtProperty(str, notify=changed)
    def status(self) -> str:
        """How things stand with the run's writer."""
        return self._status

    @pyqtProperty(str, notify=changed)
    def hint(self) -> str:
        """What to say instead of a picture, or over an old one; empty while frames come."""
        if self._frames > 0 and self._status != "fastlane-unavailable":
            return ""
        return _HINTS[self._status]

    @pyqtProperty(bool, notify=changed)
    def hudVisible(self) -> bool:  # noqa: N802 - a QML name
        """Whether the numbers are shown."""
        return self._hud_visible

    @pyqtProperty(bool, notify=changed)
    def paused(self) -> bool:
        """Whether the picture stands still while training goes on."""
        return self._paused

    @pyqtProperty(bool, notify=changed)
    def recording(self) -> bool:
        """Whether what is shown is being recorded."""
        return self._recording

    @pyqtProperty(str, notify=changed)
    def evalText(self) -> str:  # noqa: N802 - a QML name
        """What an evaluation has found, a line each."""
        return self._eval_text

    @pyqtSlot()
    def toggle_hud(self) -> None:
        """Show or hide the numbers."""
        self._hud_visible = not self._hud_visible
        self.changed.emit()

    @pyqtSlot()
    def toggle_pause(self) -> None:
        """Stop at the last frame, or go on with the newest."""
        self._paused = not self._paused
        self.changed.emit()
        event = self._consumer.last_event
        if event is not None:
            # The image's memory takes later frames: what stands still needs memory of its own.
            self._show(replace(event, image=event.image.copy()) if self._paused else event)

    @pyqtSlot()
    def fit(self) -> None:
        """Show the whole picture again."""
        self.fitRequested.emit()

    def set_recording(self, recording: bool) -> None:
        """Show that a recording runs, or does not."""
        self._recording = recording
        self.changed.emit()

    def set_eval_text(self, text: str) -> None:
        """Show what an evaluation has found."""
        if text != self._eval_text:
            self._eval_text = text
            self.changed.emit()

    def _take_status(self, status: str) -> None:
        self._status = status
        self.changed.emit()

    def _take_frame(self, event: FastLaneFrameEvent) -> None:
        if not self._paused:
            self._show(event)

    def _show(self, event: FastLaneFrameEvent) -> None:
        self._frames += 1
        if self._frames == 1:
            self.changed.emit()
        if event.hud_text != self._hud_text:
            self._hud_text = event.hud_text
            self.hudTextChanged.emit()
        self.frame_shown.emit(event)
