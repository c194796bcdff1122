"""What is done with selected runs: the daemon is asked in the background, and the answer told."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import QObject, pyqtSignal

from lanekit import errors
from lanekit.slow.daemon.run_states import state_word
from lanekit.slow.daemon_client import DaemonClient
from lanekit.viewer.window.background import Background
from lanekit.viewer.window.run_row import RunRow

MOST_THREADS = 8
"""Among which many runs are shared out: to cancel one may take seconds."""


class RunCommands(QObject):
    """Sends commands to the daemon, for all those of some runs that can follow them."""

    told = pyqtSignal(str)
    """What came of it."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background

    def send(self, name: str, rows: Sequence[RunRow]) -> None:
        """Ask for "pause", "resume", "stop", "cancel", "archive" or "unarchive"."""
        able = [row.run_id for row in rows if name in row.actions]
        for first in range(min(MOST_THREADS, len(able))):
            self._send(name, able[first::MOST_THREADS])

    def cancel(self, rows: Sequence[RunRow]) -> None:
        """Ask for the end of runs, by force if need be."""
        self.send("cancel", rows)

    def _send(self, name: str, run_ids: Sequence[str]) -> None:
        self._background.ask(
            lambda client: carry_out(client, name, run_ids),
            self.told.emit,
            lambda reason: self.told.emit(f"{name} failed: {reason}"),
        )


def carry_out(client: DaemonClient, name: str, run_ids: Sequence[str]) -> str:
    """Do it for one run after the other, and return what to say about it."""
    said, problems = [], []
    for run_id in run_ids:
        try:
            said.append(_ask(client, name, run_id))
        except errors.DaemonUnavailable:
            raise  # for the others, too
        except errors.LanekitError as error:
            problems.append(f"{run_id}: {name} failed: {error}")
    if problems:
        others = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return f"{problems[0]}{others}"
    return said[0] if len(said) == 1 else f"{name}: done for {len(said)} runs"


def _ask(client: DaemonClient, name: str, run_id: str) -> str:
    if name == "cancel":
        return f"{run_id} is {state_word(client.cancel_run(run_id))}"
    if name in ("archive", "unarchive"):
        client.archive_run(run_id, archived=name == "archive")
        return f"{run_id} is {'archived' if name == 'archive' else 'listed again'}"
    _, workers = client.control_run(run_id, name)
    if workers == 0:
        return f"{run_id}: no worker is connected; {name} waits for one"
    return f"{run_id}: asked to {name}"
