"""One run's committed steps and episodes, fetched from the daemon in threads of their own.

Steps are for looking at: of those that the window has not taken yet the newest of each agent are
kept, the others are counted. Episodes make the curves, so none is dropped: when the window is
behind, the thread waits, and the daemon simply sends later.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lanekit import errors
from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.display_rows import (
    AgentSteps,
    EpisodeBlock,
    StepRow,
    episode_block,
    steps_by_agent,
)
from lanekit.viewer.live.history import LIVE_STEP_QUEUE_SIZE, RECENT_REWARDS

EPISODES_AT_ONCE = 4096
"""Most episodes that wait for the window, but for one page of the daemon's."""
RETRY_SECONDS = 1.0

_Kind = Literal["steps", "episodes"]


@dataclass(slots=True)
class StepCatch:
    """One agent's steps that came since the feed was asked last."""

    count: int = 0
    newest: deque[StepRow] = field(default_factory=lambda: deque(maxlen=LIVE_STEP_QUEUE_SIZE))
    rewards: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))

    def take_in(self, steps: AgentSteps) -> None:
        """Add the next ones."""
        self.count += steps.count
        self.newest.extend(steps.newest)
        self.rewards = np.concatenate((self.rewards, steps.rewards))[-RECENT_REWARDS:]


@dataclass(slots=True)
class Catch:
    """What a feed has gathered since it was asked last."""

    steps: dict[str, StepCatch] = field(default_factory=dict)
    episodes: list[EpisodeBlock] = field(default_factory=list)


class RunFeed:
    """Follows one run, from the last 64 steps and the first episode on.

    Of some more steps it brings the rewards, so that a curve of them does not begin empty.
    `arrived` is called from the feed's threads whenever there is something to take, or when
    :attr:`problem` changed.
    """

    def __init__(
        self,
        run_id: str,
        connect: Callable[[], DaemonClient],
        arrived: Callable[[], None],
    ) -> None:
        self.run_id = run_id
        self.steps_before: int | None = None
        """How many steps of the run are older than the first that came; None until it is known."""
        self._connect = connect
        self._arrived = arrived
        self._problems: dict[_Kind, str] = {"steps": "", "episodes": ""}
        self._room = threading.Condition()
        self._catch = Catch()
        self._stopped = threading.Event()
        self._clients: set[DaemonClient] = set()
        kinds: tuple[_Kind, ...] = ("steps", "episodes")
        self._threads = [
            threading.Thread(target=self._follow, args=(kind,), daemon=True, name=f"feed-{kind}")
            for kind in kinds
        ]

    @property
    def problem(self) -> str:
        """Why nothing comes, in words; empty while all is well."""
        return self._problems["episodes"] or self._problems["steps"]

    @property
    def running(self) -> bool:
        """Whether a thread of it is alive."""
        return any(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        """Begin to fetch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop fetching; returns at once, :meth:`join` waits until the threads have ended."""
        with self._room:
            self._stopped.set()
            clients = list(self._clients)
            self._room.notify_all()
        for client in clients:
            client.close()

    def join(self) -> None:
        """Wait until the threads have ended."""
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def take(self) -> Catch:
        """Return what came since the last call; never waits for the daemon."""
        with self._room:
            catch, self._catch = self._catch, Catch()
            self._room.notify_all()
        return catch

    def _follow(self, kind: _Kind) -> None:
        cursor = None if kind == "steps" else 0
        while not self._stopped.is_set():
            try:
                for following in self._pages(kind, cursor):
                    cursor = following
                    if self._stopped.is_set():
                        return
            except (errors.LanekitError, ValueError, OSError) as error:
                # ValueError: also gRPC's word for a channel that stop() closed meanwhile.
                self._tell(kind, str(error))
            self._stopped.wait(RETRY_SECONDS)

    def _pages(self, kind: _Kind, cursor: int | None) -> Iterator[int]:
        """Take in one page after the other, and yield where to go on after each."""
        client = self._connect()
        try:
            with self._room:
                self._clients.add(client)
                if self._stopped.is_set():
                    return
            # A stream that has nothing to send says nothing; an answer says that all is well.
            steps = client.run(self.run_id).steps
            self._tell(kind, "")
            if cursor is None:
                self.steps_before = max(0, steps - LIVE_STEP_QUEUE_SIZE)
                cursor = max(0, steps - RECENT_REWARDS)
                yield cursor
            if kind == "steps":
                for page in client.stream_steps(self.run_id, cursor=cursor):
                    before = self.steps_before or 0
                    self._take_in_steps(
                        steps_by_agent(page.columns, cursor, LIVE_STEP_QUEUE_SIZE, before)
                    )
                    cursor = page.next_cursor
                    yield cursor
            else:
                for batch in client.stream_episodes(self.run_id, cursor=cursor):
                    self._take_in_episodes(episode_block(batch.episodes))
                    yield batch.next_cursor
        finally:
            with self._room:
                self._clients.discard(client)
            client.close()

    def _take_in_steps(self, steps: dict[str, AgentSteps]) -> None:
        if steps:
            with self._room:
                for agent, new in steps.items():
                    self._catch.steps.setdefault(agent, StepCatch()).take_in(new)
            self._arrived()

    def _take_in_episodes(self, block: EpisodeBlock) -> None:
        if len(block):
            with self._room:
                self._room.wait_for(
                    lambda: self._stopped.is_set()
                    or sum(map(len, self._catch.episodes)) < EPISODES_AT_ONCE
                )
                self._catch.episodes.append(block)
            self._arrived()

    def _tell(self, kind: _Kind, problem: str) -> None:
        if self._problems[kind] != problem and not self._stopped.is_set():
            self._problems[kind] = problem
            self._arrived()
