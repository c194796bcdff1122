"""All runs as a table: searched and sorted here, so that ten thousand rows are no work for Qt."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from PyQt6.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt

from lanekit.viewer.window.run_row import RunRow, age_text, lane_row

COLUMNS = ("Run", "State", "Steps", "Age")
NAME, STATE, STEPS, AGE = range(4)
_TIPS = (
    "",
    "",
    "steps that are stored",
    "since it was submitted, or its lane was made",
)
_SORT_KEYS: tuple[Callable[[RunRow], Any], ...] = (
    lambda row: row.run_id.lower(),
    lambda row: row.state,
    lambda row: row.steps,
    lambda row: -row.created_ns,
)
_FIXED = (NAME, AGE)
"""Columns in which a run never changes, so that its place does not either."""


class RunListModel(QAbstractTableModel):
    """The daemon's runs and those that only publish pictures; shows those that are searched for."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs: dict[str, RunRow] = {}
        self._lanes: dict[str, RunRow] = {}
        self._shown: list[RunRow] = []
        self._places: dict[str, int] = {}
        self._words: list[str] = []
        self._with_archived = False
        self._sort = (AGE, False)

    # --- what is known ----------------------------------------------------------------------------

    def take_all(self, rows: Iterable[RunRow]) -> None:
        """Take over a daemon's whole list in place of what was known of it."""
        self._runs = {row.run_id: row for row in rows}
        self._arrange_anew()

    def take(self, rows: Sequence[RunRow]) -> None:
        """Take over the daemon's runs that changed, or are new."""
        self._runs |= {row.run_id: row for row in rows}
        self._show_changed(rows)

    def take_lanes(self, lanes: Mapping[str, int]) -> None:
        """Take over which runs publish pictures; those that the daemon knows stay as they are."""
        self._lanes = {run_id: lane_row(run_id, since) for run_id, since in lanes.items()}
        wanted = {row.run_id for row in self._lanes.values() if row.run_id not in self._runs}
        gone = [row for row in self._shown if not row.on_daemon and row.run_id not in wanted]
        if gone:
            self._arrange_anew()
        else:
            self._show_changed([self._lanes[run_id] for run_id in wanted])

    def row(self, run_id: str) -> RunRow | None:
        """Return a run as it was last heard of, shown or not."""
        return self._runs.get(run_id) or self._lanes.get(run_id)

    def is_published(self, run_id: str) -> bool:
        """Tell whether a run publishes pictures on this machine now."""
        return run_id in self._lanes

    @property
    def total(self) -> int:
        """How many runs are known, hidden ones included."""
        return len(self._runs.keys() | self._lanes.keys())

    # --- what is shown ----------------------------------------------------------------------------

    def search(self, text: str) -> None:
        """Show the runs that have all words of a text; upper or lower case is the same."""
        self._words = text.lower().split()
        self._arrange_anew()

    def show_archived(self, shown: bool) -> None:
        """Show the archived runs, too, or no more."""
        self._with_archived = shown
        self._arrange_anew()

    def place_of(self, run_id: str) -> int | None:
        """Return a run's line; None if it is not shown."""
        return self._places.get(run_id)

    def shown(self, line: int) -> RunRow:
        """Return the run of a line."""
        return self._shown[line]

    def repaint_all(self) -> None:
        """Have the lines on the screen painted again: the ages have grown, or the theme changed."""
        if self._shown:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self._shown) - 1, AGE))

    def _is_wanted(self, row: RunRow) -> bool:
        return (self._with_archived or not row.archived) and row.has_words(self._words)

    def _sorted(self, rows: Iterable[RunRow]) -> list[RunRow]:
        column, backwards = self._sort
        # Of equal ones, the newest first in either direction.
        newest_first = sorted(rows, key=_SORT_KEYS[AGE])
        return sorted(newest_first, key=_SORT_KEYS[column], reverse=backwards)

    def _arrange_anew(self) -> None:
        self.beginResetModel()
        known = {**self._lanes, **self._runs}
        self._set_shown(self._sorted(row for row in known.values() if self._is_wanted(row)))
        self.endResetModel()

    def _set_shown(self, rows: list[RunRow]) -> None:
        self._shown = rows
        self._places = {row.run_id: place for place, row in enumerate(rows)}

    def _show_changed(self, rows: Sequence[RunRow]) -> None:
        """Change lines in place where that is all there is to do."""
        new = [row for row in rows if self._is_wanted(row) and row.run_id not in self._places]
        stay = [row for row in rows if self._is_wanted(row) and row.run_id in self._places]
        leave = [row for row in rows if not self._is_wanted(row) and row.run_id in self._places]
        if leave or len(new) > 1:
            self._arrange_anew()
            return
        for row in stay:
            place = self._places[row.run_id]
            if row != self._shown[place]:
                self._shown[place] = row
                self.dataChanged.emit(self.index(place, 0), self.index(place, AGE))
        if stay and self._sort[0] not in _FIXED:
            self._sort_again()
        for row in new:
            rows_then = self._sorted([*self._shown, row])
            place = next(i for i, other in enumerate(rows_then) if other is row)
            self.beginInsertRows(QModelIndex(), place, place)
            self._set_shown(rows_then)
            self.endInsertRows()

    def _sort_again(self) -> None:
        rows = self._sorted(self._shown)
        if rows == self._shown:
            return
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        ids = [self._shown[index.row()].run_id for index in before]
        self._set_shown(rows)
        after = [
            self.index(self._places[run_id], index.column())
            for run_id, index in zip(ids, before, strict=True)
        ]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    # --- what Qt asks -----------------------------------------------------------------------------

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column."""
        if 0 <= column < len(COLUMNS):
            self._sort = (column, order == Qt.SortOrder.DescendingOrder)
            self._sort_again()
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(COLUMNS) - 1)

    def rowCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: N802, B008 - Qt's name
        """How many runs are shown."""
        return 0 if parent.isValid() else len(self._shown)

    def columnCount(self, parent: QModelIndex = QModelIndex()) -> int:  # noqa: N802, B008
        """How many columns there are."""
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Return a column's title, or what it means."""
        if orientation == Qt.Orientation.Horizontal:
            if role == Qt.ItemDataRole.DisplayRole:
                return self._title(section)
            if role == Qt.ItemDataRole.ToolTipRole:
                return _TIPS[section] or None
            if role == Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(section)
        return None

    def _title(self, column: int) -> str:
        """Return a column's title, with a mark beside it if the lines are sorted by it."""
        by, backwards = self._sort
        return f"{COLUMNS[column]} {'▾' if backwards else '▴'}" if column == by else COLUMNS[column]

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a cell shows."""
        row, column = self._shown[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return _text(row, column)
        if role == Qt.ItemDataRole.ToolTipRole:
            return _tip(row)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column)
        return None


def _alignment(column: int) -> int:
    side = Qt.AlignmentFlag.AlignRight if column >= STEPS else Qt.AlignmentFlag.AlignLeft
    return int(side | Qt.AlignmentFlag.AlignVCenter)


def _text(row: RunRow, column: int) -> str:
    if column == NAME:
        return row.run_id
    if column == STATE:
        return f"{row.state} (archived)" if row.archived else row.state
    if column == AGE:
        return age_text(time.time_ns() - row.created_ns)
    if not row.on_daemon:
        return "–"
    return f"{row.steps:,}"


def _tip(row: RunRow) -> str:
    about = "publishes pictures; no daemon knows it"
    if row.on_daemon:
        about = f"{row.state}, {row.steps:,} steps, {row.episodes:,} episodes"
    # Rich text wraps long lines; escaped, since an id or a reason may look like some.
    texts = filter(None, (row.run_id, about, row.reason))
    return "".join(f"<p>{escape(text)}</p>" for text in texts)
