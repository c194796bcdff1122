"""A film on disk: MP4 (H.264) or GIF, through PyAV, frame by frame, so that memory stays flat."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

VideoFormat = Literal["mp4", "gif"]

_TIME_BASE = Fraction(1, 1000)
_GIF_INTERVAL_MS = 40
"""GIF counts hundredths of a second, and browsers slow down what is faster than this."""
_CODECS = ("libx264", "mpeg4")


class RecordingFailed(Exception):
    """A film can not be begun or continued; the message says why and what helps."""


class VideoFile:
    """Takes RGB32 pictures (height, width, 4: blue first) of one size, each with its time."""

    def __init__(self, path: Path, kind: VideoFormat, width: int, height: int) -> None:
        self.path = path
        self._kind = kind
        # H.264 halves the colour's resolution, so it wants even sides: repeat the last pixels.
        self._pad = (height % 2, width % 2) if kind == "mp4" else (0, 0)
        self._last_ms = -1
        self._av = _load_av()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._container = self._av.open(str(path), "w", format=kind)
            self._stream = self._add_stream(width + self._pad[1], height + self._pad[0])
            self._graph: Any = self._palette_graph(width, height) if kind == "gif" else None
        except (self._av.FFmpegError, OSError) as error:
            raise RecordingFailed(_reason(path, error)) from error

    def write(self, pixels: NDArray[np.uint8], at_ms: int) -> bool:
        """Add a picture; False if it came too soon after the last one to be of use."""
        least = _GIF_INTERVAL_MS if self._kind == "gif" else 1
        if self._last_ms >= 0 and at_ms - self._last_ms < least:
            return False
        self._last_ms = at_ms
        if any(self._pad):
            pixels = np.pad(pixels, ((0, self._pad[0]), (0, self._pad[1]), (0, 0)), mode="edge")
        frame = self._av.VideoFrame.from_ndarray(pixels, format="bgra").reformat(format="bgr0")
        frame.pts = at_ms
        frame.time_base = _TIME_BASE
        try:
            self._encode(frame)
        except (self._av.FFmpegError, OSError) as error:
            raise RecordingFailed(_reason(self.path, error)) from error
        return True

    def close(self) -> None:
        """Write what is still under way, and the end of the file."""
        try:
            if self._graph is not None:
                self._graph.push(None)
                self._drain_graph()
            self._container.mux(self._stream.encode(None))
            self._container.close()
        except (self._av.FFmpegError, OSError) as error:
            self.abandon()
            raise RecordingFailed(_reason(self.path, error)) from error

    def abandon(self) -> None:
        """Let go of the file after a failure; what was written stays."""
        try:
            self._container.close()
        except (self._av.FFmpegError, OSError):
            return  # the failure is known already

    def _encode(self, frame: Any) -> None:
        if self._graph is None:
            self._container.mux(self._stream.encode(frame))
        else:
            self._graph.push(frame)
            self._drain_graph()

    def _drain_graph(self) -> None:
        while True:
            try:
                frame = self._graph.pull()
            except (self._av.BlockingIOError, self._av.EOFError):
                return
            self._container.mux(self._stream.encode(frame))

    def _add_stream(self, width: int, height: int) -> Any:
        codec = "gif" if self._kind == "gif" else self._first_codec()
        stream = self._container.add_stream(codec, rate=60)
        stream.width, stream.height = width, height
        stream.pix_fmt = "pal8" if codec == "gif" else "yuv420p"
        stream.codec_context.time_base = Fraction(1, 100) if codec == "gif" else _TIME_BASE
        if codec == "libx264":
            stream.options = {"preset": "veryfast", "crf": "18"}
        elif codec == "mpeg4":
            stream.bit_rate = 8_000_000
        return stream

    def _first_codec(self) -> str:
        for codec in _CODECS:
            if codec in self._av.codecs_available:
                return codec
        raise RecordingFailed(
            f"this PyAV has none of the codecs {', '.join(_CODECS)}; "
            "pip install --force-reinstall av, or record a GIF"
        )

    def _palette_graph(self, width: int, height: int) -> Any:
        """Give each frame the 256 colours that suit it best."""
        graph = self._av.filter.Graph()
        source = graph.add_buffer(
            width=width, height=height, format="bgr0", time_base=_TIME_BASE, name="in"
        )
        split = graph.add("split")
        palette = graph.add("palettegen", "stats_mode=single")
        use = graph.add("paletteuse", "new=1:dither=none")
        sink = graph.add("buffersink")
        source.link_to(split)
        split.link_to(palette, 0, 0)
        split.link_to(use, 1, 0)
        palette.link_to(use, 0, 1)
        use.link_to(sink)
        graph.configure()
        return graph


def _load_av() -> Any:
    try:
        import av
        import av.filter
    except ImportError as error:
        raise RecordingFailed(
            f"recording needs PyAV ({error}): pip install 'lanekit[viewer]'"
        ) from error
    return av


def _reason(path: Path, error: Exception) -> str:
    return f"{path}: {getattr(error, 'strerror', None) or error}"
