"""Between the daemon's streams and the tabs: who gets what, how much of it, and from when on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from PyQt6.QtCore import QObject, pyqtSignal

from lanekit.slow.daemon_client import DaemonClient
from lanekit.viewer.live.credit_manager import INITIAL_CREDITS, CreditManager
from lanekit.viewer.live.feed import EPISODES_AT_ONCE, LIVE_STEP_QUEUE_SIZE, RunFeed
from lanekit.viewer.live.rows import EpisodeRow, StepRow

RECENT_EPISODES = 100
"""How many episodes the mean return is of."""


class LiveTab(Protocol):
    """What shows one agent of a run."""

    def add_steps(self, rows: Sequence[StepRow], missed: int) -> None:
        """Show steps; `missed` more came since the last call and are only in the store."""

    def add_episodes(self, rows: Sequence[EpisodeRow]) -> None:
        """Show finished episodes."""


@dataclass(frozen=True, slots=True)
class RunStats:
    """A run in numbers, since it was subscribed to."""

    steps: int
    episodes: int
    mean_return: float | None
    """Of the last 100 episodes."""
    missed_on_screen: int


@dataclass(slots=True)
class _Agent:
    tab: LiveTab | None = None
    steps: deque[StepRow] = field(default_factory=lambda: deque(maxlen=LIVE_STEP_QUEUE_SIZE))
    episodes: deque[EpisodeRow] = field(default_factory=lambda: deque(maxlen=EPISODES_AT_ONCE))
    missed: int = 0


@dataclass(slots=True)
class _Run:
    feed: RunFeed
    agents: dict[str, _Agent] = field(default_factory=dict)
    returns: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_EPISODES))
    steps: int = 0
    episodes: int = 0
    missed: int = 0


class LiveTelemetryController(QObject):
    """Subscribes to runs in the background and serves tabs in the window's thread.

    The first event of an agent asks for a tab (`run_tab_requested`); what comes until it registers
    is kept for it. Then each step costs a credit, which the tab gives back when it has shown it.
    """

    run_tab_requested = pyqtSignal(str, str, str)
    """Run, agent, the tab's name."""
    telemetry_stats_updated = pyqtSignal(str, object)
    """Run, :class:`RunStats`."""
    run_completed = pyqtSignal(str)
    _arrived = pyqtSignal(str)

    def __init__(
        self,
        connect: Callable[[], DaemonClient],
        *,
        credit_manager: CreditManager | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._connect = connect
        self.credit_manager = credit_manager or CreditManager(parent=self)
        self._runs: dict[str, _Run] = {}
        self._announced: set[str] = set()
        # Emitted by the feeds' threads, so Qt queues it for this one; several arrivals are one.
        self._arrived.connect(self._deliver)

    @property
    def subscribed(self) -> frozenset[str]:
        """The runs that are followed."""
        return frozenset(self._runs)

    def subscribe_to_run(self, run_id: str) -> None:
        """Follow a run. One that is followed already is fine."""
        if run_id in self._runs:
            return
        feed = RunFeed(run_id, self._connect, lambda: self._announce(run_id))
        self._runs[run_id] = _Run(feed)
        feed.start()

    def unsubscribe_from_run(self, run_id: str) -> None:
        """Follow a run no more."""
        run = self._runs.pop(run_id, None)
        if run is None:
            return
        run.feed.stop()
        for agent_id in run.agents:
            self.credit_manager.close_stream(run_id, agent_id)

    def register_tab(self, run_id: str, agent_id: str, tab: LiveTab) -> None:
        """Serve a tab from now on, beginning with what was kept for it."""
        run = self._runs[run_id]
        agent = run.agents.setdefault(agent_id, _Agent())
        agent.tab = tab
        self.credit_manager.initialize_stream(run_id, agent_id)
        self.credit_manager.grant_credits(run_id, agent_id, INITIAL_CREDITS)
        self._serve(run_id, agent_id, run, agent)

    def unregister_tab(self, run_id: str, agent_id: str) -> None:
        """Serve a tab no more; its agent is counted on."""
        if run_id in self._runs and agent_id in self._runs[run_id].agents:
            self._runs[run_id].agents[agent_id].tab = None
            self.credit_manager.close_stream(run_id, agent_id)

    def give_back(self, run_id: str, agent_id: str, shown: int) -> None:
        """Take back the credits of steps that a tab has shown."""
        self.credit_manager.grant_credits(run_id, agent_id, shown)

    def run_ended(self, run_id: str) -> None:
        """Hear from whoever watches the list of runs that one is over."""
        if run_id in self._runs:
            self._deliver(run_id)
            self.run_completed.emit(run_id)

    def problem(self, run_id: str) -> str:
        """Return why nothing comes of a run; empty while all is well."""
        run = self._runs.get(run_id)
        return "" if run is None else run.feed.problem

    def close(self) -> None:
        """Follow nothing any more."""
        for run_id in list(self._runs):
            self.unsubscribe_from_run(run_id)

    def _announce(self, run_id: str) -> None:
        if run_id not in self._announced:
            self._announced.add(run_id)
            self._arrived.emit(run_id)

    def _deliver(self, run_id: str) -> None:
        # First, so that what arrives from here on is announced again.
        self._announced.discard(run_id)
        run = self._runs.get(run_id)
        if run is None:
            return
        catch = run.feed.take()
        for agent_id, count in catch.step_counts.items():
            agent = self._agent(run_id, run, agent_id)
            missed = catch.dropped.get(agent_id, 0)
            rows = catch.steps.get(agent_id, [])
            missed += max(0, len(agent.steps) + len(rows) - LIVE_STEP_QUEUE_SIZE)
            agent.steps.extend(rows)
            agent.missed += missed
            run.missed += missed
            run.steps += count
        for row in catch.episodes:
            self._agent(run_id, run, row.agent_id).episodes.append(row)
            run.episodes += 1
            if row.episode_return is not None:
                run.returns.append(row.episode_return)
        for agent_id, agent in run.agents.items():
            self._serve(run_id, agent_id, run, agent)
        mean = sum(run.returns) / len(run.returns) if run.returns else None
        stats = RunStats(run.steps, run.episodes, mean, run.missed)
        self.telemetry_stats_updated.emit(run_id, stats)

    def _agent(self, run_id: str, run: _Run, agent_id: str) -> _Agent:
        agent = run.agents.get(agent_id)
        if agent is None:
            agent = run.agents[agent_id] = _Agent()
            name = f"{run_id} · {agent_id}" if agent_id else run_id
            self.run_tab_requested.emit(run_id, agent_id, name)
        return agent

    def _serve(self, run_id: str, agent_id: str, run: _Run, agent: _Agent) -> None:
        if agent.tab is None:
            return
        if agent.episodes:
            rows = list(agent.episodes)
            agent.episodes.clear()
            agent.tab.add_episodes(rows)
        if agent.steps or agent.missed:
            waiting = list(agent.steps)
            allowed = self.credit_manager.consume_credits(run_id, agent_id, len(waiting))
            agent.steps.clear()
            # The newest are shown; what the credits do not cover stays in the store only.
            shown = waiting[len(waiting) - allowed :]
            refused = len(waiting) - len(shown)
            run.missed += refused
            missed, agent.missed = agent.missed + refused, 0
            agent.tab.add_steps(shown, missed)
