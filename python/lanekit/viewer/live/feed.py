"""One run's committed steps and episodes, fetched from the daemon in threads of their own.

Steps are for looking at: of those that the window has not taken yet the newest of each agent are
kept, the others are counted as dropped. Episodes make the curves, so none is dropped: when the
window is behind, the thread waits, and the daemon simply sends later.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lanekit import errors
from lanekit.slow.daemon_client import DaemonClient
from lanekit.viewer.live.rows import (
    EpisodeRow,
    StepRow,
    episode_row,
    newest_steps,
    steps_per_agent,
)

LIVE_STEP_QUEUE_SIZE = 64
EPISODES_AT_ONCE = 4096
"""Most episodes that wait for the window."""
RETRY_SECONDS = 1.0


@dataclass(slots=True)
class Catch:
    """What a feed has gathered since it was asked last."""

    steps: dict[str, list[StepRow]] = field(default_factory=dict)
    step_counts: dict[str, int] = field(default_factory=dict)
    """How many steps there were of each agent, dropped ones included."""
    dropped: dict[str, int] = field(default_factory=dict)
    episodes: list[EpisodeRow] = field(default_factory=list)


class RunFeed:
    """Follows one run, from the last `steps_back` steps and the first episode on.

    `arrived` is called from the feed's threads whenever there is something to take.
    """

    def __init__(
        self,
        run_id: str,
        connect: Callable[[], DaemonClient],
        arrived: Callable[[], None],
        *,
        steps_back: int = LIVE_STEP_QUEUE_SIZE,
    ) -> None:
        self.run_id = run_id
        self.problem = ""
        """Why nothing comes, in words; empty while all is well."""
        self._connect = connect
        self._arrived = arrived
        self._steps_back = steps_back
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._steps: dict[str, deque[StepRow]] = {}
        self._counts: dict[str, int] = {}
        self._dropped: dict[str, int] = {}
        self._episodes: list[EpisodeRow] = []
        self._stopped = threading.Event()
        self._clients: list[DaemonClient] = []
        self._threads = [
            threading.Thread(target=self._follow, args=(kind,), daemon=True, name=f"feed-{kind}")
            for kind in ("steps", "episodes")
        ]

    def start(self) -> None:
        """Begin to fetch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop fetching; returns when the threads have ended."""
        self._stopped.set()
        with self._room:
            clients = list(self._clients)
            self._room.notify_all()
        for client in clients:
            client.close()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def take(self) -> Catch:
        """Return what came since the last call; never waits."""
        with self._room:
            catch = Catch(
                {agent: list(rows) for agent, rows in self._steps.items()},
                self._counts,
                self._dropped,
                self._episodes,
            )
            self._steps, self._counts, self._dropped, self._episodes = {}, {}, {}, []
            self._room.notify_all()
        return catch

    def _follow(self, kind: str) -> None:
        cursor: int | None = None if kind == "steps" else 0
        while not self._stopped.is_set():
            client = self._connect()
            with self._lock:
                self._clients.append(client)
            try:
                if cursor is None:
                    cursor = max(0, client.run(self.run_id).steps - self._steps_back)
                for following in self._pages(client, kind, cursor):
                    cursor = following
                    self.problem = ""
                    if self._stopped.is_set():
                        return
            except (errors.DaemonError, errors.RunNotFound, ValueError) as error:
                # ValueError: gRPC's word for a channel that stop() closed meanwhile.
                self.problem = str(error)
            finally:
                with self._lock:
                    self._clients.remove(client)
                client.close()
            self._stopped.wait(RETRY_SECONDS)

    def _pages(self, client: DaemonClient, kind: str, cursor: int) -> Iterator[int]:
        """Take in one page after the other, and yield where to go on after each."""
        if kind == "steps":
            for page in client.stream_steps(self.run_id, cursor=cursor):
                self._take_in_steps(page.columns)
                yield page.next_cursor
        else:
            for batch in client.stream_episodes(self.run_id, cursor=cursor):
                self._take_in_episodes([episode_row(episode) for episode in batch.episodes])
                yield batch.next_cursor

    def _take_in_steps(self, columns: Any) -> None:
        rows = newest_steps(columns, LIVE_STEP_QUEUE_SIZE)
        counts = steps_per_agent(columns)
        if not counts:
            return
        with self._lock:
            for agent, count in counts.items():
                queue = self._steps.setdefault(agent, deque(maxlen=LIVE_STEP_QUEUE_SIZE))
                fits = LIVE_STEP_QUEUE_SIZE - len(queue)
                self._dropped[agent] = self._dropped.get(agent, 0) + max(0, count - fits)
                self._counts[agent] = self._counts.get(agent, 0) + count
                queue.extend(rows[agent])
        self._arrived()

    def _take_in_episodes(self, rows: list[EpisodeRow]) -> None:
        if not rows:
            return
        with self._room:
            while len(self._episodes) >= EPISODES_AT_ONCE and not self._stopped.is_set():
                self._room.wait()
            self._episodes += rows
        self._arrived()
