"""One run as the list shows it, wherever it is known from."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass

from lanekit.slow.daemon.run_states import possible_actions, state_word
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.life_cycle import is_daemon_stream

_HERE = socket.gethostname()
LIVE_STATES = frozenset({"live", "submitted", "running", "paused"})
"""States of a run that may still show something new."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run of the daemon's, or one that only publishes pictures: its state is then "live"."""

    run_id: str
    state: str
    created_ns: int
    steps: int = 0
    episodes: int = 0
    reason: str = ""
    archived: bool = False
    on_daemon: bool = True
    error_logs: tuple[str, ...] = ()
    """Files on this machine that hold what its workers wrote to stderr."""

    @property
    def is_live(self) -> bool:
        """Whether it may still show something new."""
        return self.state in LIVE_STATES

    @property
    def actions(self) -> frozenset[str]:
        """What the daemon can be asked to do with it now."""
        if not self.on_daemon:
            return frozenset()
        return possible_actions(self.state, self.archived)

    def has_words(self, words: list[str]) -> bool:
        """Tell whether id or state hold all words; these are in lower case."""
        text = f"{self.run_id} {self.state}".lower()
        return all(word in text for word in words)


def row_of(run: pb.Run) -> RunRow:
    """Return a daemon's run as the list shows it."""
    return RunRow(
        run.run_id,
        state_word(run),
        run.created_wall_time_ns,
        run.steps,
        run.episodes,
        run.reason,
        run.archived,
        error_logs=tuple(_error_logs(run)),
    )


def _error_logs(run: pb.Run) -> Iterator[str]:
    for worker in run.workers:
        is_here = worker.host == _HERE and worker.spool_directory
        if is_here and not is_daemon_stream(worker.stream_id):
            yield f"{worker.spool_directory}/worker.err"


def lane_row(run_id: str, created_ns: int) -> RunRow:
    """Return a run that no daemon knows."""
    return RunRow(run_id, "live", created_ns, on_daemon=False)


def age_text(nanoseconds: int) -> str:
    """Return how long ago something was, in the largest unit that fits."""
    seconds = max(0, nanoseconds) // 1_000_000_000
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
