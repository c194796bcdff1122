"""A lane of another machine, brought here: what watches local lanes watches it unchanged.

A thread takes the newest frames from the other machine's daemon and publishes them on a fast lane
of this machine. Its own viewers decide whether it does: while none is there it asks the daemon for
nothing, so that the worker at the far end stops drawing, too. When worker or daemon are gone the
local lane's writer leaves, and comes back with them; viewers see what they see of a local run.
"""

from __future__ import annotations

import io
import os
import threading
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from lanekit import errors
from lanekit.fast import FastLaneConfig, FastLaneMetrics, FastLaneWriter
from lanekit.fast.frame import CHANNELS, PixelFormat
from lanekit.segments import inspect_segment, segment_name
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.frame_stream import FrameStream
from lanekit.slow.watched_frames import DEFAULT_RATE, FrameUpdate, Picture, Recipe, WatchedFrame

RETRY = 0.5
"""Seconds between two tries to reach a daemon that is away."""
LOOK_FOR_VIEWERS = 0.05
CAPACITY = 4
"""Frames of the local ring: a viewer takes the newest, and needs it to last while it copies."""
SMALLEST_METADATA = 256

# Until the first frame's size is known; lets viewers announce themselves.
_EMPTY = FastLaneConfig(1, 1, 1, "GRAY", capacity=1)


class RemoteLane:
    """Publishes another machine's lane on this one, from ``start`` to ``close``."""

    def __init__(
        self,
        client: DaemonClient,
        run_id: str,
        lane: str = "",
        *,
        rate: float = DEFAULT_RATE,
        recipe: Recipe | None = None,
    ) -> None:
        self._client = client
        self._run_id, self._lane = run_id, lane
        self._rate, self._recipe = rate, recipe or Recipe()
        self._stopped = threading.Event()
        self._changing = threading.Lock()
        self._stream: FrameStream | None = None
        self.problem = ""
        """Why there is no picture, in words; empty while there is nothing to say."""
        place = f"{run_id}/{lane}" if lane else run_id
        self._copy = LocalCopy(f"{place} at {client.target}")
        self._thread = threading.Thread(target=self._follow, name="remote-lane", daemon=True)

    @property
    def local_id(self) -> str:
        """The run id under which viewers on this machine find it."""
        return self._copy.run_id

    def start(self) -> Self:
        """Begin to bring frames."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop, and remove the local lane."""
        with self._changing:
            self._stopped.set()
            if self._stream is not None:
                self._stream.close()
        if self._thread.ident is not None:
            self._thread.join()
        self._copy.leave()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _follow(self) -> None:
        while not self._stopped.is_set():
            try:
                self._watch()
            except errors.LanekitError as error:
                # The daemon is away, or does not let us in any more: either may pass.
                self.problem = str(error)
                self._copy.leave()
            self._stopped.wait(RETRY)

    def _watch(self) -> None:
        with self._changing:
            if self._stopped.is_set():
                return
            self._stream = self._client.watch_frames(
                self._run_id, self._lane, rate=self._rate, recipe=self._recipe
            )
        with self._stream:
            for update in self._stream:
                self._take(update)
                # Not asking is what tells the far end that nobody looks.
                while not self._copy.wanted and not self._stopped.is_set():
                    self._stopped.wait(LOOK_FOR_VIEWERS)

    def _take(self, update: FrameUpdate) -> None:
        self.problem = update.problem
        if update.frame is not None:
            self._copy.publish(update.frame)
        if update.status == "connected":
            self._copy.arrive()
            if update.frame is None and update.metrics is not None:
                self._copy.update_metrics(update.metrics)
        else:
            self._copy.leave()


class LocalCopy:
    """The local lane, whose ring takes on the size of what arrives."""

    def __init__(self, run_id: str) -> None:
        if is_published(run_id):  # another process shows the same lane on this machine
            run_id = f"{run_id} ({os.getpid()})"
        self.run_id = run_id
        self._writer: FastLaneWriter | None = None

    @property
    def wanted(self) -> bool:
        """Whether a viewer is here; before there is a lane, whether there will be is unknown."""
        return self._writer is None or self._writer.watched

    def arrive(self) -> None:
        """Have a writer, so that viewers know of the worker although it has drawn nothing yet."""
        if self._writer is None:
            self._writer = FastLaneWriter.create(self.run_id, _EMPTY)

    def leave(self) -> None:
        """Have no writer: viewers keep the last picture, and look for the next one."""
        if self._writer is not None:
            self._writer.unlink()
            self._writer.close()
            self._writer = None

    def publish(self, frame: WatchedFrame) -> None:
        """Show a frame."""
        pixels, pixel_format = decode(frame.picture)
        writer = self._writer_for(pixels, pixel_format, frame.metadata)
        writer.publish(pixels, metrics=frame.metrics, metadata=frame.metadata)

    def update_metrics(self, metrics: FastLaneMetrics) -> None:
        """Show numbers without a frame."""
        if self._writer is not None:
            self._writer.update_metrics(metrics)

    def _writer_for(
        self, pixels: npt.NDArray[np.uint8], pixel_format: PixelFormat, metadata: bytes | None
    ) -> FastLaneWriter:
        height, width, channels = pixels.shape
        room = SMALLEST_METADATA if metadata is None else len(metadata)
        writer = self._writer
        if writer is not None:
            config = writer.config
            alike = (config.shape, config.pixel_format) == (pixels.shape, pixel_format)
            if alike and room <= config.metadata_size:
                return writer
            self.leave()
        self._writer = FastLaneWriter.create(
            self.run_id,
            FastLaneConfig(
                width,
                height,
                channels,
                pixel_format,
                CAPACITY,
                metadata_size=max(SMALLEST_METADATA, 2 * room),
            ),
        )
        return self._writer


def is_published(run_id: str) -> bool:
    """Tell whether somebody on this machine publishes under this id."""
    try:
        return not inspect_segment(segment_name("frame", run_id)).orphan
    except errors.LanekitError:
        return False


def decode(picture: Picture) -> tuple[npt.NDArray[np.uint8], PixelFormat]:
    """Return a picture's pixels, (height, width, channels), and how they are to be read."""
    if picture.encoding == "raw":
        channels = CHANNELS.get(picture.pixel_format, 0)
        if len(picture.data) != picture.width * picture.height * channels:
            raise errors.DaemonError(
                f"the daemon sent {len(picture.data)} bytes as a picture of "
                f"{picture.width}x{picture.height} {picture.pixel_format}"
            )
        raw = np.frombuffer(picture.data, np.uint8)
        return raw.reshape(picture.height, picture.width, channels), picture.pixel_format
    try:
        from PIL import Image
    except ImportError as error:
        raise errors.MissingExtra(
            f"showing {picture.encoding.upper()} pictures needs Pillow ({error}): "
            "pip install 'lanekit[remote]', or ask for --encoding raw"
        ) from error
    try:
        with Image.open(io.BytesIO(picture.data), formats=[picture.encoding.upper()]) as image:
            grey = image.mode == "L"
            pixels = np.asarray(image if grey else image.convert("RGB"))
    except (OSError, Image.DecompressionBombError) as error:
        raise errors.DaemonError(f"the daemon sent a picture that is none: {error}") from error
    return pixels.reshape(*pixels.shape[:2], -1), "GRAY" if grey else "RGB"
