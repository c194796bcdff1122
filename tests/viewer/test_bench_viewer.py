"""The viewer's benchmark works; how fast is not asked here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bench.stamped_frames import BITS, StampedFrames, StampReader, now
from numpy.typing import NDArray
from PyQt6.QtCore import Qt
from PyQt6.QtGui import QImage

from lanekit.viewer.fastlane.frame_image import shared_pixels_of
from patience import patience, until


@pytest.mark.once
def test_every_measurement_can_be_made(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "viewer", "--tiny", "--out", str(tmp_path)]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=patience(240), check=True
    )
    results = json.loads((tmp_path / "viewer.json").read_text(encoding="utf-8"))["results"]
    assert set(results) == {"tick", "watching", "screen", "tabs", "live"}
    assert "naive label" in done.stdout
    assert results["tabs"]["frames_per_second"] > 0
    for row in results["screen"]:
        assert row["rerun"] == {"failed": "left out"}
        # How many frames it showed in half a second is the machine's affair.
        assert row["tab"].keys() & {"failed", "frames_per_second"}


@pytest.mark.parametrize("size", [(640, 480), (1920, 1080), (64, 48)])
def test_a_frames_time_is_read_off_a_screen_at_any_place_and_size(size: tuple[int, int]) -> None:
    frames = StampedFrames(*size)
    for width, height, smooth in ((800, 600, False), (333, 250, True)):
        before = now()
        screen = _screen_with(frames.stamped(), width, height, smooth)
        stamp = StampReader(screen).stamp()
        assert stamp is not None
        assert 0 <= (stamp - before) % (1 << BITS) <= (now() - before) % (1 << BITS)


def test_half_of_one_frame_and_half_of_another_has_no_time() -> None:
    frames = StampedFrames(640, 480)
    screen = _screen_with(frames.stamped(), 640, 480, False)
    reader = StampReader(screen)
    first = reader.stamp()
    until(lambda: now() != first)
    later = _screen_with(frames.stamped(), 640, 480, False)
    middle = 50 + 240
    screen[:middle] = later[:middle]
    assert reader.stamp() is None
    screen[:] = later
    assert reader.stamp() not in (None, first)


def test_a_screen_without_a_picture_is_told() -> None:
    with pytest.raises(LookupError, match="no picture"):
        StampReader(np.zeros((10, 10), np.uint32))


def _screen_with(
    frame: NDArray[np.uint8], width: int, height: int, smooth: bool
) -> NDArray[np.uint32]:
    lines, columns, channels = frame.shape
    form = QImage.Format.Format_RGB888
    image = QImage(frame.tobytes(), columns, lines, columns * channels, form)
    mode = Qt.TransformationMode
    scaled = image.scaled(
        width,
        height,
        transformMode=mode.SmoothTransformation if smooth else mode.FastTransformation,
    ).convertToFormat(QImage.Format.Format_RGB32)
    screen = np.zeros((height + 100, width + 100), np.uint32)
    pixels = shared_pixels_of(scaled).view(np.uint32)
    screen[50 : 50 + height, 30 : 30 + width] = pixels[:, :, 0]
    return screen
