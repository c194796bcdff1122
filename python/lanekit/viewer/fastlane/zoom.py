"""Where a picture goes in the area there is: fitted, enlarged around the mouse, and moved."""

from __future__ import annotations

from PyQt6.QtCore import QObject, QRectF, pyqtSignal, pyqtSlot

from lanekit.viewer.qt_property import pyqtProperty

LARGEST = 64.0
"""Times the fitted size."""
STEP = 1.25


class ZoomModel(QObject):
    """Keeps the aspect ratio, and what is under the mouse under the mouse."""

    changed = pyqtSignal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._area = (0.0, 0.0)
        self._content = (0.0, 0.0)
        self._zoom = 1.0
        self._centre = (0.5, 0.5)
        """The point of the content in the middle of the area, as shares of its sides."""

    @pyqtProperty(QRectF, notify=changed)
    def stage(self) -> QRectF:
        """Where the content goes, in whole pixels: its edges stay sharp."""
        scale = self.scale
        width, height = (round(side * scale) for side in self._content)
        x = round(self._area[0] / 2 - self._centre[0] * width)
        y = round(self._area[1] / 2 - self._centre[1] * height)
        return QRectF(x, y, width, height)

    @pyqtProperty(float, notify=changed)
    def scale(self) -> float:
        """Pixels of the screen for one of the content; 0 without content."""
        if 0 in self._content:
            return 0.0
        fit = min(area / side for area, side in zip(self._area, self._content, strict=True))
        return fit * self._zoom

    @pyqtProperty(float, notify=changed)
    def zoom(self) -> float:
        """How many times larger than fitted."""
        return self._zoom

    @pyqtSlot(float, float)
    def set_area(self, width: float, height: float) -> None:
        """Tell how large the area is."""
        self._area = (width, height)
        self._settle()

    @pyqtSlot(float, float)
    def set_content(self, width: float, height: float) -> None:
        """Tell how large the content is in its own pixels; another shape is fitted anew."""
        old_width, old_height = self._content
        if old_width * height != old_height * width:
            self._zoom = 1.0
        self._content = (width, height)
        self._settle()

    @pyqtSlot(float, float, float)
    def zoom_at(self, factor: float, x: float, y: float) -> None:
        """Enlarge (or shrink) around a point of the area."""
        if 0 in self._content or 0 in self._area:
            return
        before = self.stage
        shares = (
            (x - before.x()) / max(1.0, before.width()),
            (y - before.y()) / max(1.0, before.height()),
        )
        self._zoom = max(1.0, min(LARGEST, self._zoom * factor))
        scale = self.scale
        self._centre = (
            shares[0] + (self._area[0] / 2 - x) / (self._content[0] * scale),
            shares[1] + (self._area[1] / 2 - y) / (self._content[1] * scale),
        )
        self._settle()

    @pyqtSlot()
    def zoom_in(self) -> None:
        """Enlarge around the middle."""
        self.zoom_at(STEP, self._area[0] / 2, self._area[1] / 2)

    @pyqtSlot()
    def zoom_out(self) -> None:
        """Shrink around the middle."""
        self.zoom_at(1 / STEP, self._area[0] / 2, self._area[1] / 2)

    @pyqtSlot()
    def actual_size(self) -> None:
        """Show a pixel of the content as a pixel of the screen, if that is larger than fitted."""
        if self.scale > 0:
            self.zoom_at(1 / self.scale, self._area[0] / 2, self._area[1] / 2)

    @pyqtSlot(float, float)
    def pan_by(self, dx: float, dy: float) -> None:
        """Move the content."""
        stage = self.stage
        if stage.width() > 0 and stage.height() > 0:
            x, y = self._centre
            self._centre = (x - dx / stage.width(), y - dy / stage.height())
            self._settle()

    @pyqtSlot()
    def fit(self) -> None:
        """Show the whole content again."""
        self._zoom = 1.0
        self._settle()

    def _settle(self) -> None:
        """Leave no empty stripe where there is content to show, and centre what is smaller."""
        scale = self.scale
        centre = []
        for area, side, wanted in zip(self._area, self._content, self._centre, strict=True):
            half = area / (2 * side * scale) if side * scale > 0 else 0.5
            centre.append(0.5 if half >= 0.5 else max(half, min(1 - half, wanted)))
        self._centre = (centre[0], centre[1])
        self.changed.emit()
