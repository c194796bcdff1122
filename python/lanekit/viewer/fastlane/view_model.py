"""What one run's view shows and what people can do with it, without a pixel."""

from __future__ import annotations

import time
from typing import Any

from PyQt6.QtCore import QObject, QTimer, pyqtSignal, pyqtSlot

from lanekit.viewer.fastlane.actions import ACTIONS, MOUSE
from lanekit.viewer.fastlane.consumer import FastLaneConsumer, FastLaneFrameEvent
from lanekit.viewer.fastlane.zoom import ZoomModel
from lanekit.viewer.qt_property import pyqtProperty

HUD_MS = 100
"""Milliseconds between two updates of the numbers: nobody reads faster, and text costs time."""
NOTICE_MS = 8000
HIDDEN_MS = 1500
"""Milliseconds out of sight after which a run is no longer read; switching tabs is quicker."""

_HINTS = {
    "fastlane-unavailable": "Nobody publishes this run yet",
    "reconnecting": "The worker has left",
    "connected": "Waiting for the first frame",
}
_DETAILS = {
    "fastlane-unavailable": "The picture comes by itself when a worker starts.",
    "reconnecting": "The picture goes on by itself when it comes back.",
    "connected": "The worker is there, and has not drawn anything yet.",
}


class FastLaneViewModel(QObject):
    """The state behind ``FastLaneView.qml``."""

    changed = pyqtSignal()
    hudTextChanged = pyqtSignal()  # noqa: N815 - Qt's way of writing
    frame_shown = pyqtSignal(object)
    action_requested = pyqtSignal(str)

    def __init__(self, consumer: FastLaneConsumer, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._consumer = consumer
        self._zoom = ZoomModel(self)
        self._shown: FastLaneFrameEvent | None = None
        self._hud_text = ""
        self._hud_told = 0.0
        self._status: str = consumer.status
        self._hud_visible = True
        self._help_visible = False
        self._full_screen = False
        self._paused = False
        self._visible = True
        self._recording = ""
        self._eval_text = ""
        self._notice = ""
        self._notice_is_bad = False
        self._hud_timer = self._single_shot(HUD_MS, self._tell_hud)
        self._notice_timer = self._single_shot(NOTICE_MS, self._say_no_more)
        self._hidden_timer = self._single_shot(HIDDEN_MS, self._settle_reading)
        consumer.status_changed.connect(self._take_status)
        consumer.frame_ready.connect(self._take_frame)
        if consumer.last_event is not None:
            self._take_frame(consumer.last_event)

    # --- what the scene shows --------------------------------------------------------------------

    @pyqtProperty(str, constant=True)
    def runId(self) -> str:  # noqa: N802 - a QML name
        """The run that is shown."""
        return self._consumer.run_id

    @pyqtProperty(QObject, constant=True)
    def zoom(self) -> ZoomModel:
        """Where the picture goes."""
        return self._zoom

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
        """What to say instead of a picture; empty once there is one."""
        return "" if self._shown is not None else _HINTS[self._status]

    @pyqtProperty(str, notify=changed)
    def hintDetail(self) -> str:  # noqa: N802 - a QML name
        """What comes next, or what stands in the way."""
        if self._shown is not None:
            return ""
        lost = self._consumer.problem if self._status == "reconnecting" else ""
        return lost or _DETAILS[self._status]

    @pyqtProperty(bool, notify=changed)
    def stale(self) -> bool:
        """Whether the picture is what a worker left behind."""
        return self._shown is not None and self._status != "connected"

    @pyqtProperty(bool, notify=changed)
    def hudVisible(self) -> bool:  # noqa: N802 - a QML name
        """Whether the numbers are shown."""
        return self._hud_visible

    @pyqtProperty(bool, notify=changed)
    def helpVisible(self) -> bool:  # noqa: N802 - a QML name
        """Whether the list of keys is shown."""
        return self._help_visible

    @pyqtProperty(bool, notify=changed)
    def fullScreen(self) -> bool:  # noqa: N802 - a QML name
        """Whether the picture fills the screen."""
        return self._full_screen

    @pyqtProperty(bool, notify=changed)
    def paused(self) -> bool:
        """Whether the picture stands still while training goes on."""
        return self._paused

    @pyqtProperty(str, notify=changed)
    def recording(self) -> str:
        """How the recording goes; empty without one."""
        return self._recording

    @pyqtProperty(str, notify=changed)
    def evalText(self) -> str:  # noqa: N802 - a QML name
        """What an evaluation has found, a line each."""
        return self._eval_text

    @pyqtProperty(str, notify=changed)
    def notice(self) -> str:
        """What has just happened; empty after a while."""
        return self._notice

    @pyqtProperty(bool, notify=changed)
    def noticeIsBad(self) -> bool:  # noqa: N802 - a QML name
        """Whether the notice tells of a failure."""
        return self._notice_is_bad

    @pyqtProperty("QVariantMap", constant=True)
    def tooltips(self) -> dict[str, str]:
        """What each button does, and its key."""
        return {action.name: action.tooltip for action in ACTIONS}

    @pyqtProperty("QVariantList", constant=True)
    def shortcuts(self) -> list[dict[str, str]]:
        """Keys and mouse, each with what it does."""
        keys = [(" or ".join(action.keys), action.label) for action in ACTIONS]
        return [{"keys": key, "label": label} for key, label in (*keys, *MOUSE)]

    # --- what people do --------------------------------------------------------------------------

    @pyqtSlot(str)
    def act(self, name: str) -> None:
        """Do what a button or a key stands for."""
        own = {"pause": self.toggle_pause, "hud": self.toggle_hud, "help": self.toggle_help}
        own.get(name, lambda: self.action_requested.emit(name))()

    def toggle_hud(self) -> None:
        """Show or hide the numbers."""
        self._hud_visible = not self._hud_visible
        self.changed.emit()

    def toggle_help(self) -> None:
        """Show or hide the list of keys."""
        self._help_visible = not self._help_visible
        self.changed.emit()

    def toggle_pause(self) -> None:
        """Stop at the last frame, or go on with the newest.

        Nothing is read while the picture stands: its memory stays as it is, and the worker draws
        for nobody.
        """
        self._paused = not self._paused
        self._settle_reading()
        self.changed.emit()

    # --- what the tab tells ----------------------------------------------------------------------

    @property
    def shown(self) -> FastLaneFrameEvent | None:
        """The frame on the screen."""
        return self._shown

    def set_visible(self, visible: bool) -> None:
        """Read while somebody can see it; stop a moment after nobody can."""
        self._visible = visible
        if visible:
            self._hidden_timer.stop()
            self._settle_reading()
        else:
            self._hidden_timer.start()

    def set_full_screen(self, full_screen: bool) -> None:
        """Show that the picture fills the screen, or does not."""
        self._full_screen = full_screen
        self.changed.emit()

    def set_recording(self, recording: str) -> None:
        """Show how a recording goes; it also keeps a hidden run read."""
        self._recording = recording
        self._settle_reading()
        self.changed.emit()

    def set_eval_text(self, text: str) -> None:
        """Show what an evaluation has found."""
        if text != self._eval_text:
            self._eval_text = text
            self.changed.emit()

    def say(self, notice: str, *, bad: bool = False) -> None:
        """Show for a while what has happened."""
        self._notice = notice
        self._notice_is_bad = bad
        self._notice_timer.start()
        self.changed.emit()

    # --- details ---------------------------------------------------------------------------------

    def _single_shot(self, milliseconds: int, call: Any) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(milliseconds)
        timer.timeout.connect(call)
        return timer

    def _say_no_more(self) -> None:
        self.say("")

    def _settle_reading(self) -> None:
        seen = self._visible or self._hidden_timer.isActive() or self._recording != ""
        if seen and not self._paused:
            self._consumer.resume()
        else:
            self._consumer.suspend()

    def _take_status(self, status: str) -> None:
        if status != self._status:
            self._status = status
            self.changed.emit()

    def _take_frame(self, event: FastLaneFrameEvent) -> None:
        first = self._shown is None
        self._shown = event
        if first:
            self._tell_hud()
            self.changed.emit()
        elif time.monotonic() - self._hud_told >= HUD_MS / 1000:
            self._tell_hud()  # with the frame, which is drawn anyway
        elif not self._hud_timer.isActive():
            self._hud_timer.start()  # if no other frame comes
        self.frame_shown.emit(event)

    def _tell_hud(self) -> None:
        self._hud_timer.stop()
        self._hud_told = time.monotonic()
        if self._shown is not None and self._shown.hud_text != self._hud_text:
            self._hud_text = self._shown.hud_text
            self.hudTextChanged.emit()
