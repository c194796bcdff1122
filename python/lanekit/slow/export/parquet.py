"""Parquet: typed columns, in row groups of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from lanekit.slow.export.source import ExportSource, StepWindow, Texts
from lanekit.slow.optional_packages import load
from lanekit.slow.proto import telemetry_pb2 as pb

_GROUP_ROWS = 65536
_GROUP_BYTES = 32 * 2**20
_ROWS_AT_ONCE = 4096


def write(source: ExportSource, directory: Path) -> None:
    """Write ``steps.parquet``, ``episodes.parquet`` and ``events.parquet``.

    Values of any shape are JSON text. Where the first actions (or observations) are all numbers, or
    all lists of equally many numbers, a further column ``action_values`` (``observation_values``)
    holds them as such; a later one of another shape is null there.
    """
    pa = load("pyarrow", "exporting to parquet")
    pq = load("pyarrow.parquet", "exporting to parquet")
    tables = {
        "steps": _step_batches(pa, source),
        "episodes": _record_batches(pa, source.episodes(), _episode_table(pa)),
        "events": _record_batches(pa, source.events(), _event_table(pa)),
    }
    for name, batches in tables.items():
        _write_file(pa, pq, directory / f"{name}.parquet", batches)


def _write_file(pa: Any, pq: Any, path: Path, batches: Iterator[Any]) -> None:
    """Gather batches into row groups. The first batch may be empty: it brings the schema."""
    first = next(batches)
    group, rows, size = [first], first.num_rows, first.nbytes
    with pq.ParquetWriter(path, first.schema, compression="zstd") as file:
        for batch in batches:
            if rows and (rows + batch.num_rows > _GROUP_ROWS or size + batch.nbytes > _GROUP_BYTES):
                file.write_table(pa.Table.from_batches(group))
                group, rows, size = [], 0, 0
            group.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        file.write_table(pa.Table.from_batches(group))


# --- steps ----------------------------------------------------------------------------------------


def _step_batches(pa: Any, source: ExportSource) -> Iterator[Any]:
    windows = source.step_windows()
    first = next(windows, None)
    shapes = {
        name: _shape(pa, getattr(first, name) if first else ())
        for name in ("action", "observation")
    }
    schema = _step_schema(pa, shapes, frames=source.frames)
    if first is None:
        yield pa.RecordBatch.from_pylist([], schema=schema)
        return
    yield _step_batch(pa, schema, first)
    for window in windows:
        yield _step_batch(pa, schema, window)


def _step_schema(pa: Any, shapes: dict[str, Any], *, frames: bool) -> Any:
    fields = [
        ("position", pa.int64()),
        ("stream_id", pa.string()),
        ("seq", pa.int64()),
        ("worker_id", pa.string()),
        ("agent_id", pa.string()),
        ("episode", pa.int64()),
        ("step", pa.int64()),
        ("reward", pa.float64()),
        ("terminated", pa.bool_()),
        ("truncated", pa.bool_()),
        ("wall_time", pa.timestamp("ns", tz="UTC")),
        ("seed", pa.int64()),
        ("action", pa.string()),
        ("observation", pa.string()),
        ("info", pa.string()),
        ("render_hint", pa.string()),
        ("extra", pa.string()),
    ]
    fields += [(f"{name}_values", shape) for name, shape in shapes.items() if shape is not None]
    if frames:
        fields += [(f"frame_{name}", pa.int32()) for name in ("width", "height", "channels")]
        fields.append(("frame_pixels", pa.binary()))
    return pa.schema(fields)


def _step_batch(pa: Any, schema: Any, window: StepWindow) -> Any:
    values: dict[str, Any] = {
        "position": np.arange(window.position, window.position + len(window)),
        "stream_id": window.stream,
        "worker_id": window.worker,
        "agent_id": window.agent,
        "wall_time": window.wall_time_ns,
    }
    columns = []
    for field in schema:
        if field.name.endswith("_values"):
            texts = getattr(window, field.name.removesuffix("_values"))
            columns.append(pa.array(_decoded(pa, texts, field.type), type=field.type))
        elif field.name.startswith("frame_"):
            part = field.name.removeprefix("frame_")
            frames = [None if f is None else getattr(f, part) for f in window.frame]
            columns.append(pa.array(frames, type=field.type))
        elif field.name == "reward":
            columns.append(pa.array(window.reward, mask=np.isnan(window.reward)))
        else:
            value = values.get(field.name)
            value = getattr(window, field.name) if value is None else value
            columns.append(pa.array(value, type=field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


# --- values of any shape --------------------------------------------------------------------

_decode_number = msgspec.json.Decoder(float).decode
_decode_numbers = msgspec.json.Decoder(list[float]).decode


def _shape(pa: Any, texts: Texts) -> Any:
    """Return the type that fits all values: a number, so many numbers, or None."""
    given = [text for text in texts if text is not None]
    if not given:
        return None
    if all(_try(_decode_number, text) is not None for text in given):
        return pa.float64()
    lists = [_try(_decode_numbers, text) for text in given]
    lengths = {None if numbers is None else len(numbers) for numbers in lists}
    length = lengths.pop()
    if lengths or not length:
        return None
    return pa.list_(pa.float64(), length)


def _decoded(pa: Any, texts: Texts, kind: Any) -> list[Any]:
    if not pa.types.is_fixed_size_list(kind):
        return [None if text is None else _try(_decode_number, text) for text in texts]
    lists = [None if text is None else _try(_decode_numbers, text) for text in texts]
    size = kind.list_size
    return [numbers if numbers is not None and len(numbers) == size else None for numbers in lists]


def _try(decode: Callable[[bytes], Any], text: bytes) -> Any:
    try:
        return decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None


# --- episodes and events ----------------------------------------------------------------------

Column = tuple[str, Any, Callable[[Any], Any]]


def _identity(pa: Any) -> list[Column]:
    return [
        ("stream_id", pa.string(), lambda row: row.stream_id),
        ("seq", pa.int64(), lambda row: row.seq),
        ("worker_id", pa.string(), lambda row: row.worker_id),
    ]


def _episode_table(pa: Any) -> list[Column]:
    return [
        *_identity(pa),
        ("agent_id", pa.string(), lambda row: row.agent_id),
        ("episode", pa.int64(), lambda row: row.episode),
        (
            "return",
            pa.float64(),
            lambda row: row.episode_return if row.HasField("episode_return") else None,
        ),
        ("length", pa.int64(), lambda row: row.length),
        ("terminated", pa.bool_(), lambda row: row.terminated),
        ("truncated", pa.bool_(), lambda row: row.truncated),
        ("wall_time", pa.timestamp("ns", tz="UTC"), lambda row: row.wall_time_ns),
        ("seed", pa.int64(), lambda row: row.seed if row.HasField("seed") else None),
        ("info", pa.string(), lambda row: row.info_json or None),
        ("extra", pa.string(), lambda row: row.extra_json or None),
    ]


def _event_table(pa: Any) -> list[Column]:
    return [
        *_identity(pa),
        ("name", pa.string(), lambda row: row.name),
        ("wall_time", pa.timestamp("ns", tz="UTC"), lambda row: row.wall_time_ns),
        ("payload", pa.string(), lambda row: row.payload_json or None),
        ("extra", pa.string(), lambda row: row.extra_json or None),
    ]


def _record_batches(
    pa: Any, rows: Iterable[pb.Episode] | Iterable[pb.RunEvent], table: list[Column]
) -> Iterator[Any]:
    schema = pa.schema([(name, kind) for name, kind, _ in table])

    def batch(chunk: list[Any]) -> Any:
        arrays = [pa.array([get(row) for row in chunk], type=kind) for _, kind, get in table]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    chunk: list[Any] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _ROWS_AT_ONCE:
            yield batch(chunk)
            chunk = []
    yield batch(chunk)
