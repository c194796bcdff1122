"""The fast lane of a replay: made for the frames as they come, gone when the replay ends."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Self

from lanekit.errors import SegmentExists, TelemetryError
from lanekit.fast import FastLaneConfig, FastLaneWriter, PixelFormat
from lanekit.slow.replay.reel import Reel

_FORMATS: dict[int, PixelFormat] = {1: "GRAY", 3: "RGB", 4: "RGBA"}
_RING_BYTES = 64 * 2**20
_METADATA_SIZE = 96


class ReplayLane:
    """A writer that is created with the first frame, and anew when the frames' size changes."""

    def __init__(self, run_id: str) -> None:
        """Name the lane; shared memory is taken with the first frame."""
        self._run_id = run_id
        self._writer: FastLaneWriter | None = None

    def publish(self, reel: Reel, index: int) -> None:
        """Publish one frame, with its numbers, and its episode and step as metadata."""
        pixels = reel.pixels(index)
        writer = self._writer
        if writer is None or writer.config.shape != pixels.shape:
            writer = self._create(*pixels.shape)
        place = {"episode": int(reel.episode[index]), "step": int(reel.step[index])}
        writer.publish(
            pixels, metrics=reel.metrics(index), metadata=json.dumps(place).encode("ascii")
        )

    def heartbeat(self) -> None:
        """Show that the replay is alive while it stands still."""
        if self._writer is not None:
            self._writer.heartbeat()

    def _create(self, height: int, width: int, channels: int) -> FastLaneWriter:
        self._end()
        frame_size = height * width * channels
        config = FastLaneConfig(
            width=width,
            height=height,
            channels=channels,
            pixel_format=_FORMATS[channels],
            capacity=max(4, min(128, _RING_BYTES // frame_size)),
            metadata_size=_METADATA_SIZE,
        )
        try:
            self._writer = FastLaneWriter.create(self._run_id, config)
        except SegmentExists as error:
            raise TelemetryError(
                f"process {error.owner_pid} publishes as {self._run_id!r} already; publish the "
                "replay under another name with --as"
            ) from error
        return self._writer

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.unlink()
            self._writer.close()
            self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()
