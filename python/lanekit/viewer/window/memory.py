"""What the window remembers from one time to the next: places, open tabs, the theme."""

from __future__ import annotations

import contextlib
from pathlib import Path

from PyQt6.QtCore import QByteArray, QSettings

from lanekit.slow.endpoint import state_directory
from lanekit.viewer.window.pages import PageKey
from lanekit.viewer.window.theme import CHOICES, Choice

MOST_PAGES = 16
"""Most tabs that are opened again."""


def usual_place() -> Path:
    """Return the file of this user."""
    return state_directory() / "viewer.ini"


class WindowMemory:
    """Reads and writes one ini file. Whatever is in it, the window opens."""

    def __init__(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._settings = QSettings(str(path), QSettings.Format.IniFormat)

    @property
    def theme(self) -> Choice:
        """The theme that was chosen."""
        found = self._text("theme")
        return next((choice for choice in CHOICES if choice == found), "system")

    @theme.setter
    def theme(self, choice: Choice) -> None:
        self._settings.setValue("theme", choice)

    @property
    def shows_archived(self) -> bool:
        """Whether archived runs are listed."""
        return self._text("archived") == "yes"

    @shows_archived.setter
    def shows_archived(self, shown: bool) -> None:
        self._settings.setValue("archived", "yes" if shown else "no")

    @property
    def pages(self) -> list[PageKey]:
        """The tabs that were open; what can not be read is left out."""
        keys = []
        for text in self._text("pages").split("\n"):
            with contextlib.suppress(ValueError):
                keys.append(PageKey.from_json(text))
        return keys[:MOST_PAGES]

    @pages.setter
    def pages(self, keys: list[PageKey]) -> None:
        self._settings.setValue("pages", "\n".join(key.to_json() for key in keys))

    def bytes(self, name: str) -> QByteArray:
        """Return Qt's own description of places; empty if there is none."""
        return QByteArray.fromBase64(self._text(name).encode())

    def set_bytes(self, name: str, content: QByteArray) -> None:
        """Remember Qt's own description of places."""
        self._settings.setValue(name, bytes(content.toBase64().data()).decode())

    def save(self) -> None:
        """Write the file now."""
        self._settings.sync()

    def _text(self, name: str) -> str:
        # A file that somebody edited may hold what PyQt can not turn into Python.
        with contextlib.suppress(TypeError, ValueError):
            value = self._settings.value(name, "")
            return value if isinstance(value, str) else ""
        return ""
