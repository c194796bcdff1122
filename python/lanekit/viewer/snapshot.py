"""The newest frame of a run as a PNG file, without Qt."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from lanekit import FastLaneFrame, FastLaneReader
from lanekit.errors import SegmentNotFound, SegmentNotReady
from lanekit.fast.png import encode_png
from lanekit.viewer.terminal.pixels import to_rgb

_SLICE = 0.1


def take_snapshot(run_id: str, path: Path, *, wait: float) -> FastLaneFrame | None:
    """Write the run's newest frame; None if `wait` seconds brought none.

    Reading tells the worker that somebody watches, so one that draws on demand begins to.
    """
    deadline = time.monotonic() + wait
    try:
        with FastLaneReader.attach(run_id, timeout=wait) as reader:
            while (frame := reader.latest_frame()) is None and time.monotonic() < deadline:
                reader.wait(_SLICE, strategy="block")
    except (SegmentNotFound, SegmentNotReady):
        return None
    if frame is not None:
        grey = frame.pixel_format == "GRAY"
        pixels = frame.array if grey else to_rgb(frame.array, frame.pixel_format)
        path.write_bytes(encode_png(np.ascontiguousarray(pixels)))
    return frame
