"""The taking of screenshots and films of one view, and what is said about them."""

from __future__ import annotations

from pathlib import Path

from PyQt6.QtCore import QObject, QTimer, pyqtSlot

from lanekit.viewer.fastlane.captures import ScreenshotWriter, capture_path, step_of
from lanekit.viewer.fastlane.consumer import FastLaneFrameEvent
from lanekit.viewer.fastlane.recording import Recording
from lanekit.viewer.fastlane.video_file import VideoFormat
from lanekit.viewer.fastlane.view_model import FastLaneViewModel


class Capturing(QObject):
    """Saves what a view shows into a directory."""

    def __init__(
        self, run_id: str, model: FastLaneViewModel, directory: Path | None, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._run_id = run_id
        self._model = model
        self._directory = directory
        self.recording: Recording | None = None
        self._writer = ScreenshotWriter()
        self._writer.written.connect(self._say_saved)
        self._progress = QTimer(self)
        self._progress.setInterval(250)
        self._progress.timeout.connect(self._show_progress)
        self._seconds = 0.0
        model.frame_shown.connect(self._record)

    def screenshot(self) -> Path | None:
        """Save the picture as it was published, without numbers; where it goes is shown."""
        event = self._model.shown
        if event is None:
            self._model.say("There is no picture to save yet.", bad=True)
            return None
        path = self._path(event, ".png")
        self._writer.save(event.image.copy(), path)
        return path

    def toggle(self, kind: VideoFormat) -> None:
        """Begin a film, or end the one that runs."""
        if self.recording is not None:
            self.recording.finish()
            return
        event = self._model.shown
        if event is None:
            self._model.say("There is no picture to record yet.", bad=True)
            return
        self.recording = Recording(self._path(event, f".{kind}"), kind)
        self.recording.finished.connect(self._say_recorded)
        self.destroyed.connect(self.recording.finish)  # if nobody ends it before
        self._seconds = 0.0
        self._progress.start()
        self.recording.add(event.image, event.info.timestamp_ns)
        self._show_progress()

    def end(self) -> None:
        """End a film because the view goes; its thread completes the file."""
        if self.recording is not None:
            self.recording.finish()

    def _path(self, event: FastLaneFrameEvent, suffix: str) -> Path:
        directory = (self._directory or Path()).absolute()
        return capture_path(directory, self._run_id, step_of(event), suffix)

    def _record(self, event: FastLaneFrameEvent) -> None:
        if self.recording is not None:
            self.recording.add(event.image, event.info.timestamp_ns)

    def _show_progress(self) -> None:
        recording = self.recording
        if recording is None:
            return
        minutes, seconds = divmod(int(self._seconds), 60)
        self._seconds += self._progress.interval() / 1000
        dropped = f", {recording.dropped} dropped" if recording.dropped else ""
        self._model.set_recording(f"recording {minutes}:{seconds:02}{dropped}")

    @pyqtSlot(str, str)
    def _say_saved(self, path: str, problem: str) -> None:
        if problem:
            self._model.say(f"Screenshot not saved: {path}: {problem}", bad=True)
        else:
            self._model.say(f"Saved {path}")

    @pyqtSlot(str, str)
    def _say_recorded(self, path: str, problem: str) -> None:
        recording, self.recording = self.recording, None
        self._progress.stop()
        self._model.set_recording("")
        if recording is None:
            return
        dropped = f", {recording.dropped} dropped" if recording.dropped else ""
        if problem:
            self._model.say(
                f"Recording stopped after {recording.written} frames: {problem}", bad=True
            )
        else:
            self._model.say(f"Recorded {recording.written} frames{dropped} to {path}")
