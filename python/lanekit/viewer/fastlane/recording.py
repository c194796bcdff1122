"""Records what is watched: the window hands over pictures and never waits for the disk."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PyQt6.QtCore import QObject, pyqtSignal
from PyQt6.QtGui import QImage

from lanekit.viewer.fastlane.frame_image import shared_pixels_of
from lanekit.viewer.fastlane.video_file import RecordingFailed, VideoFile, VideoFormat

QUEUE_SIZE = 16
"""Pictures on their way to the disk; the one that finds no room is dropped and counted."""
_LONGEST_GAP_MS = 2000
"""A run that stood still for an hour is not an hour of film."""


@dataclass(slots=True)
class _Picture:
    pixels: NDArray[np.uint8]
    time_ns: int


class Recording(QObject):
    """One film, from the first picture that :meth:`add` gets until :meth:`finish`.

    A picture of another size begins another file: a new worker may draw differently. It has no
    parent: the thread keeps it until the film is complete, also when its window has gone, and the
    program ends only then.
    """

    finished = pyqtSignal(str, str)
    """The last file's path, and the problem that ended the recording; empty if there was none."""

    def __init__(self, path: Path, kind: VideoFormat) -> None:
        super().__init__()
        self.path = path
        self.dropped = 0
        """Pictures that found no room on the way to the disk."""
        self.written = 0
        self._kind: VideoFormat = kind
        self._made = 0
        self._free: queue.SimpleQueue[_Picture] = queue.SimpleQueue()
        self._full: queue.SimpleQueue[_Picture | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="recording")
        self._thread.start()

    def add(self, image: QImage, time_ns: int) -> bool:
        """Hand over an RGB32 picture; False, and one more dropped, if there is no room."""
        if self._ended.is_set():
            return False
        picture = self._room()
        if picture is None:
            self.dropped += 1
            return False
        pixels = shared_pixels_of(image)
        if picture.pixels.shape != pixels.shape:
            picture.pixels = np.empty_like(pixels)
        np.copyto(picture.pixels, pixels)
        picture.time_ns = time_ns
        self._full.put(picture)
        return True

    def finish(self) -> None:
        """Want no more pictures; the file is complete when `finished` is emitted."""
        if not self._ended.is_set():
            self._ended.set()
            self._full.put(None)

    def _room(self) -> _Picture | None:
        try:
            return self._free.get_nowait()
        except queue.Empty:
            if self._made >= QUEUE_SIZE:
                return None
        self._made += 1
        return _Picture(np.empty((0, 0, 4), np.uint8), 0)

    # --- in the thread ---------------------------------------------------------------------------

    def _work(self) -> None:
        problem = ""
        try:
            self._write_all()
        except RecordingFailed as failure:
            problem = str(failure)
        except Exception as error:  # a thread's end must be told, whatever it was
            problem = f"{type(error).__name__}: {error}"
        self._ended.set()
        self.finished.emit(str(self.path), problem)

    def _write_all(self) -> None:
        file: VideoFile | None = None
        shape: tuple[int, ...] = ()
        clock = _FilmClock()
        parts = 0
        try:
            while (picture := self._full.get()) is not None:
                if picture.pixels.shape != shape:
                    if file is not None:
                        file.close()
                        file = None
                    parts += 1
                    self.path = self.path if parts == 1 else _part(self.path, parts)
                    shape = picture.pixels.shape
                    file = VideoFile(self.path, self._kind, shape[1], shape[0])
                    clock = _FilmClock()
                assert file is not None
                self.written += file.write(picture.pixels, clock.at(picture.time_ns))
                self._free.put(picture)
        except BaseException:
            if file is not None:
                file.abandon()
            raise
        if file is None:
            raise RecordingFailed("nothing was recorded: no frame came")
        file.close()


class _FilmClock:
    """The time of each picture since the first, long waits cut short."""

    def __init__(self) -> None:
        self._before_ns: int | None = None
        self._at_ms = 0.0

    def at(self, time_ns: int) -> int:
        if self._before_ns is not None:
            gap = (time_ns - self._before_ns) / 1e6
            self._at_ms += min(_LONGEST_GAP_MS, max(0.0, gap))
        self._before_ns = time_ns
        return round(self._at_ms)


def _part(path: Path, number: int) -> Path:
    stem = path.stem if number == 2 else path.stem.rsplit("-part", 1)[0]
    return path.with_name(f"{stem}-part{number}{path.suffix}")
