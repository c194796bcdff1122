"""A slider that goes where it is clicked."""

from __future__ import annotations

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QMouseEvent
from PyQt6.QtWidgets import QSlider, QStyle, QWidget


class TimeSlider(QSlider):
    """Moves along a recording; the keyboard belongs to the window."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName("Position in the episode")

    def mousePressEvent(self, event: QMouseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Bring the handle under the mouse, and drag it from there."""
        if event is not None and event.button() == Qt.MouseButton.LeftButton:
            style = self.style()
            assert style is not None
            handle = style.pixelMetric(QStyle.PixelMetric.PM_SliderLength, None, self)
            place = round(event.position().x() - handle / 2)
            self.setValue(
                QStyle.sliderValueFromPosition(
                    self.minimum(), self.maximum(), place, self.width() - handle
                )
            )
        super().mousePressEvent(event)
