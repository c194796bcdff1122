"""A picture that fits its widget, zooms with the wheel, and stays crisp."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PyQt6.QtCore import QSize
from PyQt6.QtGui import QImage
from PyQt6.QtQuickWidgets import QQuickWidget
from PyQt6.QtWidgets import QWidget

from lanekit.viewer.fastlane.frame_item import FrameItem
from lanekit.viewer.fastlane.zoom import ZoomModel
from lanekit.viewer.qml_engine import prepare, url_of

_FORMATS = {
    1: QImage.Format.Format_Grayscale8,
    3: QImage.Format.Format_RGB888,
    4: QImage.Format.Format_RGBX8888,
}


def image_of(pixels: NDArray[np.uint8]) -> QImage:
    """Return pixels of shape (height, width, channels) as an image with memory of its own."""
    pixels = np.ascontiguousarray(pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis])
    height, width, channels = pixels.shape
    memory: Any = pixels.data
    image = QImage(memory, width, height, width * channels, _FORMATS[channels])
    return image.convertToFormat(QImage.Format.Format_RGB32)


class PictureView(QQuickWidget):
    """Shows one image at a time."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.zoom = ZoomModel(self)
        self.image: QImage | None = None
        """What is shown."""
        self.setResizeMode(QQuickWidget.ResizeMode.SizeRootObjectToView)
        engine = self.engine()
        assert engine is not None
        prepare(engine)
        self.setInitialProperties({"zoom": self.zoom})
        self.setSource(url_of("PictureView.qml"))
        if errors := self.errors():
            raise RuntimeError("; ".join(error.toString() for error in errors))
        root = self.rootObject()
        assert root is not None
        frame = root.findChild(FrameItem, "frame")
        assert frame is not None
        self.frame = frame

    def show_image(self, image: QImage) -> None:
        """Show an image from the next repaint on."""
        self.image = image
        self.frame.show_image(image)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Room for a common frame."""
        return QSize(600, 400)
