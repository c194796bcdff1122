"""Films of what is watched: decoded again and compared, and every way in which they can fail."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import av
import numpy as np
import pytest
from known_frames import config_of, known_rgb
from numpy.typing import NDArray
from PyQt6.QtCore import Qt
from PyQt6.QtGui import QImage
from PyQt6.QtTest import QTest
from pytestqt.qtbot import QtBot

from lanekit import FastLaneWriter
from lanekit.viewer.fastlane import recording as recording_module
from lanekit.viewer.fastlane.recording import QUEUE_SIZE, Recording
from lanekit.viewer.fastlane.tab import FastLaneTab
from lanekit.viewer.fastlane.video_file import VideoFile, VideoFormat


def image_of(rgb: NDArray[np.uint8]) -> QImage:
    height, width, _ = rgb.shape
    image = QImage(rgb.data, width, height, 3 * width, QImage.Format.Format_RGB888)
    return image.convertToFormat(QImage.Format.Format_RGB32)


def decode(path: Path) -> tuple[list[NDArray[np.uint8]], list[float]]:
    with av.open(str(path)) as film:
        frames = list(film.decode(video=0))
    return [frame.to_ndarray(format="rgb24") for frame in frames], [
        float(frame.time or 0) for frame in frames
    ]


class Film:
    """A recording, and what it said at its end."""

    def __init__(self, path: Path, kind: VideoFormat) -> None:
        self.recording = Recording(path, kind)
        self._told: list[tuple[str, str]] = []
        self.recording.finished.connect(lambda path, problem: self._told.append((path, problem)))

    def add(self, rgb: NDArray[np.uint8], milliseconds: int) -> bool:
        return self.recording.add(image_of(rgb), 1_000_000_000 + milliseconds * 1_000_000)

    def end(self, qtbot: QtBot) -> tuple[str, str]:
        self.recording.finish()
        qtbot.waitUntil(lambda: len(self._told) == 1)
        return self._told[0]


@pytest.mark.parametrize(("kind", "tolerance"), [("mp4", 12), ("gif", 2)])
@pytest.mark.parametrize("size", [(64, 48), (63, 47)])
def test_a_film_shows_what_was_watched_when_it_was_watched(
    qtbot: QtBot, tmp_path: Path, kind: VideoFormat, tolerance: int, size: tuple[int, int]
) -> None:
    path = tmp_path / f"film.{kind}"
    film = Film(path, kind)
    frames = [np.roll(known_rgb(*size), 8 * number, axis=1) for number in range(6)]
    for number, frame in enumerate(frames):
        film.add(frame, number * 100)
    assert film.end(qtbot) == (str(path), "")
    assert (film.recording.written, film.recording.dropped) == (6, 0)
    decoded, times = decode(path)
    assert times == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5], abs=0.011)
    for shown, frame in zip(decoded, frames, strict=True):
        height, width, _ = frame.shape
        difference = np.abs(shown[:height, :width].astype(int) - frame)
        assert np.median(difference) <= tolerance
        assert difference.mean() < 3 * tolerance  # colour bleeds at edges, not elsewhere


def test_a_long_pause_is_cut_short(qtbot: QtBot, tmp_path: Path) -> None:
    film = Film(tmp_path / "film.mp4", "mp4")
    for second in (0, 3600, 3601):
        film.add(known_rgb(64, 48), second * 1000)
    path, _ = film.end(qtbot)
    assert decode(Path(path))[1] == pytest.approx([0, 2, 3], abs=0.01)


def test_another_size_begins_another_file(qtbot: QtBot, tmp_path: Path) -> None:
    film = Film(tmp_path / "film.mp4", "mp4")
    for number, size in enumerate(((64, 48), (32, 32), (16, 64))):
        film.add(known_rgb(*size), number * 1000)
    assert film.end(qtbot) == (str(tmp_path / "film-part3.mp4"), "")
    shapes = [decode(path)[0][0].shape for path in sorted(tmp_path.iterdir())]
    assert shapes == [(32, 32, 3), (64, 16, 3), (48, 64, 3)]


def test_a_slow_disk_costs_frames_and_never_the_windows_time(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = threading.Event()

    class SlowFile(VideoFile):
        def write(self, pixels: NDArray[np.uint8], at_ms: int) -> bool:
            may_write.wait()
            return super().write(pixels, at_ms)

    monkeypatch.setattr(recording_module, "VideoFile", SlowFile)
    film = Film(tmp_path / "film.mp4", "mp4")
    for number in range(100):
        film.add(known_rgb(64, 48), number * 16)
    assert film.recording.dropped == 100 - QUEUE_SIZE
    may_write.set()
    path, problem = film.end(qtbot)
    assert problem == ""
    assert len(decode(Path(path))[0]) == QUEUE_SIZE


def test_a_full_disk_ends_the_film_with_a_message(qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "film.gif"
    path.symlink_to("/dev/full")
    film = Film(path, "gif")
    noise = np.random.default_rng(1)
    for number in range(QUEUE_SIZE):
        frame = noise.integers(0, 255, (120, 160, 3), np.uint8)
        film.add(frame, number * 100)
    _, problem = film.end(qtbot)
    assert "No space left on device" in problem
    assert not film.add(known_rgb(8, 8), 0)


def test_without_pyav_recording_says_what_to_install(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    film = Film(tmp_path / "film.mp4", "mp4")
    film.add(known_rgb(8, 8), 0)
    _, problem = film.end(qtbot)
    assert "pip install 'lanekit[viewer]'" in problem


def test_a_missing_codec_says_what_to_do(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(av, "codecs_available", {"gif"})
    film = Film(tmp_path / "film.mp4", "mp4")
    film.add(known_rgb(8, 8), 0)
    _, problem = film.end(qtbot)
    assert "libx264" in problem
    assert "record a GIF" in problem


@pytest.mark.parametrize(("key", "suffix"), [(Qt.Key.Key_R, "mp4"), (Qt.Key.Key_G, "gif")])
def test_a_key_begins_and_ends_a_film_of_the_run(
    qtbot: QtBot, run_id: str, tmp_path: Path, key: Qt.Key, suffix: str
) -> None:
    with FastLaneWriter.create(run_id, config_of(64, 48)) as writer:
        tab = FastLaneTab(run_id, "agent-0", capture_directory=tmp_path)
        qtbot.addWidget(tab)
        tab.show()
        tab.activateWindow()
        qtbot.waitUntil(tab.isActiveWindow)
        tab.setFocus()
        QTest.keyClick(tab.quick, key)
        assert "no picture to record" in tab.model.notice
        frame = known_rgb(64, 48)
        writer.publish(frame, metadata=b'{"step": 7}')
        qtbot.waitUntil(lambda: tab.shown is not None)
        QTest.keyClick(tab.quick, key)
        assert tab.model.recording.startswith("recording 0:00")
        for number in range(5):
            writer.publish(frame, metadata=b'{"step": 8}')
            qtbot.waitUntil(lambda seq=number + 2: tab.shown and tab.shown.info.seq == seq)
            QTest.qWait(40)
        QTest.keyClick(tab.quick, key)
        path = tmp_path / f"{run_id}-step7.{suffix}"
        qtbot.waitUntil(lambda: tab.model.notice.endswith(f"to {path}"))
        assert tab.model.recording == ""
        decoded, _ = decode(path)
        assert len(decoded) >= 3
        assert np.median(np.abs(decoded[-1].astype(int) - frame)) <= 12
        tab.close()


def test_closing_the_tab_completes_the_film(qtbot: QtBot, run_id: str, tmp_path: Path) -> None:
    with FastLaneWriter.create(run_id, config_of(64, 48)) as writer:
        tab = FastLaneTab(run_id, "agent-0", capture_directory=tmp_path)
        qtbot.addWidget(tab)
        tab.show()
        writer.publish(known_rgb(64, 48))
        qtbot.waitUntil(lambda: tab.shown is not None)
        tab.model.act("record")
        tab.hide()  # a film goes on although nobody looks
        for number in range(3):
            writer.publish(known_rgb(64, 48))
            qtbot.waitUntil(lambda seq=number + 2: tab.shown and tab.shown.info.seq == seq)
        tab.close()
        qtbot.waitUntil(lambda: tab.captures.recording is None)
    (path,) = tmp_path.iterdir()
    assert len(decode(path)[0]) == 4
