"""What the slow lane records, as plain objects: runs, steps, episodes, events, frames."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.life_cycle import DAEMON_STREAM, TERMINAL
from lanekit.slow.store.run_rows import state_name


class RunState(enum.StrEnum):
    """Where a run is in its life."""

    UNSPECIFIED = "unspecified"
    SUBMITTED = "submitted"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.value in TERMINAL


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """One sender of a run: a worker, or the proxy that reads its output."""

    worker_id: str
    stream_id: str
    pid: int
    host: str
    last_seen_ns: int
    spool_directory: str
    notice: str = ""
    """What is unusual about its journal: it was copied, or put back as it was earlier."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run."""

    run_id: str
    state: RunState
    created_ns: int
    started_ns: int
    """0 while it has not begun."""
    ended_ns: int
    """0 while it has not ended."""
    exit_status: int | None
    """Negative: the signal that ended the worker. None: not known."""
    reason: str
    command: tuple[str, ...]
    config_json: bytes
    archived: bool
    steps: int
    episodes: int
    events: int
    rejected_lines: int
    workers: tuple[WorkerRecord, ...]
    revision: int

    @classmethod
    def from_message(cls, run: pb.Run) -> RunRecord:
        """The same run as the protocol tells it."""
        return cls(
            run_id=run.run_id,
            state=RunState(state_name(run.state)),
            created_ns=run.created_wall_time_ns,
            started_ns=run.started_wall_time_ns,
            ended_ns=run.ended_wall_time_ns,
            exit_status=run.exit_status if run.HasField("exit_status") else None,
            reason=run.reason,
            command=tuple(run.command),
            config_json=run.config_json,
            archived=run.archived,
            steps=run.steps,
            episodes=run.episodes,
            events=run.events,
            rejected_lines=run.rejected_lines,
            workers=tuple(
                WorkerRecord(
                    worker_id=worker.worker_id,
                    stream_id=worker.stream_id,
                    pid=worker.pid,
                    host=worker.host,
                    last_seen_ns=worker.last_seen_wall_time_ns,
                    spool_directory=worker.spool_directory,
                    notice=worker.notice,
                )
                for worker in run.workers
            ),
            revision=run.revision,
        )

    @property
    def senders(self) -> list[WorkerRecord]:
        """Its workers without the daemon, which writes into the log of every run."""
        return [worker for worker in self.workers if worker.stream_id != DAEMON_STREAM]

    @property
    def config(self) -> Any:
        """What the run was submitted with, decoded; None when it was nothing."""
        return decode_json(self.config_json)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of one agent, its values decoded."""

    run_id: str
    episode: int
    step: int
    action: Any = None
    observation: Any = None
    reward: float | None = None
    terminated: bool = False
    truncated: bool = False
    info: Any = None
    render_hint: Any = None
    seed: int | None = None
    wall_time_ns: int = 0
    worker_id: str = ""
    agent_id: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    frame: npt.NDArray[np.uint8] | None = None
    """height x width x channels. Not filled in by `RunStore.steps`: see `RunStore.frames`."""
    stream_id: str = ""
    seq: int = 0
    """Its number in its stream; 0 before it has one."""


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """One finished episode of one agent."""

    run_id: str
    episode: int
    episode_return: float | None = None
    length: int = 0
    terminated: bool = False
    truncated: bool = False
    seed: int | None = None
    wall_time_ns: int = 0
    info: Any = None
    worker_id: str = ""
    agent_id: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    stream_id: str = ""
    seq: int = 0


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One entry of a run's log."""

    run_id: str
    name: str
    wall_time_ns: int = 0
    payload: Any = None
    worker_id: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    stream_id: str = ""
    seq: int = 0


@dataclass(frozen=True, slots=True)
class FrameRecord:
    """A recorded frame, and what is worth showing beside it."""

    run_id: str
    worker_id: str
    agent_id: str
    episode: int
    step: int
    reward: float | None
    terminated: bool
    truncated: bool
    wall_time_ns: int
    stream_id: str
    seq: int
    pixels: npt.NDArray[np.uint8]
    """height x width x channels, read-only."""


def decode_json(text: bytes | None) -> Any:
    """The value of a JSON text; None when there is none.

    What a worker could write it can read back: a number beyond the range of floats is infinite, and
    a text of which nothing can be made (nested too deeply for this place of the stack, or damaged)
    comes as it is, a string. So one odd value never keeps the others from being read.
    """
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.decode("utf-8", "replace")


def decode_object(text: bytes | None) -> dict[str, Any]:
    """The keys that lanekit does not know, as an object; anything else is its `extra`."""
    value = decode_json(text)
    if isinstance(value, dict):
        return value
    return {} if value is None else {"extra": value}
