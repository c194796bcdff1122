"""A table whose rows come at the top, and which stays where a reader has scrolled to."""

from __future__ import annotations

from PyQt6.QtCore import QModelIndex, Qt
from PyQt6.QtGui import QFont, QKeyEvent, QKeySequence
from PyQt6.QtWidgets import QAbstractItemView, QApplication, QHeaderView, QTableView, QWidget

from lanekit.viewer.live.table_models import NewestFirstModel

ROW_HEIGHT = 24
WIDTHS = {
    "Agent": 110,
    "Episode": 64,
    "Step": 60,
    "Return": 70,
    "Reward": 72,
    "Length": 62,
    "End": 88,
    "Action": 80,
    "Observation": 80,
}


class NewestFirstView(QTableView):
    """Shows a :class:`NewestFirstModel`; the copy keys take the selected rows as lines."""

    def __init__(self, model: NewestFirstModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows = model
        font = QFont(self.font())
        font.setPixelSize(12)
        self.setFont(font)
        self.setModel(model)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # agents' names differ at the end
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        lines, names = self.verticalHeader(), self.horizontalHeader()
        assert lines is not None
        assert names is not None
        lines.hide()
        lines.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        lines.setDefaultSectionSize(ROW_HEIGHT)
        names.setHighlightSections(False)
        names.setStretchLastSection(True)
        names.setMinimumSectionSize(40)
        for column, name in enumerate(model.columns):
            self.setColumnWidth(column, WIDTHS[name])

    def rowsInserted(self, parent: QModelIndex, start: int, end: int) -> None:  # noqa: N802
        """Keep what a reader looks at where it is."""
        bar = self.verticalScrollBar()
        place = bar.value() if bar is not None else 0
        super().rowsInserted(parent, start, end)
        if bar is not None and place > 0:
            self.updateGeometries()  # lets the bar know of the rows
            bar.setValue(place + end - start + 1)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:  # noqa: N802 - Qt's name
        """Copy lines."""
        if event is not None and event.matches(QKeySequence.StandardKey.Copy):
            self.copy_selected()
        else:
            super().keyPressEvent(event)

    def copy_selected(self) -> None:
        """Put the selected rows on the clipboard, a line each, with tabs between the cells."""
        chosen, clipboard = self.selectionModel(), QApplication.clipboard()
        if chosen is not None and clipboard is not None:
            rows = sorted(index.row() for index in chosen.selectedRows())
            clipboard.setText("\n".join("\t".join(self._rows.texts(row)) for row in rows))

    def show_agents(self, several: bool) -> None:
        """Show the column of agents, or not."""
        self.setColumnHidden(0, not several)

    def sizeHintForRow(self, row: int) -> int:  # noqa: N802 - Qt's name
        """All rows are alike."""
        return ROW_HEIGHT
