"""Pictures and films of a run: what their files are called, and the saving of pictures."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

from PyQt6.QtCore import QBuffer, QByteArray, QIODevice, QObject, pyqtSignal
from PyQt6.QtGui import QImage

from lanekit.viewer.fastlane.consumer import FastLaneFrameEvent

_LONGEST_RUN = 80


def step_of(event: FastLaneFrameEvent) -> int:
    """Return the step that a frame shows if it says so, else its number."""
    try:
        step = json.loads(event.metadata or b"{}")["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return event.info.seq
    return step if isinstance(step, int) and not isinstance(step, bool) else event.info.seq


def capture_path(directory: Path, run_id: str, step: int, suffix: str) -> Path:
    """Return a name made of run and step that no file has yet."""
    run = re.sub(r"[^\w.-]+", "_", run_id).strip("._")[:_LONGEST_RUN] or "run"
    stem = f"{run}-step{step}"
    path = directory / f"{stem}{suffix}"
    number = 2
    while path.exists():
        path = directory / f"{stem}-{number}{suffix}"
        number += 1
    return path


class ScreenshotWriter(QObject):
    """Writes PNG files in threads: packing a large picture takes longer than a tick.

    It has no parent: a thread that still writes keeps it when its window has gone.
    """

    written = pyqtSignal(str, str)
    """Path and problem; the latter is empty if all went well."""

    def save(self, image: QImage, path: Path) -> None:
        """Write the image, which must not change any more."""
        threading.Thread(target=self._write, args=(image, path), name="screenshot").start()

    def _write(self, image: QImage, path: Path) -> None:
        problem = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Packed in memory first: Qt would not tell that a disk took only half of it.
            packed = QByteArray()
            buffer = QBuffer(packed)
            buffer.open(QIODevice.OpenModeFlag.WriteOnly)
            image.save(buffer, "PNG")
            path.write_bytes(packed.data())
        except OSError as error:
            problem = error.strerror or str(error)
        self.written.emit(str(path), problem)
