"""Records as a worker's lines, and as protocol messages. Values of any shape become JSON."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from lanekit.errors import InvalidEvent
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.records import EpisodeRecord, EventRecord, StepRecord

Record = StepRecord | EpisodeRecord | EventRecord

_RENAMED = {"episode": "episode_index", "step": "step_index", "wall_time_ns": "time_ns"}
_RENAMED |= {"episode_return": "return", "name": "event"}
_HEAD = {StepRecord: {"event_type": "step"}, EpisodeRecord: {"event_type": "episode"}}
_NOT_IN_LINES = ("extra", "frame", "stream_id", "seq")


def to_json(value: Any) -> bytes:
    """Encode a value of any shape: arrays as lists, what JSON has no form for as its `repr`."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEvent(
            f"a value can not be written as JSON ({error}): {value!r:.200}"
        ) from None


def _plain(value: Any) -> Any:
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else repr(value)


def to_line(record: Record) -> bytes:
    """Return the line that a worker would have printed, with its line break."""
    line: dict[str, Any] = dict(_HEAD.get(type(record), {}))
    for name in record.__slots__:
        value = getattr(record, name)
        if name not in _NOT_IN_LINES and value is not None:
            line[_RENAMED.get(name, name)] = value
    frame = getattr(record, "frame", None)
    if frame is not None:
        message = to_frame(frame)
        line["frame"] = {
            "width": message.width,
            "height": message.height,
            "channels": message.channels,
            "pixels": base64.b64encode(message.pixels).decode("ascii"),
        }
    for name, value in record.extra.items():
        line.setdefault(name, value)
    return to_json(line) + b"\n"


def to_step(record: StepRecord) -> pb.Step:
    """Return a step as the protocol carries it."""
    return pb.Step(
        worker_id=record.worker_id,
        agent_id=record.agent_id,
        episode=record.episode,
        step=record.step,
        action_json=_optional(record.action),
        observation_json=_optional(record.observation),
        reward=record.reward,
        terminated=record.terminated,
        truncated=record.truncated,
        info_json=_optional(record.info),
        render_hint_json=_optional(record.render_hint),
        seed=record.seed,
        wall_time_ns=record.wall_time_ns,
        frame=None if record.frame is None else to_frame(record.frame),
        extra_json=_optional(record.extra or None),
    )


def to_episode(record: EpisodeRecord) -> pb.Episode:
    """Return an episode as the protocol carries it."""
    return pb.Episode(
        worker_id=record.worker_id,
        agent_id=record.agent_id,
        episode=record.episode,
        episode_return=record.episode_return,
        length=record.length,
        terminated=record.terminated,
        truncated=record.truncated,
        seed=record.seed,
        wall_time_ns=record.wall_time_ns,
        info_json=_optional(record.info),
        extra_json=_optional(record.extra or None),
    )


def to_event(record: EventRecord) -> pb.RunEvent:
    """Return a log event as the protocol carries it."""
    return pb.RunEvent(
        worker_id=record.worker_id,
        name=record.name,
        wall_time_ns=record.wall_time_ns,
        payload_json=_optional(record.payload),
        extra_json=_optional(record.extra or None),
    )


def to_frame(pixels: npt.NDArray[np.uint8]) -> pb.Frame:
    """Return a picture of shape (height, width) or (height, width, channels) as a message."""
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
        raise InvalidEvent(
            "a frame is a uint8 array of shape (height, width, channels), not "
            f"{pixels.dtype} of shape {pixels.shape}"
        )
    height, width = pixels.shape[:2]
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    return pb.Frame(width=width, height=height, channels=channels, pixels=pixels.tobytes())


def _optional(value: Any) -> bytes:
    return b"" if value is None else to_json(value)
