"""Rows of the table of runs, as protocol messages."""

from __future__ import annotations

from typing import Any

import msgspec

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.life_cycle import CONTINUED
from lanekit.slow.store.sql_connection import SqlConnection

_COLUMNS = (
    "run, run_id, state, created_ns, started_ns, ended_ns, exit_status, reason, command_json,"
    " CAST(config_json AS BLOB), archived, steps, episodes, events, rejected, revision"
)
_PREFIX = "RUN_STATE_"


def state_name(state: int | str) -> str:
    """A state as the store and the records write it: ``running`` for ``RUN_STATE_RUNNING``."""
    if isinstance(state, int):
        state = pb.RunState.Name(pb.RunState.ValueType(state))
    name = str(state).removeprefix(_PREFIX).lower()
    state_number(name)
    return name


def state_number(name: str) -> pb.RunState.ValueType:
    """The protocol's number of a state's name."""
    return pb.RunState.Value(_PREFIX + name.upper())


def select_runs(
    connection: SqlConnection, clause: str = "", bindings: tuple[Any, ...] = ()
) -> list[pb.Run]:
    """Read runs, with their workers. `clause` goes behind the table's name."""
    rows: list[Any] = connection.execute(
        f"SELECT {_COLUMNS} FROM runs {clause}", bindings
    ).fetchall()
    return [_message(connection, *row) for row in rows]


def _message(
    connection: SqlConnection,
    run: int,
    run_id: str,
    state: str,
    created_ns: int,
    started_ns: int,
    ended_ns: int,
    exit_status: int | None,
    reason: str,
    command_json: str,
    config_json: bytes | None,
    archived: int,
    steps: int,
    episodes: int,
    events: int,
    rejected: int,
    revision: int,
) -> pb.Run:
    workers = connection.execute(
        "SELECT worker_id, stream_id, pid, host, last_seen_ns, spool_directory, notice FROM streams"
        " WHERE run = ? AND state != ? ORDER BY stream",
        (run, CONTINUED),
    )
    return pb.Run(
        run_id=run_id,
        state=state_number(state),
        created_wall_time_ns=created_ns,
        started_wall_time_ns=started_ns,
        ended_wall_time_ns=ended_ns,
        exit_status=exit_status,
        reason=reason,
        command=msgspec.json.decode(command_json),
        config_json=config_json or b"",
        archived=bool(archived),
        steps=steps,
        episodes=episodes,
        events=events,
        rejected_lines=rejected,
        workers=[
            pb.Worker(
                worker_id=worker_id,
                stream_id=stream_id,
                pid=pid,
                host=host,
                last_seen_wall_time_ns=last_seen_ns,
                spool_directory=spool_directory,
                notice=notice,
            )
            for worker_id, stream_id, pid, host, last_seen_ns, spool_directory, notice in workers
        ],
        revision=revision,
    )
