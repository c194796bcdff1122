"""A run's rows for an export: in commit order, a bounded window at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.store_file import store_errors

if TYPE_CHECKING:
    from lanekit.slow.store.records import RunRecord
    from lanekit.slow.store.run_store import RunStore

_WINDOW_ROWS = 8192
_WINDOW_BYTES = 8 * 2**20
"""A window ends at so many rows or bytes, whichever comes first; one row may be larger alone."""

# Not those that have only log events.
_SELECT_TRACKS = """
    SELECT worker_id, agent_id FROM tracks JOIN runs USING (run) WHERE run_id = ? AND (
        EXISTS (SELECT 1 FROM steps WHERE id BETWEEN track << 40 AND ((track + 1) << 40) - 1)
        OR EXISTS (SELECT 1 FROM episodes WHERE id BETWEEN track << 40 AND ((track + 1) << 40) - 1)
    ) ORDER BY track
"""

T = TypeVar("T")
Texts = Sequence[bytes | None]
Track = tuple[str, str]
"""Whose row it is: the worker's id and the agent's."""


@dataclass(frozen=True)
class StepWindow:
    """Some steps that follow each other, one sequence for each property.

    Values of any shape are JSON as the worker wrote it, None where it gave none.
    """

    position: int
    """Of the first row within its run."""
    stream: Sequence[str]
    seq: npt.NDArray[np.int64]
    worker: Sequence[str]
    agent: Sequence[str]
    episode: npt.NDArray[np.int64]
    step: npt.NDArray[np.int64]
    reward: npt.NDArray[np.float64]
    """NaN where there is none."""
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    wall_time_ns: npt.NDArray[np.int64]
    action: Texts
    observation: Texts
    info: Texts
    render_hint: Texts
    seed: Sequence[int | None]
    extra: Texts
    frame: Sequence[pb.Frame | None]

    def __len__(self) -> int:
        return len(self.seq)


@dataclass
class ExportSource:
    """One run as it was when the export began: what is committed meanwhile is left out."""

    store: RunStore
    run: RunRecord
    frames: bool = False
    """Whether the pixels are wanted, too."""
    progress: Callable[[int], None] = field(default=lambda rows: None)
    """Called with the number of rows that were handed out since the last call."""

    def tracks(self) -> list[Track]:
        """Name the workers and agents of the run, in the order in which they appeared."""
        with store_errors(self.store.path):
            rows = self.store.connection().execute(_SELECT_TRACKS, (self.run.run_id,)).fetchall()
        return list(dict.fromkeys((str(worker), str(agent)) for worker, agent in rows))

    def step_windows(self) -> Iterator[StepWindow]:
        """Give all steps."""
        cursor, end = 0, self.run.steps
        while cursor < end:
            columns, after = self.store.step_columns(
                self.run.run_id,
                cursor,
                min(_WINDOW_ROWS, end - cursor),
                frames=self.frames,
                max_bytes=_WINDOW_BYTES,
            )
            window = _window(columns, cursor)
            yield window
            self.progress(len(window))
            cursor = after

    def episodes(self) -> Iterator[pb.Episode]:
        """Give all episodes."""
        cursor, end = 0, self.run.episodes
        while cursor < end:
            rows, after = self.store.episode_rows(self.run.run_id, cursor, min(1024, end - cursor))
            yield from rows
            self.progress(len(rows))
            cursor = after

    def events(self) -> Iterator[pb.RunEvent]:
        """Give all events of the log."""
        cursor, end = 0, self.run.events
        while cursor < end:
            rows, after = self.store.event_rows(self.run.run_id, cursor, min(1024, end - cursor))
            yield from rows
            self.progress(len(rows))
            cursor = after


def _window(columns: pb.StepColumns, position: int) -> StepWindow:
    rows = columns.rows
    names, streams = list(columns.names), list(columns.streams)
    texts = {
        name: _texts(getattr(columns, f"{name}_json"), rows)
        for name in ("action", "observation", "info", "render_hint")
    }
    frames = _sparse(columns.frame_row, columns.frame, rows)
    return StepWindow(
        position=position,
        stream=[streams[i] for i in columns.stream_index],
        seq=np.array(columns.seq, np.int64),
        worker=[names[i] for i in columns.worker_index] or [""] * rows,
        agent=[names[i] for i in columns.agent_index] or [""] * rows,
        episode=_numbers(columns.episode, rows, np.int64),
        step=_numbers(columns.step, rows, np.int64),
        reward=_numbers(columns.reward, rows, np.float64, np.nan),
        terminated=_numbers(columns.terminated, rows, np.bool_),
        truncated=_numbers(columns.truncated, rows, np.bool_),
        wall_time_ns=_numbers(columns.wall_time_ns, rows, np.int64),
        **texts,
        seed=_sparse(columns.seed_row, columns.seed, rows),
        extra=_sparse(columns.extra_row, columns.extra_json, rows),
        frame=frames,
    )


def _numbers(
    values: Sequence[float], rows: int, kind: type, default: float = 0
) -> npt.NDArray[Any]:
    return np.array(values, kind) if len(values) else np.full(rows, default, kind)


def _texts(values: Sequence[bytes], rows: int) -> Texts:
    return [value or None for value in values] if len(values) else [None] * rows


def _sparse(indexes: Sequence[int], values: Sequence[T], rows: int) -> list[T | None]:
    out: list[T | None] = [None] * rows
    for index, value in zip(indexes, values, strict=True):
        out[index] = value
    return out
