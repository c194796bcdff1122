"""Pixels, whatever they come from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PyQt6.QtGui import QImage
from PyQt6.QtWidgets import QWidget


def rgb_of(picture: QImage | QWidget) -> NDArray[np.uint8]:
    """Return an image's, or a widget's grabbed, pixels as (height, width, 3)."""
    image = picture.grab().toImage() if isinstance(picture, QWidget) else picture
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    bits = image.constBits()
    assert bits is not None
    bits.setsize(image.sizeInBytes())
    pixels = np.frombuffer(bits, np.uint8).reshape(image.height(), image.width(), 4)  # type: ignore[call-overload]
    return np.ascontiguousarray(pixels[:, :, 2::-1])
