"""What an evaluation writes beside its run: ``eval_summary.json``, read again every second."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

from PyQt6.QtCore import QObject, pyqtSignal

RELOAD_MS = 1000
_LARGEST = 1 << 20
"""Bytes beyond which a file is no summary."""
_LABELS = (
    ("batches", "batches", "{:.0f}"),
    ("episodes", "episodes", "{:.0f}"),
    ("avg_return", "avg return", "{:.2f}"),
    ("min_return", "min return", "{:.2f}"),
    ("max_return", "max return", "{:.2f}"),
)


class EvalSummary(QObject):
    """Tells, as text, what the file says; a half-written or missing one changes nothing.

    A thread reads it: the disk may be far away, and the window must not wait for it. It has no
    parent: a thread that still reads keeps it when its window has gone.
    """

    text_changed = pyqtSignal(str)

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._text = ""
        self._ended: threading.Event | None = None

    def start(self) -> None:
        """Read now, and then every second."""
        if self._ended is None:
            self._ended = threading.Event()
            threading.Thread(
                target=self._read_on, args=(self._ended,), name="eval-summary", daemon=True
            ).start()

    def stop(self) -> None:
        """Read no more."""
        if self._ended is not None:
            self._ended.set()
            self._ended = None

    def _read_on(self, ended: threading.Event) -> None:
        while not ended.is_set():
            text = read_summary(self._path)
            if text and text != self._text and not ended.is_set():
                self._text = text
                self.text_changed.emit(text)
            ended.wait(RELOAD_MS / 1000)


def read_summary(path: Path) -> str:
    """Return what the file says, a line for each number; empty if it can not be read (yet)."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        return summary_text(json.loads(content)) if len(content) <= _LARGEST else ""
    except (OSError, ValueError, RecursionError):
        return ""  # not there yet, or being written: the next second will tell


def summary_text(content: Any) -> str:
    """Return the known numbers of a summary, a line each; empty if it has none."""
    if not isinstance(content, dict):
        return ""
    known = [(label, form, content.get(key)) for key, label, form in _LABELS]
    shown = [(label, form.format(value)) for label, form, value in known if _is_number(value)]
    width = max((len(number) for _, number in shown), default=0)
    return "\n".join(f"{label:<10}  {number:>{width}}" for label, number in shown)


def _is_number(value: Any) -> bool:
    try:
        return (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        )
    except OverflowError:  # a whole number beyond what a float holds
        return False
