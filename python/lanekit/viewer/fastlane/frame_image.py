"""From a frame in shared memory to an image that Qt can draw: one pass over the pixels.

Two images take turns: while the scene shows one, the next frame goes into the other. Both are made
when the geometry becomes known, so a frame allocates nothing. Their format, RGB32, is what Qt draws
without converting.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PyQt6.QtGui import QImage

from lanekit.errors import FrameOverwritten, GeometryChanged
from lanekit.fast import FastLaneConfig, FastLaneReader
from lanekit.fast.pixels import copy_as_bgrx

_TRIES = 3


class FrameImages:
    """Turns a reader's newest frame into an image."""

    def __init__(self, config: FastLaneConfig) -> None:
        self.config = config
        self._images = [_blank(config) for _ in range(2)]
        # Written behind Qt's back: asked for its memory again, an image that is shown would take a
        # copy of itself first. And by us: Qt would share a large one out among threads, and wait
        # for them on a machine whose cores are busy with training.
        self._pixels = [pixels_of(image) for image in self._images]
        self._turn = 0

    def take(self, reader: FastLaneReader) -> QImage | None:
        """Return the newest frame if it was not taken before.

        The image is overwritten by the next frame but one: who keeps it longer makes a copy.
        Raises :class:`~lanekit.GeometryChanged` when a new writer's frames look different.
        """
        turn = self._turn ^ 1
        for _ in range(_TRIES):
            peek = reader.peek(fresh=True)
            if reader.config != self.config:
                raise GeometryChanged("a new writer's frames look different", reader.config)
            frame = peek.array
            if frame is None:
                return None
            try:
                # Transparency is ignored: a frame is what the environment rendered, not a layer.
                with peek:
                    copy_as_bgrx(frame, self.config.pixel_format, self._pixels[turn])
            except FrameOverwritten:
                continue  # the next tick will be luckier if the third try is not
            self._turn = turn
            return self._images[turn]
        return None


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
