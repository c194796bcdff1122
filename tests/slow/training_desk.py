"""A user's desk: `lanekit` as they type it, a worker they installed, state of their own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from daemon_process import DaemonProcess

from lanekit.errors import SegmentExists, SegmentNotFound, StoreError
from lanekit.integrations.showing.lanes import state_lane_of
from lanekit.segments import owner_of, reclaim_segment, segment_name
from lanekit.slow import RunStore
from patience import patience, until

sys.path.insert(0, str(Path(__file__).parent.parent))

from pseudo_terminal import Terminal

ENTRY_POINTS = "[mosaic.workers]\nstepping = stepping_worker:describe\n"


class Desk:
    """Where `lanekit run` is typed. No daemon runs at first; all that runs is ended at the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.socket = directory / "d.sock"
        self.log = self.state / "daemon.log"
        site = directory / "site"
        about = site / "stepping_worker-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: stepping-worker\nVersion: 1.0\n"
        )
        (about / "entry_points.txt").write_text(ENTRY_POINTS)
        shutil.copy(Path(__file__).parent / "stepping_worker.py", site)
        self._commands: list[subprocess.Popen[str]] = []
        self.environment = {
            "LANEKIT_STATE": str(self.state),
            "LANEKIT_DAEMON": f"unix:{self.socket}",
            "PYTHONPATH": str(site),
        }

    def command(self, *arguments: str | Path) -> list[str]:
        return [sys.executable, "-m", "lanekit", *map(str, arguments)]

    def start(self, *arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
        """Type a command, and do not wait for its end."""
        process = subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment, **environment},
            cwd=self.directory,
        )
        self._commands.append(process)
        return process

    def lanekit(
        self, *arguments: str | Path, status: int = 0, **environment: str
    ) -> tuple[str, str]:
        """Type a command, and return what it says and what it complains about."""
        return finish(self.start(*arguments, **environment), status)

    def terminal(self, *arguments: str | Path, columns: int = 100) -> Terminal:
        """Type a command on a terminal."""
        return Terminal(*self.command(*arguments), columns=columns, **self.environment)

    def daemons(self) -> list[psutil.Process]:
        """The daemons that run on this desk's state."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = process.cmdline()
                if "daemon" in words and str(self.socket) in words:
                    found.append(process)
        return found

    def store(self) -> RunStore:
        return RunStore.open(self.state / "lanekit.db")

    def state_of(self, run_id: str) -> str:
        with suppress(StoreError), self.store() as store:  # a daemon may be making it just now
            return next((str(r.state) for r in store.runs() if r.run_id == run_id), "")
        return ""

    def payloads(self, run_id: str, name: str) -> list[Any]:
        """What a run's events of one name say."""
        with self.store() as store:
            return [event.payload for event in store.events(run_id) if event.name == name]

    def until_it_steps(self, run_id: str) -> None:
        """Wait until some steps of a run are stored."""

        def steps() -> bool:
            if not self.state_of(run_id):
                return False
            with self.store() as store:
                return store.run(run_id).steps > 0

        until(steps)

    def close(self) -> None:
        """End the commands, the daemons, and whoever they left running."""
        for command in self._commands:
            command.kill()
            command.communicate()
        for daemon in self.daemons():
            daemon.send_signal(signal.SIGTERM)
        until(lambda: not self.daemons())
        if self.state.exists():
            DaemonProcess(self.state).end_children()
            self._remove_lanes()
        said = self.log.read_text() if self.log.exists() else ""
        assert "Traceback" not in said, said

    def _remove_lanes(self) -> None:
        """Remove what workers that were killed had to leave in shared memory."""
        run_ids: list[str] = []
        with suppress(StoreError), self.store() as store:
            run_ids = [record.run_id for record in store.runs()]
        lanes = [lane for run_id in run_ids for lane in (run_id, state_lane_of(run_id))]
        names = [segment_name("frame", lane) for lane in lanes]
        until(lambda: all(self._is_gone(name) for name in names))

    def _is_gone(self, name: str) -> bool:
        try:
            reclaim_segment(name)
        except SegmentNotFound:
            return True
        except SegmentExists:
            # A process of ours is about to end; one of another desk has a run of the same name.
            with suppress(psutil.Error):
                environment = psutil.Process(owner_of(name)[0]).environ()
                return bool(environment) and environment.get("LANEKIT_STATE") != str(self.state)
            return False
        return True


def finish(process: subprocess.Popen[str], status: int) -> tuple[str, str]:
    """Wait for a command's end."""
    said, complained = process.communicate(timeout=patience())
    assert process.returncode == status, said + complained
    assert "Traceback" not in said
    return said, complained


def started_daemon(complained: str) -> int:
    """The process that a command says it started."""
    (pid,) = re.findall(r"^started a daemon, process (\d+); it stays until `kill \1`", complained)
    return int(pid)
