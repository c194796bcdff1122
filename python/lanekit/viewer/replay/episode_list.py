"""The episodes of an agent as Qt's lists take them: words are made for those in sight only."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import QAbstractListModel, QModelIndex, QObject, Qt

from lanekit.slow.replay.tape import EpisodeEntry


class EpisodeList(QAbstractListModel):
    """Any number of episodes, without an object for each."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries: Sequence[EpisodeEntry] = ()
        self._some_have_frames = False

    def set_entries(self, entries: Sequence[EpisodeEntry]) -> None:
        """Show these."""
        self.beginResetModel()
        self._entries = entries
        self._some_have_frames = any(entry.frames for entry in entries)
        self.endResetModel()

    def number_at(self, row: int) -> int:
        """Return the number of the episode in a row."""
        return self._entries[row].number

    def row_of(self, number: int | None) -> int:
        """Return the row of an episode; -1 if it is not there."""
        numbers = (row for row, entry in enumerate(self._entries) if entry.number == number)
        return next(numbers, -1)

    def rowCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: B008, N802 - Qt's
        """Return how many there are."""
        return 0 if parent.isValid() else len(self._entries)

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> str | None:
        """Say which episode it is, and how it went."""
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        entry = self._entries[index.row()]
        steps = "1 step" if entry.steps == 1 else f"{entry.steps:,} steps"
        words = f"episode {entry.number:,}: return {entry.total:.5g}, {steps}"
        return words + (", no pictures" if self._some_have_frames and not entry.frames else "")
