"""A run as `lanekit run` follows it: asked about again and again, and summed up."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Protocol

from lanekit.cli import last_words
from lanekit.cli.progress_bar import Reading
from lanekit.errors import DaemonUnavailable
from lanekit.slow.daemon.spools import look
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.records import RunRecord, decode_object

EPISODES = 100
"""Of which the mean return is shown."""
NO_DAEMON = "no daemon"
"""What is shown as the state while nobody can tell it."""
_RATE_SECONDS = 10.0
_SETTLE_SECONDS = 30.0


class AskedDaemon(Protocol):
    """What of a daemon's client following a run takes."""

    def run(self, run_id: str) -> pb.Run:
        """Return the run as it is now."""

    def control_run(self, run_id: str, action: str) -> tuple[int, int]:
        """Ask its workers to pause, resume or stop."""

    def cancel_run(self, run_id: str, *, grace: float | None = None) -> pb.Run:
        """End its workers."""

    def stream_episodes(
        self, run_id: str, *, cursor: int = 0, history_only: bool = False
    ) -> Iterator[pb.StreamRunEpisodesResponse]:
        """Yield its episodes from a cursor on."""

    def stream_events(
        self, run_id: str, *, cursor: int = 0, history_only: bool = False
    ) -> Iterator[pb.StreamRunEventsResponse]:
        """Yield its log events from a cursor on."""


class FollowedRun:
    """Asks the daemon how a run is, and keeps what people want to know."""

    def __init__(
        self, client: AskedDaemon, run: pb.Run, *, total: int | None, one_agent: bool
    ) -> None:
        """Follow a run of `total` steps; what several agents do at once is stored as several."""
        self.record = RunRecord.from_message(run)
        self._client = client
        self._total = total
        self._one_agent = one_agent
        self._reported = 0
        self._returns: deque[float] = deque(maxlen=EPISODES)
        self._episodes = self._events = 0  # seen so far
        self._pace: deque[tuple[float, int]] = deque()
        self._began = time.monotonic()
        self._ended: float | None = None
        self._still_growing = True
        self._was_stopped = False  # the worker ended early because it was asked to

    def look(self) -> Reading:
        """Ask once, and return what there is to show."""
        try:
            record = RunRecord.from_message(self._client.run(self.record.run_id))
            if record.episodes > self._episodes:
                self._read_episodes()
            if record.events > self._events:
                self._read_events()
        except DaemonUnavailable:
            return self._reading(NO_DAEMON)
        self._still_growing = _size(record) != _size(self.record)
        self.record = record
        if not record.state.is_over:
            self._ended = None  # a worker that starts later revives a run
        elif self._ended is None:
            self._ended = time.monotonic()
        return self._reading(self.state)

    @property
    def state(self) -> str:
        """Its state in a word; one that completed early, as asked, is told as "stopped"."""
        if self.record.state == "completed" and self._was_stopped:
            return "stopped"
        return str(self.record.state)

    @property
    def over(self) -> bool:
        """Whether the run has ended and all that its workers said is stored."""
        if self._ended is None:
            return False
        return self._is_settled() or time.monotonic() > self._ended + _SETTLE_SECONDS

    @property
    def step(self) -> int:
        """How far it is, by the worker's own count or by what is stored."""
        if self._one_agent:
            return max(self._reported, self.record.steps)
        return self._reported or self.record.steps

    @property
    def mean_return(self) -> float | None:
        """The mean over the last episodes."""
        return fmean(self._returns) if self._returns else None

    @property
    def elapsed(self) -> float:
        """Seconds since the run was submitted, or that it took."""
        return (self._ended or time.monotonic()) - self._began

    def last_words(self) -> list[str]:
        """Return the end of what its workers on this machine wrote to stderr, and where it is."""
        return last_words.last_words(self.record)

    def _read_episodes(self) -> None:
        for page in self._client.stream_episodes(
            self.record.run_id, cursor=self._episodes, history_only=True
        ):
            self._returns.extend(
                episode.episode_return
                for episode in page.episodes
                if episode.HasField("episode_return")
            )
            self._episodes = page.next_cursor

    def _read_events(self) -> None:
        for page in self._client.stream_events(
            self.record.run_id, cursor=self._events, history_only=True
        ):
            for event in page.events:
                self._take(event.name, decode_object(event.payload_json))
            self._events = page.next_cursor

    def _take(self, name: str, payload: dict[str, object]) -> None:
        if name == "heartbeat":
            step, total = payload.get("step"), payload.get("total_steps")
            if isinstance(step, int):
                self._reported = max(self._reported, step)
            if isinstance(total, int) and total > 0:
                self._total = total
        elif name == "run_completed":
            self._was_stopped = payload.get("status") == "stopped"

    def _reading(self, state: str) -> Reading:
        return Reading(
            state=state,
            step=self.step,
            total=self._total,
            rate=self._rate(self.step) if state == "running" else None,
            last_return=self._returns[-1] if self._returns else None,
            mean_return=self.mean_return,
            elapsed=self.elapsed,
        )

    def _rate(self, step: int) -> float | None:
        now = time.monotonic()
        self._pace.append((now, step))
        while len(self._pace) > 2 and self._pace[1][0] <= now - _RATE_SECONDS:
            self._pace.popleft()
        then, step_then = self._pace[0]
        rate = (step - step_then) / (now - then) if now > then else 0.0
        return rate if math.isfinite(rate) and rate > 0 else None

    def _is_settled(self) -> bool:
        """Tell whether nothing more will come: a run may be over before its last steps arrive."""
        here = [worker for worker in self.record.senders if last_words.is_here(worker)]
        if len(here) < len(self.record.senders):
            return self.record.exit_status is not None and not self._still_growing
        spools = [look(Path(worker.spool_directory)) for worker in here]
        return all(spool is None or spool.finished for spool in spools) and not self._still_growing


def _size(record: RunRecord) -> tuple[int, int, int]:
    return record.steps, record.episodes, record.events
