"""TensorBoard: rewards, returns and episode lengths as scalars, the log's events as text."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from lanekit.slow.export.curves import Point, episode_points, step_points, track_names
from lanekit.slow.export.source import ExportSource, Track
from lanekit.slow.optional_packages import load

_WANTED_FOR = "exporting to tensorboard"
_QUEUE = 4096


def write(source: ExportSource, directory: Path) -> None:
    """Write event files, one directory ("run" in TensorBoard's words) for each worker and agent.

    TensorBoard keeps scalars in single precision.
    """
    files = load("tensorboard.summary.writer.event_file_writer", _WANTED_FOR)
    events = load("tensorboard.compat.proto.event_pb2", _WANTED_FOR)
    names = track_names(source.tracks())
    with contextlib.ExitStack() as open_files:

        def open_file(name: str) -> Any:
            # TensorBoard writes from a thread of its own, behind a queue of bounded length.
            writer = files.EventFileWriter(str(directory / name), max_queue_size=_QUEUE)
            open_files.callback(writer.close)
            return writer

        writers: dict[Track, Any] = {}
        if "" not in names.values():
            log = open_file("")
        for track, name in names.items():
            writers[track] = open_file(name)
        if "" in names.values():
            log = next(iter(writers.values()))
        for points in (step_points(source), episode_points(source)):
            for point in points:
                writers[point.track].add_event(_scalars(events, point))
        for number, row in enumerate(source.events()):
            payload = row.payload_json.decode()
            text = f"`{row.name}` {payload}" if payload else f"`{row.name}`"
            log.add_event(_text(events, number, row.wall_time_ns / 1e9, text))


def _scalars(events: Any, point: Point) -> Any:
    event = events.Event(wall_time=point.wall_time, step=point.index)
    for tag, value in point.values.items():
        event.summary.value.add(tag=tag, simple_value=value)
    return event


def _text(events: Any, step: int, wall_time: float, text: str) -> Any:
    metadata = load("tensorboard.plugins.text.metadata", _WANTED_FOR)
    types = load("tensorboard.compat.proto.types_pb2", _WANTED_FOR)
    event = events.Event(wall_time=wall_time, step=step)
    value = event.summary.value.add(tag="events")
    value.metadata.CopyFrom(metadata.create_summary_metadata("events", "events"))
    value.tensor.dtype = types.DT_STRING
    value.tensor.tensor_shape.SetInParent()  # a scalar
    value.tensor.string_val.append(text.encode())
    return event
