"""The question that is asked before runs are ended by force."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QMessageBox, QWidget

_MOST_NAMES = 5


def ask_whether_to_cancel(
    run_ids: Sequence[str], agreed: Callable[[], None], parent: QWidget
) -> None:
    """Ask, and call `agreed` if that is the answer; does not wait for it."""
    names = "\n".join(run_ids[:_MOST_NAMES]) + ("\n…" if len(run_ids) > _MOST_NAMES else "")
    question = QMessageBox(parent)
    question.setWindowTitle("Cancel runs")
    question.setTextFormat(Qt.TextFormat.PlainText)
    question.setText(f"End {len(run_ids)} run{'' if len(run_ids) == 1 else 's'}?\n\n{names}")
    question.setInformativeText("Workers get ten seconds, then they are killed.")
    end = question.addButton("Cancel runs", QMessageBox.ButtonRole.DestructiveRole)
    question.addButton("Let them run", QMessageBox.ButtonRole.RejectRole)
    question.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    question.buttonClicked.connect(lambda button: agreed() if button is end else None)
    question.open()
