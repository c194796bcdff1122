"""Every colour of the program that depends on the theme: for widgets, and for QML's ``Theme``."""

from __future__ import annotations

from dataclasses import dataclass, fields

from PyQt6.QtGui import QColor, QPalette


@dataclass(frozen=True)
class Palette:
    """One theme's colours, by what they mean."""

    background: str
    surface: str
    raised: str
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
            "live": self.good,
            "running": self.good,
            "submitted": self.waiting,
            "paused": self.waiting,
            "completed": self.accent,
            "failed": self.bad,
            "lost": self.bad,
        }
        return QColor(colours.get(state, self.quiet_text))

    def for_qml(self) -> dict[str, QColor]:
        """Return the colours by the names that QML's ``Theme`` has for them."""
        return {_camel(field.name): QColor(getattr(self, field.name)) for field in fields(self)}

    def for_widgets(self) -> QPalette:
        """Return the colours as Qt's widgets take them."""
        palette = QPalette()
        role = QPalette.ColorRole
        for names, colour in (
            ((role.Window,), self.background),
            ((role.Base, role.ToolTipBase), self.surface),
            ((role.Button, role.AlternateBase), self.raised),
            ((role.Text, role.WindowText, role.ButtonText, role.ToolTipText), self.text),
            ((role.BrightText,), self.bad),
            ((role.PlaceholderText,), self.quiet_text),
            ((role.Highlight, role.Link, role.LinkVisited, role.Accent), self.accent),
            ((role.HighlightedText,), self.surface),
            ((role.Mid, role.Midlight, role.Dark, role.Light, role.Shadow), self.outline),
        ):
            for name in names:
                palette.setColor(name, QColor(colour))
        for name in (role.Text, role.WindowText, role.ButtonText):
            palette.setColor(QPalette.ColorGroup.Disabled, name, QColor(self.quiet_text))
        return palette


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


DARK = Palette(
    background="#14161a",
    surface="#1e2126",
    raised="#2b3038",
    outline="#343a42",
    text="#e8eaed",
    quiet_text="#9aa3ad",
    accent="#4fb3ff",
    good="#4cc38a",
    waiting="#f0b64f",
    bad="#ff6b68",
)
LIGHT = Palette(
    background="#f4f5f7",
    surface="#ffffff",
    raised="#e9ecf0",
    outline="#d3d7dd",
    text="#1c1f23",
    quiet_text="#5c6570",
    accent="#0b6bcb",
    good="#1a7f4b",
    waiting="#a86500",
    bad="#c62828",
)
