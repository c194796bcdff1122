"""The programs of docs/viewer.md open their windows, off screen, and end when these are closed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from stored_runs import RUN, Sender, running_daemon

from patience import patience

pytestmark = pytest.mark.once

# Whoever follows the page looks, and closes the window. Here it is closed when it has been painted.
CLOSED_BY_ITSELF = """
from PyQt6.QtCore import QEvent, QObject, QTimer
from PyQt6.QtWidgets import QApplication

class Painted(QObject):
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint:
            print("painted", flush=True)
            QApplication.instance().removeEventFilter(self)
            QTimer.singleShot(0, QApplication.quit)
        return False

class ClosedByItself(QApplication):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.painted = Painted()
        self.installEventFilter(self.painted)

import PyQt6.QtWidgets
PyQt6.QtWidgets.QApplication = ClosedByItself
"""


def programs() -> list[str]:
    page = (Path(__file__).resolve().parents[2] / "docs" / "viewer.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(found) == 3
    return found


@pytest.mark.parametrize("program", programs(), ids=["numbers", "picture", "replay"])
def test_a_program_of_the_page_opens_its_window(program: str) -> None:
    with running_daemon() as daemon:
        Sender(daemon).steps(10)
        done = subprocess.run(
            [sys.executable, "-c", CLOSED_BY_ITSELF + program.replace("my-run", RUN)],
            env={
                **os.environ,
                "QT_QPA_PLATFORM": "offscreen",
                "QT_QUICK_BACKEND": "software",
                "LANEKIT_STATE": str(daemon.directory),
                "LANEKIT_DAEMON": daemon.target,
            },
            capture_output=True,
            text=True,
            timeout=patience(120),
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "painted\n"), done.stderr
    assert "Traceback" not in done.stderr
