"""The newest steps and the finished episodes as tables, the newest first."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PyQt6.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt

from lanekit.slow.display_rows import TERMINATED, TRUNCATED, StepRow, ending_text
from lanekit.viewer.live.history import RunHistory
from lanekit.viewer.live.numbers import number_text

STEP_ROWS = 1000
EPISODE_ROWS = 100_000
AGENT = "Agent"
ONLY_AGENT = "(unnamed)"

_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_NOWHERE = QModelIndex()


class NewestFirstModel(QAbstractTableModel):
    """Rows that come at the top; the oldest give way at the bottom."""

    def __init__(self, columns: Sequence[str], numeric: int, most: int, parent: QObject | None):
        """All but the agent's column and those after the `numeric` first are numbers."""
        super().__init__(parent)
        self.columns = list(columns)
        self._numeric = range(1, 1 + numeric)
        self._most = most
        self._size = 0

    def rowCount(self, parent: QModelIndex = _NOWHERE) -> int:  # noqa: N802 - Qt's name
        """How many rows there are."""
        return 0 if parent.isValid() else self._size

    def columnCount(self, parent: QModelIndex = _NOWHERE) -> int:  # noqa: N802 - Qt's name
        """How many columns there are."""
        return 0 if parent.isValid() else len(self.columns)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Return a column's name, aligned as its cells are."""
        if orientation == Qt.Orientation.Horizontal:
            if role == Qt.ItemDataRole.DisplayRole:
                return self.columns[section]
            if role == Qt.ItemDataRole.TextAlignmentRole:
                return _RIGHT if section in self._numeric else _LEFT
        return None

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a cell shows; the whole text also as its tool tip."""
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return self.texts(index.row())[index.column()]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if index.column() in self._numeric else _LEFT
        return None

    @abstractmethod
    def texts(self, row: int) -> tuple[str, ...]:
        """Return a row's cells."""

    def _grow(self, count: int) -> None:
        """Tell Qt of rows that came; what they hold must be there when this is called."""
        if not count:
            return
        if count >= self._most:
            self.beginResetModel()
            self._size = min(self._size + count, self._most)
            self.endResetModel()
            return
        surplus = self._size + count - self._most
        if surplus > 0:
            self.beginRemoveRows(_NOWHERE, self._size - surplus, self._size - 1)
            self._size -= surplus
            self.endRemoveRows()
        self.beginInsertRows(_NOWHERE, 0, count - 1)
        self._size += count
        self.endInsertRows()


class StepTableModel(NewestFirstModel):
    """The newest steps that were shown."""

    def __init__(self, parent: QObject | None = None) -> None:
        names = (AGENT, "Episode", "Step", "Reward", "End", "Action", "Observation")
        super().__init__(names, 3, STEP_ROWS, parent)
        self._all: deque[StepRow] = deque(maxlen=STEP_ROWS)
        self._shown: deque[StepRow] = deque(maxlen=STEP_ROWS)
        self._agent: str | None = None

    @property
    def rows(self) -> list[StepRow]:
        """What the table shows, the newest first."""
        return list(self._shown)

    def add(self, rows: Sequence[StepRow]) -> None:
        """Show steps, the oldest first."""
        self._all.extendleft(rows)
        wanted = [row for row in rows if self._agent in (None, row.agent_id)]
        self._shown.extendleft(wanted)
        self._grow(len(wanted))

    def show_agent(self, agent: str | None) -> None:
        """Show one agent's steps, or all."""
        self.beginResetModel()
        self._agent = agent
        wanted = (row for row in self._all if agent in (None, row.agent_id))
        self._shown = deque(wanted, maxlen=STEP_ROWS)
        self._size = len(self._shown)
        self.endResetModel()

    def texts(self, row: int) -> tuple[str, ...]:
        """Return a row's cells."""
        step = self._shown[row]
        return (
            step.agent_id or ONLY_AGENT,
            f"{step.episode:,}",
            f"{step.step:,}",
            number_text(step.reward),
            ending_text(step.terminated, step.truncated),
            step.action,
            step.observation,
        )


class EpisodeTableModel(NewestFirstModel):
    """Finished episodes, read where the run's history keeps them."""

    def __init__(self, parent: QObject | None = None) -> None:
        names = (AGENT, "Episode", "Return", "Length", "End")
        super().__init__(names, 3, EPISODE_ROWS, parent)
        self._history = RunHistory()
        self._agent: str | None = None
        self._total = 0

    @property
    def total(self) -> int:
        """How many there are; the table has room for the newest 100,000."""
        return self._total

    def show_history(self, history: RunHistory, agent: str | None) -> None:
        """Show one agent's episodes, or all."""
        self.beginResetModel()
        self._history, self._agent = history, agent
        self._total = self._count()
        self._size = min(self._total, EPISODE_ROWS)
        self.endResetModel()

    def grow(self) -> None:
        """Show what was added to the history."""
        new = self._count() - self._total
        self._total += new
        self._grow(new)

    def texts(self, row: int) -> tuple[str, ...]:
        """Return a row's cells."""
        history, place = self._history, self._total - 1 - row
        places = self._places()
        if places is not None:
            place = int(places[place])
        ending = int(history.ending.values[place])
        return (
            history.agent_names[history.agent_index.values[place]] or ONLY_AGENT,
            f"{history.episode.values[place]:,}",
            number_text(float(history.returns.values[place])),
            f"{history.length.values[place]:,}",
            ending_text(bool(ending & TERMINATED), bool(ending & TRUNCATED)),
        )

    def _places(self) -> NDArray[np.int64] | None:
        """Return where the agent's episodes are; None for those of all agents."""
        if self._agent is None:
            return None
        agent = self._history.agents.get(self._agent)
        return np.empty(0, np.int64) if agent is None else agent.places.values

    def _count(self) -> int:
        places = self._places()
        return self._history.episodes if places is None else len(places)
