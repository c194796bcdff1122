"""The list of environments, from which one is chosen to be played."""

from __future__ import annotations

from PyQt6.QtCore import QSortFilterProxyModel, Qt, pyqtSignal
from PyQt6.QtGui import QStandardItem, QStandardItemModel
from PyQt6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from lanekit.viewer.human.environments import Game, GameScan

_GAME = Qt.ItemDataRole.UserRole + 1
_ORDER = Qt.ItemDataRole.UserRole + 2


class Chooser(QWidget):
    """All that is registered; what can not be played is grey and says why."""

    chosen = pyqtSignal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.search = QLineEdit(self)
        self.search.setPlaceholderText("Search environments")
        self.search.setClearButtonEnabled(True)
        self.items = QStandardItemModel(0, 3, self)
        self.items.setHorizontalHeaderLabels(
            ["Environment", "Keys", "How it goes, or why it can not be played"]
        )
        self.shown = QSortFilterProxyModel(self)
        self.shown.setSourceModel(self.items)
        self.shown.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.shown.setFilterKeyColumn(0)
        self.shown.setSortRole(_ORDER)
        self.shown.sort(0)
        self.table = self._table()
        self.count = QLabel("Looking for environments …", self)
        self.count.setObjectName("quiet")
        self.play = QPushButton("Play", self)
        self.play.setDefault(True)
        self.play.setEnabled(False)
        self._lay_out()
        self.search.textChanged.connect(self._filter)
        self.search.returnPressed.connect(self._choose)
        self.table.doubleClicked.connect(self._choose)
        self.play.clicked.connect(self._choose)
        selection = self.table.selectionModel()
        assert selection is not None
        selection.selectionChanged.connect(self._enable)
        self.scan = GameScan()
        self.scan.found.connect(self._add)
        self.scan.finished.connect(self._tell)
        self.scan.start()
        self.destroyed.connect(self.scan.leave)

    @property
    def games(self) -> list[Game]:
        """All that were found."""
        return [self._item(row).data(_GAME) for row in range(self.items.rowCount())]

    def select(self, env_id: str) -> None:
        """Select an environment, if it is there and can be played."""
        for row in range(self.shown.rowCount()):
            index = self.shown.index(row, 0)
            if index.data() == env_id and index.flags() & Qt.ItemFlag.ItemIsEnabled:
                self.table.selectRow(row)
                self.table.scrollTo(index)
                return

    def _table(self) -> QTableView:
        table = QTableView(self)
        table.setModel(self.shown)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.setTabKeyNavigation(False)
        lines, columns = table.verticalHeader(), table.horizontalHeader()
        assert lines is not None
        assert columns is not None
        lines.hide()
        lines.setDefaultSectionSize(28)
        columns.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        columns.resizeSection(0, 220)
        columns.resizeSection(1, 150)
        columns.setResizeContentsPrecision(-1)  # all lines, not only those in sight
        columns.setStretchLastSection(True)
        columns.setHighlightSections(False)
        columns.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        return table

    def _lay_out(self) -> None:
        title = QLabel("Play an environment", self)
        title.setObjectName("title")
        below = QHBoxLayout()
        below.addWidget(self.count, 1)
        below.addWidget(self.play)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(10)
        layout.addWidget(title)
        layout.addWidget(self.search)
        layout.addWidget(self.table, 1)
        layout.addLayout(below)

    def _item(self, row: int) -> QStandardItem:
        item = self.items.item(row, 0)
        assert item is not None
        return item

    def _add(self, game: Game) -> None:
        items = [QStandardItem(text) for text in (game.env_id, game.caps, game.how)]
        first, _, last = items
        first.setData(game, _GAME)
        first.setData(f"{'b' if game.keys is None else 'a'}{self.items.rowCount():06}", _ORDER)
        for item in items:
            item.setEnabled(game.keys is not None)
        last.setToolTip(game.how)
        self.items.appendRow(items)

    def _tell(self) -> None:
        playable = sum(game.keys is not None for game in self.games)
        for column in (0, 1):
            self.table.resizeColumnToContents(column)
        self.count.setText(f"{playable} of {len(self.games)} environments can be played here")

    def _filter(self, text: str) -> None:
        self.shown.setFilterFixedString(text)
        first = self.shown.index(0, 0)
        if first.isValid() and first.flags() & Qt.ItemFlag.ItemIsEnabled:
            self.table.selectRow(0)
        self._enable()

    def _selected(self) -> Game | None:
        selection = self.table.selectionModel()
        rows = [] if selection is None else selection.selectedRows()
        game: Game | None = rows[0].data(_GAME) if rows else None
        return game if game is not None and game.keys is not None else None

    def _enable(self) -> None:
        self.play.setEnabled(self._selected() is not None)

    def _choose(self) -> None:
        if (game := self._selected()) is not None:
            self.chosen.emit(game)
