"""What an evaluation writes beside its run: ``eval_summary.json``, read again every second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PyQt6.QtCore import QObject, QTimer, pyqtSignal

RELOAD_MS = 1000
_LABELS = (
    ("batches", "batches", "{:d}"),
    ("episodes", "episodes", "{:d}"),
    ("avg_return", "avg return", "{:.2f}"),
    ("min_return", "min return", "{:.2f}"),
    ("max_return", "max return", "{:.2f}"),
)


class EvalSummary(QObject):
    """Tells, as text, what the file says; a half-written or missing one changes nothing."""

    text_changed = pyqtSignal(str)

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self._text = ""
        self._timer = QTimer(self)
        self._timer.setInterval(RELOAD_MS)
        self._timer.timeout.connect(self.reload)

    def start(self) -> None:
        """Read now, and then every second."""
        self.reload()
        self._timer.start()

    def stop(self) -> None:
        """Read no more."""
        self._timer.stop()

    def reload(self) -> None:
        """Read the file once."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return  # not there yet, or being written: the next second will tell
        text = summary_text(content)
        if text and text != self._text:
            self._text = text
            self.text_changed.emit(text)


def summary_text(content: Any) -> str:
    """Return the known numbers of a summary, a line each; empty if it has none."""
    if not isinstance(content, dict):
        return ""
    lines = []
    for key, label, form in _LABELS:
        value = content.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        lines.append(f"{label}: " + form.format(int(value) if "d" in form else value))
    return "\n".join(lines)
