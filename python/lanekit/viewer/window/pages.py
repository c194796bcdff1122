"""What a tab can hold: a run's picture, an agent's numbers, several pictures side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QResizeEvent
from PyQt6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from lanekit.viewer.live.controller import ALL_AGENTS
from lanekit.viewer.window.picture_tabs import PictureTabs

PageKind = Literal["picture", "numbers", "both", "grid"]
MOST_IN_GRID = 16


@dataclass(frozen=True)
class PageKey:
    """Which page it is: the same key, the same page."""

    kind: PageKind
    runs: tuple[str, ...]
    agent: str = ""
    """Whose numbers; ``ALL_AGENTS`` for everybody's."""

    @property
    def title(self) -> str:
        """What the tab is called."""
        if self.kind == "grid":
            return f"{len(self.runs)} runs"
        if self.kind in ("picture", "both"):
            return self.runs[0]
        agent = "" if self.agent == ALL_AGENTS else f" · {self.agent}"
        return f"{self.runs[0]}{agent} · numbers"

    def to_json(self) -> str:
        """Return it as it is remembered."""
        return json.dumps([self.kind, list(self.runs), self.agent])

    @classmethod
    def from_json(cls, text: str) -> PageKey:
        """Return what :meth:`to_json` described; ``ValueError`` for anything else."""
        try:
            kind, runs, agent = json.loads(text)
        except TypeError as error:
            raise ValueError(f"no page: {text!r}") from error
        is_sound = kind in ("picture", "numbers", "both", "grid") and isinstance(agent, str)
        if not is_sound or not isinstance(runs, list) or not 1 <= len(runs) <= MOST_IN_GRID:
            raise ValueError(f"no page: {text!r}")
        if not all(isinstance(run, str) and run for run in runs):
            raise ValueError(f"no page: {text!r}")
        return cls(kind, tuple(runs), agent)


class Page(QWidget):
    """A tab's content, which can move to a window of its own."""

    emptied = pyqtSignal(object)
    """It has nothing to show any more; carries the page."""

    def __init__(self, key: PageKey, content: QWidget, leave: Callable[[], None]) -> None:
        """`leave` ends what the content reads; called once, when the page is closed."""
        super().__init__()
        self.key = key
        self.content = content
        self._leave: Callable[[], None] | None = leave
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.addWidget(content)
        self.setFocusProxy(content)
        self.setWindowTitle(key.title)

    def leave(self) -> None:
        """Stop reading."""
        if self._leave is not None:
            leave, self._leave = self._leave, None
            leave()

    def tell_emptied(self) -> None:
        """Say that there is nothing left to show."""
        self.emptied.emit(self)


def picture_page(key: PageKey, tabs: PictureTabs | None = None) -> Page:
    """Make the page of one run's picture."""
    tab = (tabs or PictureTabs()).make(key.runs[0], key.agent)
    return Page(key, tab, tab.leave)


class RunGrid(QWidget):
    """Several live pictures side by side, as square as their number allows."""

    emptied = pyqtSignal()

    def __init__(
        self,
        run_ids: Sequence[str],
        parent: QWidget | None = None,
        *,
        tabs: PictureTabs | None = None,
    ) -> None:
        super().__init__(parent)
        tabs = tabs or PictureTabs()
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(8, 8, 8, 8)
        self._grid.setSpacing(8)
        self.cells = [_Cell(run_id, tabs, self) for run_id in run_ids[:MOST_IN_GRID]]
        for cell in self.cells:
            cell.closed.connect(self._remove)
        self._arrange()

    def leave(self) -> None:
        """Stop reading all of them."""
        for cell in self.cells:
            cell.tab.leave()

    def _remove(self, cell: _Cell) -> None:
        self.cells.remove(cell)
        cell.tab.leave()
        self._grid.removeWidget(cell)
        cell.deleteLater()
        if self.cells:
            self._arrange()
        else:
            self.emptied.emit()

    def _arrange(self) -> None:
        columns = max(1, math.ceil(math.sqrt(len(self.cells))))
        for line in range(self._grid.rowCount()):
            self._grid.setRowStretch(line, 0)
        for column in range(self._grid.columnCount()):
            self._grid.setColumnStretch(column, 0)
        for place, cell in enumerate(self.cells):
            self._grid.addWidget(cell, place // columns, place % columns)
            self._grid.setRowStretch(place // columns, 1)
            self._grid.setColumnStretch(place % columns, 1)


class _Name(QLabel):
    """A run's name; where there is no room for all of it, its middle is left out."""

    def __init__(self, run_id: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._run_id = run_id
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setMinimumWidth(40)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setToolTip(run_id)
        self.setText(run_id)

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802 - Qt's name
        """Say as much as fits."""
        super().resizeEvent(event)
        middle = Qt.TextElideMode.ElideMiddle
        self.setText(self.fontMetrics().elidedText(self._run_id, middle, self.width()))


class _Cell(QFrame):
    """One picture with its run's name and a button that takes it away."""

    closed = pyqtSignal(object)

    def __init__(self, run_id: str, tabs: PictureTabs, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("cell")
        self.tab = tabs.make(run_id, parent=self)
        name = _Name(run_id, self)
        close = QToolButton(self)
        close.setText("✕")
        close.setToolTip("Take it out of the grid")
        close.clicked.connect(self._close)
        top = QHBoxLayout()
        top.setContentsMargins(8, 2, 2, 2)
        top.addWidget(name, 1)
        top.addWidget(close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(0)
        layout.addLayout(top)
        layout.addWidget(self.tab, 1)

    def _close(self) -> None:
        self.closed.emit(self)
