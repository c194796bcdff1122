"""JSON lines: the rows as lines of the kind that a worker prints, values byte for byte."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from lanekit.slow.export.source import ExportSource, StepWindow
from lanekit.slow.proto import telemetry_pb2 as pb

Line = dict[str, Any]

_encode_into = msgspec.json.Encoder().encode_into
_check = msgspec.json.Decoder(msgspec.Raw).decode
_decode_extra = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def write(source: ExportSource, directory: Path) -> None:
    """Write ``steps.jsonl``, ``episodes.jsonl`` and ``events.jsonl``, absent values left out."""
    _write_file(directory / "steps.jsonl", _steps(source))
    _write_file(directory / "episodes.jsonl", _episodes(source))
    _write_file(directory / "events.jsonl", _events(source))


def _write_file(path: Path, lines: Iterable[Line]) -> None:
    buffer = bytearray()
    with path.open("wb") as file:
        for line in lines:
            _encode_into(line, buffer)
            # Values are as the worker sent them. A line break in one can only be white space
            # between two tokens: inside a string it would have to be escaped.
            if b"\n" in buffer or b"\r" in buffer:
                buffer = buffer.replace(b"\n", b" ").replace(b"\r", b" ")
            buffer += b"\n"
            file.write(buffer)


def _steps(source: ExportSource) -> Iterator[Line]:
    for window in source.step_windows():
        for i in range(len(window)):
            yield _step(window, i, source.run.run_id)


def _step(window: StepWindow, i: int, run_id: str) -> Line:
    reward = float(window.reward[i])
    line: Line = {
        "event_type": "step",
        "run_id": run_id,
        "stream_id": window.stream[i],
        "seq": int(window.seq[i]),
        "worker_id": window.worker[i],
        "agent_id": window.agent[i],
        "episode_index": int(window.episode[i]),
        "step_index": int(window.step[i]),
        "terminated": bool(window.terminated[i]),
        "truncated": bool(window.truncated[i]),
        "time_ns": int(window.wall_time_ns[i]),
    }
    if not math.isnan(reward):
        line["reward"] = reward
    if window.seed[i] is not None:
        line["seed"] = window.seed[i]
    for name in ("action", "observation", "info", "render_hint"):
        _add(line, name, getattr(window, name)[i])
    frame = window.frame[i]
    if frame is not None:
        line["frame"] = {
            "width": frame.width,
            "height": frame.height,
            "channels": frame.channels,
            "pixels": base64.b64encode(frame.pixels).decode("ascii"),
        }
    return _with_extra(line, window.extra[i])


def _episodes(source: ExportSource) -> Iterator[Line]:
    for row in source.episodes():
        line = _identity("event_type", "episode", row, source) | {
            "agent_id": row.agent_id,
            "episode_index": row.episode,
            "length": row.length,
            "terminated": row.terminated,
            "truncated": row.truncated,
        }
        if row.HasField("episode_return"):
            line["return"] = row.episode_return
        if row.HasField("seed"):
            line["seed"] = row.seed
        _add(line, "info", row.info_json)
        yield _with_extra(line, row.extra_json)


def _events(source: ExportSource) -> Iterator[Line]:
    for row in source.events():
        line = _identity("event", row.name, row, source)
        _add(line, "payload", row.payload_json)
        yield _with_extra(line, row.extra_json)


def _identity(key: str, value: str, row: pb.Episode | pb.RunEvent, source: ExportSource) -> Line:
    return {
        key: value,
        "run_id": source.run.run_id,
        "stream_id": row.stream_id,
        "seq": row.seq,
        "worker_id": row.worker_id,
        "time_ns": row.wall_time_ns,
    }


def _add(line: Line, name: str, text: bytes | None) -> None:
    if text:
        line[name] = _value(text)


def _with_extra(line: Line, extra: bytes | None) -> Line:
    """Put the worker's own keys beside ours again; none of them can be one of ours."""
    if extra:
        try:
            own = _decode_extra(extra)
        except (msgspec.MsgspecError, RecursionError):
            own = {"extra": _value(extra)}
        for name, value in own.items():
            line.setdefault(name, value)
    return line


def _value(text: bytes) -> Any:
    """The text, byte for byte; one that is no JSON as a string, so that the line stays sound."""
    try:
        _check(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return text.decode("utf-8", "replace")
    except RecursionError:
        pass  # Nested too deeply to look at from here; it was looked at before it was stored.
    return msgspec.Raw(text)
