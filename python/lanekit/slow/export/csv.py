"""CSV: one table per kind of row, values of any shape as JSON text."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from lanekit.slow.export.source import ExportSource, StepWindow

STEPS = [
    "position",
    "stream_id",
    "seq",
    "worker_id",
    "agent_id",
    "episode",
    "step",
    "reward",
    "terminated",
    "truncated",
    "wall_time_ns",
    "seed",
    "action",
    "observation",
    "info",
    "render_hint",
    "extra",
]
EPISODES = [
    "stream_id",
    "seq",
    "worker_id",
    "agent_id",
    "episode",
    "return",
    "length",
    "terminated",
    "truncated",
    "wall_time_ns",
    "seed",
    "info",
    "extra",
]
EVENTS = [
    "stream_id",
    "seq",
    "worker_id",
    "name",
    "wall_time_ns",
    "payload",
    "extra",
]

Cell = str | int | float | None


def write(source: ExportSource, directory: Path) -> None:
    """Write ``steps.csv``, ``episodes.csv`` and ``events.csv``; absent values are empty cells."""
    _write_file(directory / "steps.csv", STEPS, _steps(source))
    _write_file(directory / "episodes.csv", EPISODES, _episodes(source))
    _write_file(directory / "events.csv", EVENTS, _events(source))


def _write_file(path: Path, heads: list[str], rows: Iterable[Iterable[Cell]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        writer.writerows(rows)


def _steps(source: ExportSource) -> Iterator[Iterable[Cell]]:
    for window in source.step_windows():
        yield from _step_rows(window)


def _step_rows(window: StepWindow) -> Iterator[Iterable[Cell]]:
    # As Python numbers: a reward is then written with the digits that read back as the same number.
    return zip(
        range(window.position, window.position + len(window)),
        window.stream,
        window.seq.tolist(),
        window.worker,
        window.agent,
        window.episode.tolist(),
        window.step.tolist(),
        [None if math.isnan(reward) else reward for reward in window.reward.tolist()],
        map(_truth, window.terminated.tolist()),
        map(_truth, window.truncated.tolist()),
        window.wall_time_ns.tolist(),
        window.seed,
        map(_text, window.action),
        map(_text, window.observation),
        map(_text, window.info),
        map(_text, window.render_hint),
        map(_text, window.extra),
        strict=True,
    )


def _episodes(source: ExportSource) -> Iterator[Iterable[Cell]]:
    for row in source.episodes():
        yield (
            row.stream_id,
            row.seq,
            row.worker_id,
            row.agent_id,
            row.episode,
            row.episode_return if row.HasField("episode_return") else None,
            row.length,
            _truth(row.terminated),
            _truth(row.truncated),
            row.wall_time_ns,
            row.seed if row.HasField("seed") else None,
            _text(row.info_json),
            _text(row.extra_json),
        )


def _events(source: ExportSource) -> Iterator[Iterable[Cell]]:
    for row in source.events():
        yield (
            row.stream_id,
            row.seq,
            row.worker_id,
            row.name,
            row.wall_time_ns,
            _text(row.payload_json),
            _text(row.extra_json),
        )


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _text(value: bytes | None) -> str | None:
    return value.decode() if value else None
