"""The window's colours, dark and light: the same ones that the QML scenes' Theme has."""

from __future__ import annotations

from dataclasses import dataclass

from PyQt6.QtGui import QColor, QPalette


@dataclass(frozen=True)
class Palette:
    """One theme's colours, by what they mean."""

    name: str
    background: str
    surface: str
    outline: str
    text: str
    quiet_text: str
    accent: str
    good: str
    waiting: str
    bad: str

    def state_colour(self, state: str) -> QColor:
        """Return the colour of a run's state."""
        colours = {
            "running": self.good,
            "submitted": self.waiting,
            "paused": self.waiting,
            "completed": self.accent,
            "failed": self.bad,
            "lost": self.bad,
        }
        return QColor(colours.get(state, self.quiet_text))

    def qt(self) -> QPalette:
        """Return the colours as Qt's widgets take them."""
        palette = QPalette()
        role = QPalette.ColorRole
        for names, colour in (
            ((role.Window, role.Button), self.background),
            ((role.Base, role.ToolTipBase), self.surface),
            ((role.AlternateBase,), self.background),
            ((role.Text, role.WindowText, role.ButtonText, role.ToolTipText), self.text),
            ((role.PlaceholderText,), self.quiet_text),
            ((role.Highlight, role.Link), self.accent),
            ((role.HighlightedText,), self.surface),
            ((role.Mid, role.Midlight, role.Dark), self.outline),
        ):
            for name in names:
                palette.setColor(name, QColor(colour))
        for name in (role.Text, role.WindowText, role.ButtonText):
            palette.setColor(QPalette.ColorGroup.Disabled, name, QColor(self.quiet_text))
        return palette


DARK = Palette(
    "dark",
    background="#14161a",
    surface="#1e2126",
    outline="#343a42",
    text="#e8eaed",
    quiet_text="#9aa3ad",
    accent="#4fb3ff",
    good="#4cc38a",
    waiting="#f0b64f",
    bad="#ff6b68",
)
LIGHT = Palette(
    "light",
    background="#f4f5f7",
    surface="#ffffff",
    outline="#d3d7dd",
    text="#1c1f23",
    quiet_text="#5c6570",
    accent="#0b6bcb",
    good="#1a7f4b",
    waiting="#a86500",
    bad="#c62828",
)
