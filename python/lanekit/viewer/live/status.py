"""How things stand with what a tab shows, in a word, a sentence, and numbers."""

from __future__ import annotations

import time
from typing import Literal

from PyQt6.QtCore import QObject, QTimer, pyqtSignal

from lanekit.viewer.qt_property import pyqtProperty

State = Literal["waiting", "live", "sampling", "away", "ended", "failed"]
HOLD_MS = 1500
"""How long a tab that resumed still says that it leaves steps out: the words shall not flicker."""
LAST_STEPS_SECONDS = 10.0
"""How long the last steps may come after a run's end; later ones are of a worker that is back."""

_WORDS: dict[State, str] = {
    "waiting": "Waiting for the first step or episode",
    "live": "Live",
    "sampling": "Steps come faster than they can be shown here",
    "away": "Nothing comes at the moment",
    "ended": "The run is over",
    "failed": "The run has failed",
}
_BAD_ENDINGS = ("failed", "lost")


class LiveStatus(QObject):
    """The state of one tab."""

    changed = pyqtSignal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._shown = 0
        self._missed = 0
        self._episodes = 0
        self._problem = ""
        self._ended_at: float | None = None
        self._ending = ""
        self._starved = False
        self._hold = QTimer(self)
        self._hold.setSingleShot(True)
        self._hold.setInterval(HOLD_MS)
        self._hold.timeout.connect(self.changed)

    @pyqtProperty(str, notify=changed)
    def state(self) -> State:
        """Which of the six it is."""
        if self._problem:
            return "away"
        if self._ended_at is not None:
            return "failed" if self._ending in _BAD_ENDINGS else "ended"
        if self._starved or self._hold.isActive():
            return "sampling"
        return "live" if self._shown or self._missed or self._episodes else "waiting"

    @pyqtProperty(str, notify=changed)
    def text(self) -> str:
        """The state in words."""
        if self._ending == "lost" and self.state == "failed":
            return "The run was lost: its worker is gone"
        return _WORDS[self.state]

    @pyqtProperty(str, notify=changed)
    def problem(self) -> str:
        """Why nothing comes, and that nothing need be done about this window."""
        if not self._problem:
            return ""
        reason = self._problem[0].upper() + self._problem[1:]
        return f"{reason}\nThis view goes on by itself from where it stopped."

    @pyqtProperty(int, notify=changed)
    def shown(self) -> int:
        """How many steps were shown."""
        return self._shown

    @pyqtProperty(int, notify=changed)
    def missed(self) -> int:
        """How many steps were left out."""
        return self._missed

    @pyqtProperty(str, notify=changed)
    def missedText(self) -> str:  # noqa: N802 - a QML name
        """The left out steps in words; empty when there are none."""
        if not self._missed:
            return ""
        total = self._missed + self._shown
        return (
            f"Dropped for display: {self._missed:,} of {total:,} steps. Everything is in the store."
        )

    def add_steps(self, shown: int, missed: int) -> None:
        """Count steps."""
        self._shown += shown
        self._missed += missed
        if shown + missed and self._ended_at is not None:
            late = time.monotonic() - self._ended_at > LAST_STEPS_SECONDS
            self._ended_at = None if late else self._ended_at
        self.changed.emit()

    def set_episodes(self, episodes: int) -> None:
        """Hear how many episodes there are."""
        if episodes != self._episodes:
            self._episodes = episodes
            self.changed.emit()

    def set_starved(self, starved: bool) -> None:
        """Hear that there are no more credits, or again some."""
        if self._starved and not starved:
            self._hold.start()
        self._starved = starved
        self.changed.emit()

    def set_problem(self, problem: str) -> None:
        """Hear why nothing comes; nothing: all is well."""
        self._problem = problem
        self.changed.emit()

    def set_ended(self, ending: str = "") -> None:
        """Hear that the run is over, and in which state; a worker that comes back revives it."""
        self._ending = ending
        self._ended_at = time.monotonic()
        self.changed.emit()
