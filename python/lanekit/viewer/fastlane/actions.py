"""What people can do with a live picture: one table for keys, buttons, tooltips and help."""

from __future__ import annotations

from typing import NamedTuple


class Action(NamedTuple):
    """Something to do, the keys that do it, and how it is called."""

    name: str
    keys: tuple[str, ...]
    label: str

    @property
    def tooltip(self) -> str:
        """The label with the first key."""
        return f"{self.label} ({self.keys[0]})"


ACTIONS = (
    Action("pause", ("Space",), "Pause the picture; training goes on"),
    Action("hud", ("H",), "Show or hide the numbers"),
    Action("fit", ("0", "F"), "Fit the whole picture"),
    Action("zoom_in", ("+", "="), "Zoom in"),
    Action("zoom_out", ("-",), "Zoom out"),
    Action("actual_size", ("1",), "One pixel for one pixel"),
    Action("screenshot", ("S",), "Save the picture as PNG"),
    Action("record", ("R",), "Record MP4, or stop recording"),
    Action("record_gif", ("G",), "Record GIF, or stop recording"),
    Action("full_screen", ("F11",), "Full screen"),
    Action("help", ("?", "F1"), "Show or hide this help"),
)
MOUSE = (
    ("Wheel", "Zoom where the mouse is"),
    ("Drag", "Move the enlarged picture"),
    ("Double click", "Fit the whole picture"),
)
