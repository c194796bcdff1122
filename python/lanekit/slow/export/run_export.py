"""Write a run for another tool, completely or not at all."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanekit.errors import TelemetryError
from lanekit.slow.export.destination import new_export
from lanekit.slow.export.source import ExportSource

if TYPE_CHECKING:
    from lanekit.slow.store.run_store import RunStore

FORMATS = {
    "parquet": "parquet",
    "csv": "csv",
    "jsonl": "jsonl",
    "tensorboard": "tensorboard",
    "wandb-offline": "wandb_offline",
}
"""Each format's name, and its module's."""
WITH_FRAMES = ("parquet", "jsonl")
"""The formats that can hold frames."""


def export_run(
    store: RunStore,
    run_id: str,
    format_name: str,
    out: Path,
    *,
    frames: bool = False,
    force: bool = False,
    progress: Callable[[int], None] = lambda rows: None,
) -> ExportSource:
    """Write the run's steps, episodes and events into the directory `out`.

    The directory appears when everything is written. Memory stays flat, however long the run is.
    Returns what was written. Raises :class:`~lanekit.errors.TelemetryError` if `out` is taken, and
    :class:`~lanekit.errors.MissingExtra` if the format's package is not installed.
    """
    if format_name not in FORMATS:
        raise ValueError(f"unknown format {format_name!r}; known: {', '.join(FORMATS)}")
    if frames and format_name not in WITH_FRAMES:
        raise TelemetryError(
            f"{format_name} can not hold frames; the formats that can are {', '.join(WITH_FRAMES)}"
        )
    source = ExportSource(store, store.run(run_id), frames=frames, progress=progress)
    module = importlib.import_module(f"lanekit.slow.export.{FORMATS[format_name]}")
    with new_export(out, _about(source, format_name), force=force) as directory:
        module.write(source, directory)
    return source


def _about(source: ExportSource, format_name: str) -> dict[str, Any]:
    run = source.run
    return {
        "lanekit_export": format_name,
        "run_id": run.run_id,
        "state": run.state,
        "steps": run.steps,
        "episodes": run.episodes,
        "events": run.events,
        "frames": source.frames,
    }
