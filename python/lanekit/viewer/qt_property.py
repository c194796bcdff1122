"""PyQt's property decorator, which its type information leaves out."""

from __future__ import annotations

from typing import Any

from PyQt6 import QtCore

pyqtProperty: Any = QtCore.pyqtProperty  # type: ignore[attr-defined]  # noqa: N816
