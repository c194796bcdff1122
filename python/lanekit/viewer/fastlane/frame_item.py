"""The scene's item that shows a frame: one texture, replaced when a new frame has come."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import QRectF, QSizeF, pyqtSignal
from PyQt6.QtGui import QImage
from PyQt6.QtQuick import QQuickItem, QQuickWindow, QSGNode, QSGSimpleTextureNode, QSGTexture

from lanekit.viewer.qt_property import pyqtProperty

# Looked up once: Python walks through classes for each, and this is done for every frame.
_OPAQUE = QQuickWindow.CreateTextureOption.TextureIsOpaque
_NEAREST, _LINEAR = QSGTexture.Filtering.Nearest, QSGTexture.Filtering.Linear


class FrameItem(QQuickItem):
    """Shows the image last given to :meth:`show_image`, over its whole area.

    Its own size is up to the scene, which keeps the aspect ratio by `frameWidth` and
    `frameHeight`. Pixels stay crisp when they are enlarged. When they are shrunk, a
    graphics card smooths them; Qt's software renderer does not, whatever is asked for here.
    """

    frameSizeChanged = pyqtSignal()  # noqa: N815 - Qt's way of writing
    painted = pyqtSignal()

    def __init__(self, parent: QQuickItem | None = None) -> None:
        super().__init__(parent)
        self.setFlag(QQuickItem.Flag.ItemHasContents, True)
        self._image: QImage | None = None
        self._texture: QSGTexture | None = None  # the node does not own it: Python must
        self._fresh = False
        self._moved = True
        """Whether the node must be told again where it is, and how to scale."""
        self._frame_size = QSizeF()
        self.windowChanged.connect(self._follow_window)
        # PyQt never lets go of the Python part of what QML makes; image and texture must not stay.
        held = vars(self)
        self.destroyed.connect(lambda: held.clear())

    @pyqtProperty(float, notify=frameSizeChanged)
    def frameWidth(self) -> float:  # noqa: N802 - a QML name
        """Width of the frame in its own pixels, 0 before the first."""
        return max(0.0, self._frame_size.width())

    @pyqtProperty(float, notify=frameSizeChanged)
    def frameHeight(self) -> float:  # noqa: N802 - a QML name
        """Height of the frame in its own pixels, 0 before the first."""
        return max(0.0, self._frame_size.height())

    def show_image(self, image: QImage) -> None:
        """Show an image from the next repaint on; its pixels must stay until then."""
        self._image = image
        self._fresh = True
        size = QSizeF(image.size())
        if size != self._frame_size:
            self._frame_size = size
            self._moved = True
            self.frameSizeChanged.emit()
        self.update()

    def updatePaintNode(self, node: QSGNode | None, data: Any) -> QSGNode | None:  # noqa: N802
        """Bring the scene graph up to date."""
        window = self.window()
        if self._image is None or window is None or self.width() <= 0 or self.height() <= 0:
            return None
        if node is None:  # `not node` is true of every node
            node = QSGSimpleTextureNode()
            self._fresh = self._moved = True
        assert isinstance(node, QSGSimpleTextureNode)
        if self._fresh:
            # Opaque, or the software renderer would look at every pixel to find that out.
            texture = window.createTextureFromImage(self._image, _OPAQUE)
            if texture is None:
                return None
            node.setTexture(texture)
            self._texture = texture  # the old one goes only now that the node has another
            self._fresh = False
            self.painted.emit()
        if self._moved:
            self._moved = False
            enlarged = self.width() * window.effectiveDevicePixelRatio() >= self._frame_size.width()
            node.setFiltering(_NEAREST if enlarged else _LINEAR)
            node.setRect(QRectF(0, 0, self.width(), self.height()))
        return node

    def geometryChange(self, new: QRectF, old: QRectF) -> None:  # noqa: N802 - Qt's name
        """Tell the node where it is now."""
        self._moved = True
        super().geometryChange(new, old)
        self.update()

    def itemChange(  # noqa: N802 - Qt's name
        self, change: QQuickItem.ItemChange, value: QQuickItem.ItemChangeData
    ) -> None:
        """Scale anew on a screen with pixels of another size."""
        if change == QQuickItem.ItemChange.ItemDevicePixelRatioHasChanged:
            self._moved = True
            self.update()
        super().itemChange(change, value)

    def _follow_window(self, window: QQuickWindow | None) -> None:
        if window is not None:
            window.sceneGraphInvalidated.connect(self._drop_texture)

    def _drop_texture(self) -> None:
        """Let go of what belonged to a graphics context that is no more."""
        self._texture = None
