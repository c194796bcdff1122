"""From a frame's pixels to bytes for the network: made smaller, then JPEG, WebP, PNG or raw."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from lanekit.errors import MissingExtra
from lanekit.fast.frame import FastLaneFrame, PixelFormat

if TYPE_CHECKING:
    from PIL.Image import Image

Encoding = Literal["jpeg", "webp", "png", "raw"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
DEFAULT_QUALITY = 85

# How Pillow is told to read each format. Transparency is ignored: a frame is what the environment
# rendered, not a layer.
_MODES: dict[PixelFormat, tuple[str, str]] = {
    "RGB": ("RGB", "RGB"),
    "RGBA": ("RGB", "RGBX"),
    "BGRX": ("RGB", "BGRX"),
    "GRAY": ("L", "L"),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a watcher wants made of a frame. Equal recipes share one picture."""

    encoding: Encoding = "jpeg"
    max_width: int = 0
    """A wider frame is made smaller, in proportion. 0: as wide as it is."""
    max_height: int = 0
    quality: int = DEFAULT_QUALITY
    """1 (small) to 100 (faithful), for JPEG and WebP."""

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise ValueError(f"an encoding is one of {', '.join(ENCODINGS)}; got {self.encoding!r}")
        if self.max_width < 0 or self.max_height < 0:
            raise ValueError(f"a picture can not be {self.max_width}x{self.max_height}")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"quality goes from 1 to 100; got {self.quality}")

    def size_of(self, width: int, height: int) -> tuple[int, int]:
        """Return the size that a frame of this size gets: never larger, never less than a pixel."""
        shares = [1.0]
        if self.max_width:
            shares.append(self.max_width / width)
        if self.max_height:
            shares.append(self.max_height / height)
        scale = min(shares)
        return max(1, round(width * scale)), max(1, round(height * scale))


@dataclass(frozen=True, slots=True)
class Picture:
    """A frame as it travels."""

    data: bytes
    width: int
    height: int
    encoding: Encoding
    pixel_format: PixelFormat
    """Of raw data. The other encodings are RGB, or GRAY if the frame was."""


def check_encoding(encoding: Encoding) -> None:
    """Raise :class:`~lanekit.errors.MissingExtra` if it can not be made on this machine."""
    if encoding != "raw":
        _load_pillow(f"{encoding.upper()} pictures of frames")


def encode(frame: FastLaneFrame, recipe: Recipe) -> Picture:
    """Make the picture that a recipe describes. Takes milliseconds: not for an event loop."""
    size = recipe.size_of(frame.width, frame.height)
    if recipe.encoding == "raw" and size == (frame.width, frame.height):
        return Picture(frame.data, *size, "raw", frame.pixel_format)
    image = _image(frame)
    if image.size != size:
        image = _resized(image, size)
    pixel_format: PixelFormat = "GRAY" if image.mode == "L" else "RGB"
    return Picture(_bytes_of(image, recipe), *size, recipe.encoding, pixel_format)


def _image(frame: FastLaneFrame) -> Image:
    _load_pillow("a smaller or encoded picture of a frame")
    from PIL import Image

    mode, raw_mode = _MODES[frame.pixel_format]
    size = (frame.width, frame.height)
    return Image.frombuffer(mode, size, frame.data, "raw", raw_mode, 0, 1)


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
