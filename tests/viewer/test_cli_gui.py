"""``lanekit gui``, typed as a user types it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from PyQt6.QtWidgets import QApplication
from window_desk import WindowDesk, lone_desk

from patience import patience, until

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)


@pytest.fixture
def desk(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[WindowDesk]:
    """A desk of its own for each test."""
    with lone_desk(qapp, monkeypatch) as made:
        yield made


def test_the_command_opens_the_window_and_ends_without_a_word(desk: WindowDesk) -> None:
    done = gui(desk, "--seconds", "1")
    assert (done.returncode, done.stdout) == (0, "")
    said = [line for line in done.stderr.splitlines() if "propagateSizeHints" not in line]
    assert said == []
    assert desk.memory.exists()


def test_the_command_ends_with_sigterm_as_with_a_click(desk: WindowDesk) -> None:
    desk.daemon.start()
    process = subprocess.Popen(command(desk), env=surroundings(), stderr=subprocess.PIPE, text=True)
    try:
        until(desk.memory.exists)  # written as soon as events are handled
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=patience())
    finally:
        process.kill()
    assert process.returncode == 0
    assert "Traceback" not in said


def test_without_a_screen_the_command_says_what_is_missing(desk: WindowDesk) -> None:
    done = gui(desk, QT_QPA_PLATFORM="", DISPLAY="", WAYLAND_DISPLAY="")
    assert done.returncode == 1
    assert done.stderr.startswith("lanekit gui: no window: there is no screen")


def test_an_address_that_is_none_is_refused(desk: WindowDesk) -> None:
    done = gui(desk, "--daemon", "nonsense")
    assert done.returncode == 1
    assert "'nonsense' is no daemon's address" in done.stderr


def command(desk: WindowDesk, *arguments: str) -> list[str]:
    target = [] if "--daemon" in arguments else ["--daemon", desk.daemon.target]
    return [sys.executable, "-m", "lanekit", "gui", *target, *arguments]


def surroundings(**changed: str) -> dict[str, str]:
    return {**os.environ, "QT_LOGGING_RULES": "", **changed}


def gui(desk: WindowDesk, *arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(desk, *arguments),
        env=surroundings(**changed),
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
