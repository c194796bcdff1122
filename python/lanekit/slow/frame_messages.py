"""Watched frames as messages of the protocol, and back."""

from __future__ import annotations

from typing import cast

from lanekit.errors import InvalidEvent
from lanekit.fast.frame import FastLaneMetrics, PixelFormat
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.watched_frames import (
    DEFAULT_QUALITY,
    DEFAULT_RATE,
    Encoding,
    FrameUpdate,
    LaneInfo,
    Picture,
    Recipe,
    Status,
    WatchedFrame,
)

_ENCODINGS: dict[Encoding, pb.FrameEncoding.ValueType] = {
    "jpeg": pb.FRAME_ENCODING_JPEG,
    "webp": pb.FRAME_ENCODING_WEBP,
    "png": pb.FRAME_ENCODING_PNG,
    "raw": pb.FRAME_ENCODING_RAW,
}
_ENCODING_NAMES = {number: name for name, number in _ENCODINGS.items()}
_STATUSES: dict[Status, pb.LaneStatus.ValueType] = {
    "connected": pb.LANE_STATUS_CONNECTED,
    "reconnecting": pb.LANE_STATUS_RECONNECTING,
    "fastlane-unavailable": pb.LANE_STATUS_UNAVAILABLE,
}
_STATUS_NAMES = {number: name for name, number in _STATUSES.items()}


def wish_message(rate: float, recipe: Recipe) -> pb.FrameWish:
    """Return what a watcher sends to ask for frames."""
    return pb.FrameWish(
        max_rate_hz=rate,
        encoding=_ENCODINGS[recipe.encoding],
        max_width=recipe.max_width,
        max_height=recipe.max_height,
        quality=recipe.quality,
    )


def read_wish(wish: pb.FrameWish) -> tuple[float, Recipe]:
    """Return rate and recipe; ValueError for what nobody can wish for."""
    encoding: Encoding | None = "jpeg"
    if wish.encoding:
        encoding = _ENCODING_NAMES.get(wish.encoding)
    if encoding is None:
        raise ValueError(f"encoding {wish.encoding} is not known here")
    recipe = Recipe(encoding, wish.max_width, wish.max_height, wish.quality or DEFAULT_QUALITY)
    return wish.max_rate_hz or DEFAULT_RATE, recipe


def update_message(update: FrameUpdate) -> pb.WatchFramesResponse:
    """Return an update as it is sent."""
    return pb.WatchFramesResponse(
        status=_STATUSES[update.status],
        problem=update.problem,
        metrics=None if update.metrics is None else _metrics_message(update.metrics),
        frame=None if update.frame is None else _frame_message(update.frame),
    )


def read_update(message: pb.WatchFramesResponse) -> FrameUpdate:
    """Return the update that a message brings."""
    return FrameUpdate(
        status=_STATUS_NAMES.get(message.status, "fastlane-unavailable"),
        frame=_read_frame(message.frame) if message.HasField("frame") else None,
        metrics=_read_metrics(message.metrics) if message.HasField("metrics") else None,
        problem=message.problem,
    )


def lane_message(info: LaneInfo) -> pb.Lane:
    """Return a lane's description as it is sent."""
    return pb.Lane(
        run_id=info.run_id,
        lane=info.lane,
        width=info.width,
        height=info.height,
        pixel_format=info.pixel_format,
        frames=info.frames,
        viewers=info.viewers,
        live=info.live,
        created_wall_time_ns=info.created_unix_ns,
    )


def read_lane(message: pb.Lane) -> LaneInfo:
    """Return the description that a message brings."""
    return LaneInfo(
        run_id=message.run_id,
        lane=message.lane,
        width=message.width,
        height=message.height,
        pixel_format=cast(PixelFormat, message.pixel_format),
        frames=message.frames,
        viewers=message.viewers,
        live=message.live,
        created_unix_ns=message.created_wall_time_ns,
    )


def _frame_message(frame: WatchedFrame) -> pb.WatchedFrame:
    picture = frame.picture
    return pb.WatchedFrame(
        seq=frame.seq,
        published_wall_time_ns=frame.published_unix_ns,
        age_ns=frame.age_ns,
        skipped=frame.skipped,
        metrics=_metrics_message(frame.metrics),
        metadata=frame.metadata,
        source_width=frame.source_width,
        source_height=frame.source_height,
        width=picture.width,
        height=picture.height,
        encoding=_ENCODINGS[picture.encoding],
        pixel_format=picture.pixel_format,
        data=picture.data,
    )


def _read_frame(message: pb.WatchedFrame) -> WatchedFrame:
    encoding = _ENCODING_NAMES.get(message.encoding)
    if encoding is None:
        raise InvalidEvent(f"the daemon sent a frame in encoding {message.encoding}: it is newer")
    picture = Picture(
        message.data,
        message.width,
        message.height,
        encoding,
        cast(PixelFormat, message.pixel_format),
    )
    return WatchedFrame(
        picture=picture,
        source_width=message.source_width,
        source_height=message.source_height,
        seq=message.seq,
        published_unix_ns=message.published_wall_time_ns,
        metrics=_read_metrics(message.metrics),
        metadata=message.metadata if message.HasField("metadata") else None,
        skipped=message.skipped,
        age_ns=message.age_ns,
    )


def _metrics_message(metrics: FastLaneMetrics) -> pb.LaneMetrics:
    return pb.LaneMetrics(
        last_reward=metrics.last_reward,
        rolling_return=metrics.rolling_return,
        step_rate_hz=metrics.step_rate_hz,
    )


def _read_metrics(message: pb.LaneMetrics) -> FastLaneMetrics:
    return FastLaneMetrics(message.last_reward, message.rolling_return, message.step_rate_hz)
