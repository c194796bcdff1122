"""From a frame in shared memory to an image that Qt can draw: one pass over the pixels.

Two images take turns: while the scene shows one, the next frame goes into the other. Both are made
when the geometry becomes known, so a frame allocates nothing. Their format, RGB32, is what Qt draws
without converting, and what BGRX frames already are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PyQt6.QtGui import QImage, QPainter

from lanekit.errors import FrameOverwritten, GeometryChanged
from lanekit.fast import FastLaneConfig, FastLaneReader

_TRIES = 3
_OPAQUE = np.frombuffer(b"\0\0\0\xff", np.uint32)
# Transparency is ignored: a frame is what the environment rendered, not a layer.
_FORMATS = {
    "RGB": QImage.Format.Format_RGB888,
    "RGBA": QImage.Format.Format_RGBX8888,
    "GRAY": QImage.Format.Format_Grayscale8,
}


class FrameImages:
    """Turns a reader's newest frame into an image."""

    def __init__(self, config: FastLaneConfig) -> None:
        self.config = config
        self._images = [_blank(config) for _ in range(2)]
        self._source_format = _FORMATS.get(config.pixel_format)
        # Frames in Qt's own format are copied behind Qt's back, straight into the image's memory.
        self._pixels = [] if self._source_format else [pixels_of(image) for image in self._images]
        self._turn = 0

    def take(self, reader: FastLaneReader) -> QImage | None:
        """Return the newest frame if it was not taken before.

        The image is overwritten by the next frame but one: who keeps it longer makes a copy.
        Raises :class:`~lanekit.GeometryChanged` when a new writer's frames look different.
        """
        turn = self._turn ^ 1
        if self._source_format is None:
            seq = reader.read_into(self._pixels[turn], fresh=True)
            if seq:
                _make_opaque(self._pixels[turn])
        else:
            seq = self._convert(reader, self._images[turn])
        if seq == 0:
            return None
        self._turn = turn
        return self._images[turn]

    def _convert(self, reader: FastLaneReader, image: QImage) -> int:
        """Convert straight out of the slot; what the writer overtook is thrown away."""
        for _ in range(_TRIES):
            peek = reader.peek(fresh=True)
            if reader.config != self.config:
                raise GeometryChanged("a new writer's frames look different", reader.config)
            if peek.array is None:
                return 0
            try:
                with peek as pixels:
                    self._draw(pixels, image)
                return peek.seq
            except FrameOverwritten:
                continue  # the next tick will be luckier if the third try is not
        return 0

    def _draw(self, pixels: Any, image: QImage) -> None:
        assert self._source_format is not None
        height, width, channels = pixels.shape
        source = QImage(pixels.data, width, height, width * channels, self._source_format)
        painter = QPainter(image)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Source)
        painter.drawImage(0, 0, source)
        painter.end()


def _make_opaque(pixels: NDArray[np.uint8]) -> None:
    """Fill the unused byte, where writers leave anything: Qt copies it as if it were opacity."""
    words = pixels.view(np.uint32)
    np.bitwise_or(words, _OPAQUE, out=words)


def _blank(config: FastLaneConfig) -> QImage:
    image = QImage(config.width, config.height, QImage.Format.Format_RGB32)
    if image.isNull():
        raise MemoryError(f"no memory for a picture of {config.width}x{config.height} pixels")
    return image


def pixels_of(image: QImage) -> NDArray[np.uint8]:
    """Return an RGB32 image's own memory, to write into: (height, width, 4), blue first."""
    return _as_array(image, image.bits())


def shared_pixels_of(image: QImage) -> NDArray[np.uint8]:
    """Return an RGB32 image's memory, to read; others that show the image share it."""
    return _as_array(image, image.constBits())


def _as_array(image: QImage, bits: Any) -> NDArray[np.uint8]:
    bits.setsize(image.sizeInBytes())
    # RGB32 has lines of 4-byte pixels without gaps.
    pixels: NDArray[np.uint8] = np.frombuffer(bits, np.uint8)
    return pixels.reshape(image.height(), image.width(), 4)
