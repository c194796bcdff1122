"""The question that is asked before runs are ended by force."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QAbstractButton, QMessageBox, QWidget

from lanekit.viewer.window.run_row import RunRow

_MOST_NAMES = 5


class CancelQuestion(QMessageBox):
    """Asks about some runs; goes away with the answer."""

    agreed = pyqtSignal(object)
    """The runs."""

    def __init__(self, rows: Sequence[RunRow], parent: QWidget) -> None:
        super().__init__(parent)
        self._rows = rows
        run_ids = [row.run_id for row in rows]
        names = "\n".join(run_ids[:_MOST_NAMES]) + ("\n…" if len(run_ids) > _MOST_NAMES else "")
        self.setWindowTitle("Cancel runs")
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(f"End {len(run_ids)} run{'' if len(run_ids) == 1 else 's'}?\n\n{names}")
        self.setInformativeText("Workers get ten seconds, then they are killed.")
        self._end = self.addButton("Cancel runs", QMessageBox.ButtonRole.DestructiveRole)
        self.addButton("Let them run", QMessageBox.ButtonRole.RejectRole)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.buttonClicked.connect(self._take_answer)

    def _take_answer(self, button: QAbstractButton) -> None:
        if button is self._end:
            self.agreed.emit(self._rows)
