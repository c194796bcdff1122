"""Pages of a run's events, read from the store and made ready to send. Runs in reading threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lanekit.slow.batches import rows_to_steps
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.run_store import RunStore

PAGE_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Page:
    """One answer to a StreamRun* call, serialised."""

    response: bytes | None
    """None: nothing to send, because there is no more or because none of it was asked for."""
    next_cursor: int
    position: bytes = b""
    """A response without events that only says how far the reading has come."""


def steps_page(store: RunStore, request: Any, cursor: int, limit: int) -> Page:
    """Read steps from ``cursor`` on."""
    columns, next_cursor = store.step_columns(request.run_id, cursor, limit)
    next_cursor = max(next_cursor, cursor)
    position = pb.StreamRunStepsResponse(next_cursor=next_cursor)
    if request.HasField("agent_id"):
        columns = only_agent(columns, request.agent_id)
    if not columns.rows:
        return Page(None, next_cursor, position.SerializeToString())
    if request.row_wise:
        response = pb.StreamRunStepsResponse(
            steps=rows_to_steps(columns, request.run_id), next_cursor=next_cursor
        )
    else:
        response = pb.StreamRunStepsResponse(columns=columns, next_cursor=next_cursor)
    return Page(response.SerializeToString(), next_cursor)


def episodes_page(store: RunStore, request: Any, cursor: int, limit: int) -> Page:
    """Read episodes from ``cursor`` on."""
    episodes, next_cursor = store.episode_rows(request.run_id, cursor, limit)
    response = pb.StreamRunEpisodesResponse(episodes=episodes, next_cursor=next_cursor)
    return Page(response.SerializeToString() if episodes else None, max(next_cursor, cursor))


def events_page(store: RunStore, request: Any, cursor: int, limit: int) -> Page:
    """Read log events from ``cursor`` on."""
    events, next_cursor = store.event_rows(request.run_id, cursor, limit)
    response = pb.StreamRunEventsResponse(events=events, next_cursor=next_cursor)
    return Page(response.SerializeToString() if events else None, max(next_cursor, cursor))


DENSE = (
    *("worker_index", "agent_index", "stream_index", "seq", "episode", "step"),
    *("action_json", "observation_json", "info_json", "render_hint_json"),
    *("reward", "terminated", "truncated", "wall_time_ns"),
)
SPARSE = (
    ("seed_row", "seed"),
    ("frame_row", "frame"),
    ("extra_row", "extra_json"),
    ("unknown_row", "unknown_fields"),
)


def only_agent(columns: pb.StepColumns, agent_id: str) -> pb.StepColumns:
    """Return the rows of one agent."""
    wanted = {index for index, name in enumerate(columns.names) if name == agent_id}
    if columns.agent_index:
        rows = [row for row, agent in enumerate(columns.agent_index) if agent in wanted]
    else:
        rows = list(range(columns.rows)) if agent_id == "" else []
    if len(rows) == columns.rows:
        return columns
    chosen = pb.StepColumns(rows=len(rows), names=columns.names, streams=columns.streams)
    for name in DENSE:
        if values := getattr(columns, name):
            getattr(chosen, name).extend([values[row] for row in rows])
    new_row = {row: number for number, row in enumerate(rows)}
    for row_name, name in SPARSE:
        pairs = zip(getattr(columns, row_name), getattr(columns, name), strict=True)
        for row, value in pairs:
            if row in new_row:
                getattr(chosen, row_name).append(new_row[row])
                getattr(chosen, name).append(value)
    return chosen
