"""From what ``render()`` returns to pixels that a lane can carry, or the reason why not."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lanekit.errors import LanekitError
from lanekit.fast.frame import PixelFormat

_FORMATS: dict[int, PixelFormat] = {1: "GRAY", 3: "RGB", 4: "RGBA"}
_LARGEST_SIDE = 65536


class UnusableRender(LanekitError):
    """What ``render()`` returned is no picture; the message says what it is, and what to do."""


class Frame(NamedTuple):
    """Pixels of shape (height, width, channels) and what they mean."""

    pixels: npt.NDArray[np.uint8]
    pixel_format: PixelFormat


def to_frame(rendered: Any) -> Frame:
    """Turn what an environment rendered into a frame.

    Taken are arrays (or what numpy can make one of) of shape (height, width), (height, width, 1 | 3
    | 4) or (1 | 3 | 4, height, width), and lists of these, of which the last one counts. Numbers
    that are no bytes are converted: floats up to 1 as shares of 255, all others cut to 0..255.
    """
    if rendered is None:
        raise UnusableRender(
            "render() returned None; make the environment with render_mode='rgb_array'"
        )
    if isinstance(rendered, str | bytes) or hasattr(rendered, "getvalue"):
        raise UnusableRender(
            "render() returned text, not a picture; make the environment with "
            "render_mode='rgb_array'"
        )
    if isinstance(rendered, list | tuple) and _is_sequence_of_pictures(rendered):
        if len(rendered) == 0:
            raise UnusableRender("render() returned an empty list")
        return to_frame(rendered[-1])
    try:
        array = np.asarray(rendered)
    except Exception as error:
        raise UnusableRender(
            f"render() returned a {type(rendered).__name__}, which is no array: {error}"
        ) from error
    if array.ndim == 4 and len(array) > 0:  # several pictures in one array
        array = array[-1]
    return _shaped(_bytes_of(array))


def _is_sequence_of_pictures(rendered: Any) -> bool:
    return len(rendered) == 0 or len(getattr(rendered[0], "shape", ())) >= 2


def _bytes_of(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype.kind == "f":
        finite = np.nan_to_num(array, nan=0.0, posinf=255.0, neginf=0.0)
        if array.size > 0 and float(finite.max()) <= 1.0:
            finite = finite * 255.0 + 0.5
        return _cut(finite)
    if array.dtype.kind in "iu":
        return _cut(array)
    raise UnusableRender(f"render() returned an array of {array.dtype}, not of pixels")


def _cut(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    cut: npt.NDArray[np.uint8] = np.clip(array, 0, 255).astype(np.uint8)
    return cut


def _shaped(array: npt.NDArray[np.uint8]) -> Frame:
    shape = array.shape
    if array.ndim == 2:
        array = array[:, :, np.newaxis]
    elif array.ndim == 3 and shape[0] in _FORMATS and min(shape[1:]) > max(_FORMATS):
        array = array.transpose(1, 2, 0)
    sides = array.shape[:2]
    if (
        array.ndim != 3
        or array.shape[2] not in _FORMATS
        or not all(0 < side <= _LARGEST_SIDE for side in sides)
    ):
        raise UnusableRender(
            f"render() returned an array of shape {shape}; expected (height, width, 3)"
        )
    return Frame(array, _FORMATS[array.shape[2]])
