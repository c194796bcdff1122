"""Pixels as screens take them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lanekit._core import check, ffi, lib
from lanekit.fast.frame import CHANNELS, FORMAT_CODES, PixelFormat


def copy_as_bgrx(
    frame: npt.NDArray[np.uint8], pixel_format: PixelFormat, out: npt.NDArray[np.uint8]
) -> None:
    """Copy a slot's frame into (height, width, 4): blue, green, red, 255, in one pass.

    The frame is a view as :meth:`FastLaneReader.peek` lends it; whether it stayed whole is the
    peek's to tell.
    """
    height, width, channels = frame.shape
    if channels != CHANNELS[pixel_format] or not frame.flags.c_contiguous:
        raise ValueError(f"no {pixel_format} frame in one piece: {frame.shape}")
    if out.shape != (height, width, 4) or not out.flags.c_contiguous:
        raise ValueError(f"needs an array of {(height, width, 4)} in one piece, got {out.shape}")
    source, target = ffi.from_buffer(frame), ffi.from_buffer(out, require_writable=True)
    code = FORMAT_CODES[pixel_format]
    check(lib.lk_pixels_to_bgrx(target, source, height * width, code), "a frame's pixels")
