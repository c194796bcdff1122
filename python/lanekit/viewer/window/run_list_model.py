"""All runs as a table: newest first, changes in place, thousands of rows without a stutter."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from PyQt6.QtCore import QAbstractTableModel, QModelIndex, QObject, QSortFilterProxyModel, Qt
from PyQt6.QtGui import QBrush

from lanekit.slow.daemon.run_states import state_word
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.viewer.window.palette import Palette

COLUMNS = ("Run", "State", "Steps", "Episodes", "Age")
_NUMBERS = (2, 3)
RUN_ROLE = Qt.ItemDataRole.UserRole
SORT_ROLE = Qt.ItemDataRole.UserRole + 1


class RunListModel(QAbstractTableModel):
    """The runs that the daemon told of."""

    def __init__(self, palette: Palette, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._palette = palette
        self._runs: list[pb.Run] = []
        self._rows: dict[str, int] = {}

    def take(self, changed: Iterable[pb.Run]) -> None:
        """Take over runs as they are now: known ones in place, new ones at the end."""
        new: list[pb.Run] = []
        for run in changed:
            row = self._rows.get(run.run_id)
            if row is None:
                self._rows[run.run_id] = len(self._runs) + len(new)
                new.append(run)
            elif row >= len(self._runs):
                new[row - len(self._runs)] = run
            else:
                self._runs[row] = run
                self.dataChanged.emit(self.index(row, 0), self.index(row, len(COLUMNS) - 1))
        if new:
            first = len(self._runs)
            self.beginInsertRows(QModelIndex(), first, first + len(new) - 1)
            self._runs += new
            self.endInsertRows()

    def run(self, run_id: str) -> pb.Run | None:
        """Return a run as it was last heard of."""
        row = self._rows.get(run_id)
        return None if row is None else self._runs[row]

    def repaint_ages(self) -> None:
        """Let the ages grow."""
        if self._runs:
            self.dataChanged.emit(self.index(0, 4), self.index(len(self._runs) - 1, 4))

    def set_palette(self, palette: Palette) -> None:
        """Show states in other colours."""
        self._palette = palette
        if self._runs:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self._runs) - 1, 4))

    # --- what Qt asks -----------------------------------------------------------------------------

    def rowCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's name
        """How many runs there are."""
        return 0 if parent.isValid() else len(self._runs)

    def columnCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: N802, B008
        """How many columns there are."""
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Return a column's title."""
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return COLUMNS[section]
        return None

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a cell shows."""
        run, column = self._runs[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(run, column)
        if role == SORT_ROLE:
            return self._sort_key(run, column)
        if role == RUN_ROLE:
            return run.run_id
        if role == Qt.ItemDataRole.ForegroundRole and column == 1:
            return QBrush(self._palette.state_colour(state_word(run)))
        if role == Qt.ItemDataRole.ToolTipRole and run.reason:
            return run.reason
        if role == Qt.ItemDataRole.TextAlignmentRole and column in _NUMBERS:
            return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        return None

    def _text(self, run: pb.Run, column: int) -> str:
        if column == 0:
            return run.run_id
        if column == 1:
            return state_word(run)
        if column == 2:
            return f"{run.steps:,}"
        if column == 3:
            return f"{run.episodes:,}"
        return age_text(time.time_ns() - run.created_wall_time_ns)

    def _sort_key(self, run: pb.Run, column: int) -> Any:
        keys = (run.run_id, state_word(run), run.steps, run.episodes, -run.created_wall_time_ns)
        return keys[column]


class RunFilter(QSortFilterProxyModel):
    """Those runs whose id or state has the words that are searched for."""

    def __init__(self, model: RunListModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._words: list[str] = []
        self.setSortRole(SORT_ROLE)
        self.setSourceModel(model)
        self.sort(4, Qt.SortOrder.AscendingOrder)

    def search(self, text: str) -> None:
        """Show the runs that have all words of a text; upper or lower case is the same."""
        self._words = text.lower().split()
        self.invalidateFilter()

    def filterAcceptsRow(self, row: int, parent: QModelIndex) -> bool:  # noqa: N802 - Qt's name
        """Tell whether a run is shown."""
        model = self.sourceModel()
        assert model is not None
        if not self._words:
            return True
        text = f"{model.index(row, 0).data()} {model.index(row, 1).data()}".lower()
        return all(word in text for word in self._words)


def age_text(nanoseconds: int) -> str:
    """Return how long ago something was, in the largest unit that fits."""
    seconds = max(0, nanoseconds) // 1_000_000_000
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
