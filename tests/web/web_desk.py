"""A daemon that serves the page, real workers under it, and where the browser is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "slow"))

from daemon_process import DaemonProcess  # noqa: E402

from lanekit.slow.daemon_client import DaemonClient  # noqa: E402
from patience import patience_ms, until  # noqa: E402
from working_programs import working  # noqa: E402

CHROMIUM = working("chromium") or "/usr/bin/chromium"
expect.set_options(timeout=patience_ms(90))


class Desk:
    """A daemon that serves the page, and the workers it looks after."""

    def __init__(self, directory: Path) -> None:
        self.daemon = DaemonProcess(directory, "--web", "0").start()
        self.address = self.daemon.announcement.rpartition(" ")[2]
        # A daemon that is started again is to be found where it was.
        port = self.address.rstrip("/").rpartition(":")[2]
        self.daemon.options = ("--web", port)
        # Lanes are the machine's, not this test's: no other run may have these names.
        self.learning = f"learning-{os.getpid()}"
        self.done = f"done-{os.getpid()}"
        self.token = (directory / "web.token").read_text().strip()

    def client(self) -> DaemonClient:
        return DaemonClient(self.daemon.target)

    def train(self, run_id: str, episodes: int, pause: float, filmed: int) -> None:
        """Start a learner, and wait until it has begun."""
        worker = [sys.executable, str(HERE / "learning_worker.py")]
        with self.client() as client:
            client.submit_run([*worker, str(episodes), str(pause), str(filmed)], run_id=run_id)
            until(lambda: client.run(run_id).steps, seconds=90)

    def close(self) -> None:
        with self.client() as client:
            for run in client.list_runs():
                client.cancel_run(run.run_id, grace=5.0)
        assert self.daemon.stop() == 0
        assert "Traceback" not in self.daemon.said(), self.daemon.said()


PAUSE = 0.25
"""Seconds between two looks at a page: looking costs the browser something."""


def eventually(condition: Callable[[], object]) -> None:
    """Wait until a look at a page finds what it looks for."""
    until(condition, seconds=90, pause=PAUSE)


MakePage = Callable[..., Page]
