"""The list of runs at the window's side: search, table, and how many there are."""

from __future__ import annotations

from PyQt6.QtCore import QItemSelection, QModelIndex, QPoint, Qt, QTimer, pyqtSignal
from PyQt6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent
from PyQt6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from lanekit.viewer.appearance import appearance
from lanekit.viewer.window.run_list_model import AGE, NAME, STATE, STEPS, RunListModel
from lanekit.viewer.window.run_row import RunRow

AGE_MS = 5000
SEARCH_MS = 120
"""A pause in typing after which is searched."""
MOST_RANGES = 200
"""Most pieces of a selection that outlast a new list: Qt compares each with each."""
_DOT = 8


class StateDelegate(QStyledItemDelegate):
    """Paints a dot in the state's colour before its word."""

    def initStyleOption(  # noqa: N802 - Qt's name
        self, option: QStyleOptionViewItem | None, index: QModelIndex
    ) -> None:
        """Leave room for the dot."""
        super().initStyleOption(option, index)
        if option is not None:
            option.text = f"     {option.text}"

    def paint(
        self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex
    ) -> None:
        """Paint the cell, then the dot."""
        super().paint(painter, option, index)
        model = index.model()
        if painter is None or not isinstance(model, RunListModel):
            return
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(appearance().palette.state_colour(model.shown(index.row()).state))
        middle = option.rect.center().y() - _DOT // 2 + 1
        painter.drawEllipse(option.rect.left() + 6, middle, _DOT, _DOT)
        painter.restore()


class RunTable(QTableView):
    """A table of whole lines; Enter opens what is selected."""

    opened = pyqtSignal()

    def __init__(self, model: RunListModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.hint = ""
        """What is said in place of lines while there are none."""
        self.setModel(model)
        self.setItemDelegateForColumn(STATE, StateDelegate(self))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.setSortingEnabled(True)
        self.sortByColumn(AGE, Qt.SortOrder.AscendingOrder)
        lines, columns = self.verticalHeader(), self.horizontalHeader()
        assert lines is not None
        assert columns is not None
        lines.hide()
        # One height for all: Qt would ask each of ten thousand lines otherwise.
        lines.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        lines.setDefaultSectionSize(self.fontMetrics().height() + 12)
        columns.setHighlightSections(False)
        columns.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        for column, widest in ((STATE, "MM submitted"), (STEPS, "10,000,000"), (AGE, "59 min")):
            columns.resizeSection(column, self.fontMetrics().horizontalAdvance(widest) + 16)
        columns.setMinimumSectionSize(48)
        self.doubleClicked.connect(self.opened)

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802 - Qt's name
        """Paint the lines, or words if there are none."""
        super().paintEvent(event)
        model, viewport = self.model(), self.viewport()
        if model is None or viewport is None or model.rowCount():
            return
        painter = QPainter(viewport)
        painter.setPen(QColor(appearance().palette.quiet_text))
        words = Qt.AlignmentFlag.AlignHCenter | Qt.TextFlag.TextWordWrap
        painter.drawText(viewport.rect().adjusted(16, 24, -16, 0), words, self.hint)
        painter.end()

    def keyPressEvent(self, event: QKeyEvent | None) -> None:  # noqa: N802 - Qt's name
        """Open with Enter; all else is Qt's."""
        if event is not None and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.opened.emit()
        else:
            super().keyPressEvent(event)


class RunListPanel(QWidget):
    """Search, the table, and a line that says how many runs there are."""

    selection_changed = pyqtSignal()
    opened = pyqtSignal()
    menu_requested = pyqtSignal(QPoint)

    def __init__(self, model: RunListModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = model
        self.search = QLineEdit(self)
        self.search.setPlaceholderText("Search by id or state")
        self.search.setClearButtonEnabled(True)
        self.archived = QCheckBox("Archived", self)
        self.archived.setToolTip("Show the runs that were put aside, too")
        self.table = RunTable(model, self)
        model.setParent(self)  # after the table, so that it outlives it
        self.count = QLabel(self)
        self.count.setObjectName("quiet")
        self._selected: list[str] = []
        self._lay_out()
        self._searching = self._timer(SEARCH_MS, self._search, True)
        self._timer(AGE_MS, model.repaint_all, False).start()
        self.search.textChanged.connect(self._search_soon)
        self.search.returnPressed.connect(self._go_to_first)
        self.archived.toggled.connect(model.show_archived)
        self.table.opened.connect(self.opened)
        self.table.customContextMenuRequested.connect(self._ask_for_menu)
        selection = self.table.selectionModel()
        assert selection is not None
        selection.selectionChanged.connect(self._take_selection)
        model.modelReset.connect(self._select_again)
        model.modelReset.connect(self.selection_changed)
        model.modelReset.connect(self._tell_count)
        model.rowsInserted.connect(self._tell_count)
        model.rowsInserted.connect(self._select_new)
        self._tell_count()

    @property
    def selected(self) -> list[RunRow]:
        """The selected runs, as they are now; one that a search hides is not meant."""
        places = (self.model.place_of(run_id) for run_id in self._selected)
        return [self.model.shown(place) for place in places if place is not None]

    def select(self, *run_ids: str) -> None:
        """Select these runs, if they are shown, and scroll to the first."""
        self._selected = list(run_ids)
        self._select_again()
        self._scroll_to_selected()
        self.selection_changed.emit()

    def focus_search(self) -> None:
        """Let the next keys be searched for."""
        self.search.setFocus()
        self.search.selectAll()

    def _take_selection(self) -> None:
        selection = self.table.selectionModel()
        assert selection is not None
        lines = sorted(index.row() for index in selection.selectedRows())
        self._selected = [self.model.shown(line).run_id for line in lines]
        self.selection_changed.emit()

    def _select_again(self) -> None:
        """Keep the selection when the lines were made anew."""
        selection = self.table.selectionModel()
        assert selection is not None
        places = [self.model.place_of(run_id) for run_id in self._selected]
        found = [place for place in places if place is not None]
        selection.blockSignals(True)
        selection.clear()
        flag = selection.SelectionFlag
        lines = QItemSelection()
        for first, last in ranges(found)[:MOST_RANGES]:
            lines.select(self.model.index(first, 0), self.model.index(last, AGE))
        selection.select(lines, flag.Select)
        if found:
            selection.setCurrentIndex(self.model.index(found[0], 0), flag.NoUpdate)
        selection.blockSignals(False)
        viewport = self.table.viewport()
        if viewport is not None:
            viewport.update()

    def _select_new(self, _: QModelIndex, first: int, last: int) -> None:
        """Select a run that was to be selected before it was there."""
        new = {self.model.shown(line).run_id for line in range(first, last + 1)}
        if new.intersection(self._selected):
            self._select_again()
            self._scroll_to_selected()

    def _scroll_to_selected(self) -> None:
        place = self.model.place_of(self._selected[0]) if self._selected else None
        if place is not None:
            self.table.scrollTo(self.model.index(place, 0))

    def _search_soon(self) -> None:
        self._searching.start()

    def _search(self) -> None:
        self.model.search(self.search.text())

    def _ask_for_menu(self, at: QPoint) -> None:
        self.menu_requested.emit(self.table.mapToGlobal(at))

    def _go_to_first(self) -> None:
        self._searching.stop()
        self._search()
        if self.model.rowCount():
            self.select(self.model.shown(0).run_id)
            self.table.setFocus()

    def _tell_count(self) -> None:
        shown, total = self.model.rowCount(), self.model.total
        noun = "run" if total == 1 else "runs"
        if not total:
            self.table.hint = "Runs appear here by themselves."
        elif self.search.text().strip():
            self.table.hint = "No run has these words in its id or state."
        else:
            self.table.hint = "All runs are archived."
        self.count.setText(
            f"{total:,} {noun}" if shown == total else f"{shown:,} of {total:,} {noun}"
        )

    def _lay_out(self) -> None:
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addWidget(self.search)
        top.addWidget(self.archived)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 6)
        layout.setSpacing(8)
        layout.addLayout(top)
        layout.addWidget(self.table)
        layout.addWidget(self.count)

    def _timer(self, milliseconds: int, call: object, single: bool) -> QTimer:
        timer = QTimer(self)
        timer.setInterval(milliseconds)
        timer.setSingleShot(single)
        timer.timeout.connect(call)  # type: ignore[arg-type]
        return timer


def ranges(lines: list[int]) -> list[tuple[int, int]]:
    """Return the first and last of each piece of consecutive lines."""
    found: list[tuple[int, int]] = []
    for line in sorted(lines):
        if found and line == found[-1][1] + 1:
            found[-1] = (found[-1][0], line)
        else:
            found.append((line, line))
    return found
