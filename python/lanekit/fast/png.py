"""PNG files by the standard library alone, for machines without Qt and Pillow."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
_UP = 2
"""The filter that stores each line as its difference from the one above."""


def encode_png(pixels: NDArray[np.uint8], *, effort: int = 6) -> bytes:
    """Return an image of shape (height, width, channels) as PNG: 1 grey, 3 RGB, 4 RGBA.

    `effort` from 1 to 9 buys a smaller file with more time.
    """
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    lines = np.empty((height, 1 + width * channels), np.uint8)
    lines[:, 0] = _UP
    lines[:, 1:] = pixels.reshape(height, -1)
    # Bytes wrap around, as the format wants; the first line has nothing above it.
    lines[1:, 1:] -= pixels.reshape(height, -1)[:-1]
    return b"".join(
        (
            _SIGNATURE,
            _chunk(b"IHDR", header),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), effort)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(content, zlib.crc32(kind))
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
