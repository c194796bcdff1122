"""From a frame's pixels to bytes for the network: made smaller, then JPEG, WebP, PNG or raw."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from lanekit.errors import MissingExtra
from lanekit.fast.frame import FastLaneFrame, PixelFormat
from lanekit.slow.watched_frames import Encoding, Picture, Recipe

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Encoding", "Picture", "Recipe", "check_encoding", "encode"]

# How Pillow is told to read each format. Transparency is ignored: a frame is what the environment
# rendered, not a layer.
_MODES: dict[PixelFormat, tuple[str, str]] = {
    "RGB": ("RGB", "RGB"),
    "RGBA": ("RGB", "RGBX"),
    "BGRX": ("RGB", "BGRX"),
    "GRAY": ("L", "L"),
}


def check_encoding(encoding: Encoding) -> None:
    """Raise :class:`~lanekit.errors.MissingExtra` if it can not be made on this machine."""
    if encoding != "raw":
        _load_pillow(f"{encoding.upper()} pictures of frames")


def encode(frame: FastLaneFrame, recipe: Recipe) -> Picture:
    """Make the picture that a recipe describes. Takes milliseconds: not for an event loop.

    Raises ValueError for a frame that the encoding has no room for.
    """
    size = recipe.size_of(frame.width, frame.height)
    if recipe.encoding == "raw" and size == (frame.width, frame.height):
        return Picture(frame.data, *size, "raw", frame.pixel_format)
    image = _image(frame)
    if image.size != size:
        image = _resized(image, size)
    pixel_format: PixelFormat = "GRAY" if image.mode == "L" else "RGB"
    try:
        data = _bytes_of(image, recipe)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"a frame of {size[0]}x{size[1]} can not be made {recipe.encoding.upper()} ({error}): "
            "ask for a smaller size, or for PNG"
        ) from error
    return Picture(data, *size, recipe.encoding, pixel_format)


def _image(frame: FastLaneFrame) -> Image:
    _load_pillow("a smaller or encoded picture of a frame")
    from PIL import Image

    mode, raw_mode = _MODES[frame.pixel_format]
    size = (frame.width, frame.height)
    return Image.frombytes(mode, size, frame.data, "raw", raw_mode)


def _resized(image: Image, size: tuple[int, int]) -> Image:
    from PIL import Image

    # Each pixel is the mean of the area it covers; far larger frames are thinned out first.
    return image.resize(size, Image.Resampling.BOX, reducing_gap=2.0)


def _bytes_of(image: Image, recipe: Recipe) -> bytes:
    if recipe.encoding == "raw":
        return image.tobytes()
    out = io.BytesIO()
    if recipe.encoding == "jpeg":
        image.save(out, "JPEG", quality=recipe.quality)
    elif recipe.encoding == "webp":
        image.save(out, "WEBP", quality=recipe.quality, method=0)  # the fastest
    else:
        image.save(out, "PNG", compress_level=1)
    return out.getvalue()


def _load_pillow(wanted_for: str) -> None:
    try:
        import PIL.Image
    except ImportError as error:
        raise MissingExtra(
            f"{wanted_for} need Pillow where the daemon runs ({error}): "
            "pip install 'lanekit[remote]' there, or ask for raw frames"
        ) from error
    PIL.Image.preinit()
