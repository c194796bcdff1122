"""A user's desk with the main window on it: state, daemon and workers of their own."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "slow"))

import pytest
from daemon_process import DaemonProcess, obeying_permissions, publish_steps
from PyQt6.QtCore import QCoreApplication, QEvent
from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from lanekit.slow.daemon.run_states import ended
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.endpoint import parse_target
from lanekit.viewer.window import lane_watch
from lanekit.viewer.window.daemon_access import DaemonAccess
from lanekit.viewer.window.main_window import MainWindow
from lanekit.viewer.window.memory import WindowMemory
from lanekit.viewer.window.run_form import RunForm
from lanekit.worker import find_worker
from patience import until

__all__ = [
    "WindowDesk",
    "choose_worker",
    "lone_desk",
    "obeying_permissions",
    "publish_steps",
    "until",
    "window_desk",
]

SLOW = Path(__file__).resolve().parent.parent / "slow"
WORKERS = """\
[mosaic.workers]
stepping = stepping_worker:describe
broken = no_such_library:describe
"""


class WindowDesk:
    """Opens main windows over one daemon, which is started when somebody asks for it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.daemon = DaemonProcess(directory)
        self.memory = directory / "viewer.ini"
        self.windows: list[MainWindow] = []
        self.site = directory / "site"
        about = self.site / "stepping_worker-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: stepping-worker\nVersion: 1.0\n"
        )
        (about / "entry_points.txt").write_text(WORKERS)
        shutil.copy(SLOW / "stepping_worker.py", self.site)

    def access(self, *, may_start: bool = False) -> DaemonAccess:
        """How a window reaches the daemon."""
        target = parse_target(self.daemon.target)

        def connect() -> DaemonClient:
            assert threading.current_thread() is not threading.main_thread(), "it would block"
            return DaemonClient(target)

        return DaemonAccess(connect, target, may_start=may_start, store=self.daemon.store)

    def open(self, *, may_start: bool = False) -> MainWindow:
        """Open the main window."""
        window = MainWindow(self.access(may_start=may_start), WindowMemory(self.memory))
        self.windows.append(window)
        window.show()
        window.activateWindow()  # for its keys
        QTest.qWaitForWindowActive(window)
        return window

    def submit(self, run_id: str, *, pictures: bool = False, **options: object) -> None:
        """Have the daemon start the stepping worker."""
        config = find_worker("stepping").config_class().from_dict({"run_id": run_id, **options})
        with DaemonClient(self.daemon.target) as client:
            client.submit_run(
                find_worker("stepping").command(),
                run_id=run_id,
                environment={
                    "PYTHONPATH": str(self.site),
                    "MOSAIC_FASTLANE_VIDEO_MODE": "single" if pictures else "off",
                },
                config_json=json.dumps(config.to_dict()).encode(),
                worker_id="stepping",
            )

    def end_runs(self) -> None:
        """Let workers end by themselves, so that they leave nothing in shared memory."""
        if self.daemon.process is not None:
            with DaemonClient(self.daemon.target) as client:
                for run in client.list_runs(include_archived=True):
                    if not ended(run):
                        client.cancel_run(run.run_id)

    def close_windows(self) -> None:
        """Close all windows, and let Qt take them away."""
        for window in self.windows:
            window.close()
            window.deleteLater()
        self.windows.clear()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
        QApplication.processEvents()


@contextmanager
def window_desk() -> Iterator[WindowDesk]:
    """Make a desk in a directory whose paths are short enough for Unix sockets."""
    directory = Path(tempfile.mkdtemp(prefix="lk-"))
    desk = WindowDesk(directory)
    changed = {"LANEKIT_STATE": str(directory), "PYTHONPATH": str(desk.site)}
    before = {name: os.environ.get(name) for name in changed}
    os.environ |= changed
    sys.path.insert(0, str(desk.site))
    try:
        yield desk
    finally:
        desk.close_windows()
        sys.path.remove(str(desk.site))
        sys.modules.pop("stepping_worker", None)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        desk.end_runs()
        desk.daemon.close()
        desk.daemon.end_children()
        until(lambda: _is_removed(directory))  # those that were killed may just write a file


def _is_removed(directory: Path) -> bool:
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


@contextmanager
def lone_desk(application: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[WindowDesk]:
    """Make a desk that does not see what others on this machine publish, and leaves no thread."""
    look = lane_watch.live_lanes
    monkeypatch.setattr(
        lane_watch,
        "live_lanes",
        lambda: {
            run: since for run, since in look().items() if run.startswith(f"test-{os.getpid()}")
        },
    )
    before = set(threading.enumerate())
    with window_desk() as made:
        yield made
    application.setStyleSheet("")
    until(lambda: before.issuperset(threading.enumerate()))


def choose_worker(form: RunForm, qtbot: QtBot, worker: str) -> None:
    """Choose a worker in the form, once it is listed among the installed ones."""

    def place() -> int:
        listed = (form.workers.itemText(i) for i in range(form.workers.count()))
        return next((i for i, text in enumerate(listed) if text.startswith(worker)), -1)

    qtbot.waitUntil(lambda: place() >= 0)
    form.workers.setCurrentIndex(place())
