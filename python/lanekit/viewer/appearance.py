"""Whether windows are dark or light: told once, followed by every QML scene."""

from __future__ import annotations

import functools

from PyQt6.QtCore import QObject, pyqtSignal
from PyQt6.QtQml import QQmlEngine

from lanekit.viewer.palette import DARK, LIGHT, Palette


class Appearance(QObject):
    """The program's theme."""

    dark_changed = pyqtSignal(bool)

    def __init__(self) -> None:
        super().__init__()
        self._dark = True

    @property
    def dark(self) -> bool:
        """Whether windows are dark."""
        return self._dark

    @property
    def palette(self) -> Palette:
        """The theme's colours."""
        return DARK if self._dark else LIGHT

    def set_dark(self, dark: bool) -> None:
        """Make every window dark, or light."""
        if dark != self._dark:
            self._dark = dark
            self.dark_changed.emit(dark)


@functools.cache
def appearance() -> Appearance:
    """Return the one of this process."""
    return Appearance()


_followers: set[QObject] = set()


class ThemeFollower(QObject):
    """Keeps the ``Theme`` of one engine as the program's; ends with the engine, its parent."""

    def __init__(self, engine: QQmlEngine) -> None:
        super().__init__(engine)
        self._engine = engine
        # Python would take it away, and the connection with it, as soon as it looks for garbage.
        _followers.add(self)
        self.destroyed.connect(functools.partial(_followers.discard, self))
        appearance().dark_changed.connect(self.follow)

    def follow(self) -> None:
        """Take over the program's theme."""
        theme: QObject | None = self._engine.singletonInstance("Lanekit", "Theme")
        if theme is not None:
            theme.setProperty("dark", appearance().dark)
            for name, colour in appearance().palette.for_qml().items():
                theme.setProperty(name, colour)
