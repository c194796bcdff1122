"""A frame's pixels on their way to the terminal: in one format, and at the size there is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]


def to_rgb(array: Image, pixel_format: str) -> Image:
    """Return a frame's pixels as (height, width, 3), a view where the format allows.

    Transparency is ignored: a frame is what the environment rendered, not a layer.
    """
    if pixel_format == "GRAY":
        return np.broadcast_to(array, (*array.shape[:2], 3))
    if pixel_format == "BGRX":
        return array[:, :, 2::-1]
    return array[:, :, :3]


def fit(width: int, height: int, columns: int, rows: int) -> tuple[int, int]:
    """Return the largest size in pixels, in a shape like the frame's, that the cells can hold.

    A cell is two pixels high, and about as wide as half its height, so the pixels are square.
    """
    scale = min(columns / width, 2 * rows / height)
    return max(1, round(width * scale)), max(2, 2 * round(height * scale / 2))


def resize(image: Image, width: int, height: int) -> Image:
    """Return the image at another size, each pixel the mean of the area it covers."""
    # A frame far larger than the terminal is thinned out first: four samples a side are enough
    # for a mean, and the cost no longer grows with the frame.
    every_row = max(1, image.shape[0] // (4 * height))
    every_column = max(1, image.shape[1] // (4 * width))
    rows = _average_rows(image[::every_row, ::every_column], height)
    columns = _average_rows(rows.swapaxes(0, 1), width)
    return np.rint(columns.swapaxes(0, 1)).astype(np.uint8)


def _average_rows(values: NDArray[np.generic], count: int) -> NDArray[np.float32]:
    """Average the first axis down (or stretch it up) to ``count`` equal, maybe fractional, spans.

    The difference of a running sum between two edges is the sum of the span between them. That is
    exact for fractional edges, needs one pass, and unlike a matrix product wakes no BLAS threads,
    which would spin next to the training process that is being watched.
    """
    size = len(values)
    edges = np.linspace(0.0, size, count + 1)
    whole = edges.astype(np.intp)
    part = (edges - whole).astype(np.float32)[:, None, None]
    total = np.zeros((size + 1, *values.shape[1:]), np.float32)
    np.cumsum(values, axis=0, dtype=np.float32, out=total[1:])
    after = total[np.minimum(whole + 1, size)]
    upto = total[whole] * (1 - part) + after * part
    return np.multiply(np.diff(upto, axis=0), count / size, dtype=np.float32)
