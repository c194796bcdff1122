"""The commands on a virtual screen, looked at from outside: only what is on the screen counts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from known_frames import BLUE, GREEN, WHITE
from PyQt6.QtGui import QColor
from virtual_screen import VirtualScreen, virtual_screen
from writers import StartWriter

from lanekit.viewer.palette import LIGHT
from lanekit.viewer.qt_platform import missing_packages
from patience import patience, until
from working_programs import working


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[VirtualScreen]:
    """A screen of its own for each test."""
    missing = [*missing_packages("xcb"), *([] if working("Xvfb", "-help") else ["xvfb"])]
    if missing:
        pytest.skip(f"this machine lacks {' '.join(missing)}")
    with virtual_screen(tmp_path) as made:
        yield made


@contextmanager
def shown(screen: VirtualScreen, state: Path, *arguments: str) -> Iterator[None]:
    """Let a command of lanekit's run on the screen; it must end well and without a word."""
    unset = ("WAYLAND_DISPLAY", "QT_QPA_PLATFORM", "QT_QUICK_BACKEND")
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    environment |= {
        "DISPLAY": screen.display,
        "LANEKIT_STATE": str(state),
        "LANEKIT_DAEMON": f"unix:{state}/none.sock",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "lanekit", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield
        process.terminate()
        said, _ = process.communicate(timeout=patience())
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, said) == (0, "")


def fields(screen: VirtualScreen) -> tuple[object, ...]:
    """Where the fields of a known frame are that no numbers lie over."""
    return tuple(screen.place_of(colour) for colour in (GREEN, BLUE))


def test_a_known_frame_is_on_the_screen_in_its_size_and_so_is_its_successors(
    screen: VirtualScreen, run_id: str, start_writer: StartWriter, tmp_path: Path
) -> None:
    first = start_writer(64, 48)
    with shown(screen, tmp_path, "view", run_id):
        # The window has 720 by 540 pixels above its buttons: a field of the frame is a quarter.
        until(lambda: screen.place_of(BLUE) is not None)
        x, y, _, _ = screen.place_of(BLUE) or (0, 0, 0, 0)
        left, top = x, y - 270
        green, blue = (left + 360, top, 360, 270), (left, top + 270, 360, 270)
        until(lambda: fields(screen) == (green, blue))
        assert tuple(screen.picture()[top + 400, left + 600]) == WHITE
        first.kill()
        until(lambda: fields(screen) == (None, None))  # faded
        start_writer(40, 120, "BGRX")
        # Three times as high as wide: 180 by 540 pixels in the middle.
        green, blue = (left + 360, top, 90, 270), (left + 270, top + 270, 90, 270)
        until(lambda: fields(screen) == (green, blue))


def test_the_main_window_is_on_the_screen(screen: VirtualScreen, tmp_path: Path) -> None:
    background = QColor(LIGHT.background)
    colour = (background.red(), background.green(), background.blue())
    with shown(screen, tmp_path, "gui"):
        until(lambda: (screen.place_of(colour) or (0, 0, 0, 0))[2] > 1000)
