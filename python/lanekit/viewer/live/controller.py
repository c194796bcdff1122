"""Between the daemon's streams and the tabs: who gets what, how much of it, and from when on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from PyQt6.QtCore import QObject, pyqtSignal

from lanekit.slow.daemon_client import DaemonClient
from lanekit.slow.display_rows import StepRow
from lanekit.viewer.live.credit_manager import INITIAL_CREDITS, CreditManager
from lanekit.viewer.live.feed import RunFeed
from lanekit.viewer.live.history import LIVE_STEP_QUEUE_SIZE, RunHistory

RECENT_EPISODES = 100
"""How many episodes the mean return is of."""

ALL_AGENTS: Final = "\0"
"""In place of an agent's id, which never holds such a character: every agent of the run."""


class LiveTab(Protocol):
    """What shows one agent of a run, or all."""

    def add_steps(self, rows: Sequence[StepRow], missed: int) -> None:
        """Show steps, the oldest first; `missed` more are only in the store."""

    def history_grew(self) -> None:
        """Look at the run's history again: episodes, rewards or agents were added."""


@dataclass(frozen=True, slots=True)
class RunStats:
    """A run in numbers."""

    steps: int
    """Committed so far, those from before it was followed included."""
    episodes: int
    mean_return: float | None
    """Of the last 100 episodes."""


@dataclass(slots=True)
class _Audience:
    """A tab, and what waits for its credits."""

    agent_id: str
    account: str
    tab: LiveTab
    waiting: deque[StepRow] = field(default_factory=lambda: deque(maxlen=LIVE_STEP_QUEUE_SIZE))
    missed: int = 0

    def wants(self, agent_id: str) -> bool:
        return self.agent_id in (ALL_AGENTS, agent_id)

    def take_in(self, rows: Sequence[StepRow], count: int) -> None:
        """Queue the newest of `count` steps, in place of the oldest if there are too many."""
        self.missed += max(0, len(self.waiting) + count - LIVE_STEP_QUEUE_SIZE)
        self.waiting.extend(rows)


class _Bell(QObject):
    """Calls the window's thread to what a feed's threads have brought; several calls are one.

    The threads keep it, so that there is something to ring also when the controller has gone.
    """

    rang = pyqtSignal(str)

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self._run_id = run_id
        self._ringing = False

    def ring(self) -> None:
        """Call, in any thread."""
        if not self._ringing:
            self._ringing = True
            self.rang.emit(self._run_id)

    def was_heard(self) -> None:
        """Be ready to be rung again."""
        self._ringing = False


@dataclass(slots=True)
class _Run:
    feed: RunFeed
    bell: _Bell
    history: RunHistory = field(default_factory=RunHistory)
    audiences: list[_Audience] = field(default_factory=list)
    requested: set[str] = field(default_factory=set)
    problem: str = ""
    ending: str | None = None
    """The state in which it ended; None while it has not."""


class LiveTelemetryController(QObject):
    """Subscribes to runs in the background and serves tabs in the window's thread.

    The first event of an agent asks for a tab (`run_tab_requested`); whenever one registers, it
    begins with all episodes and the newest steps. Each step costs a credit, which the tab gives
    back when it has shown it.
    """

    run_tab_requested = pyqtSignal(str, str, str)
    """Run, agent, the tab's name."""
    telemetry_stats_updated = pyqtSignal(str, object)
    """Run, :class:`RunStats`."""
    run_completed = pyqtSignal(str)
    problem_changed = pyqtSignal(str, str)
    """Run, why nothing comes of it; empty when all is well again."""

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
        self._ending: list[RunFeed] = []
        self._accounts = 0

    @property
    def subscribed(self) -> frozenset[str]:
        """The runs that are followed."""
        return frozenset(self._runs)

    def subscribe_to_run(self, run_id: str) -> None:
        """Follow a run. One that is followed already is fine."""
        if run_id in self._runs:
            return
        bell = _Bell(run_id)
        bell.rang.connect(self._deliver)
        feed = RunFeed(run_id, self._connect, bell.ring)
        self.destroyed.connect(feed.stop)  # if nobody closes it before
        self._runs[run_id] = _Run(feed, bell)
        feed.start()

    def unsubscribe_from_run(self, run_id: str) -> None:
        """Follow a run no more. Its threads end by themselves, nobody waits for them here."""
        run = self._runs.pop(run_id, None)
        if run is None:
            return
        self.destroyed.disconnect(run.feed.stop)
        run.feed.stop()
        self._ending = [feed for feed in (*self._ending, run.feed) if feed.running]
        for audience in run.audiences:
            self.credit_manager.close_stream(run_id, audience.account)

    def register_tab(self, run_id: str, agent_id: str, tab: LiveTab) -> str:
        """Serve a tab from now on, beginning with what is there; return its credit account.

        `agent_id` may be :data:`ALL_AGENTS`. An agent may have several tabs.
        """
        self.subscribe_to_run(run_id)
        run = self._runs[run_id]
        self._accounts += 1
        taken = {audience.account for audience in run.audiences}
        account = agent_id if agent_id not in taken else f"{agent_id}\0{self._accounts}"
        audience = _Audience(agent_id, account, tab)
        run.audiences.append(audience)
        self.credit_manager.initialize_stream(run_id, account)
        self.credit_manager.grant_credits(run_id, account, INITIAL_CREDITS)
        agents = [agent for name, agent in run.history.agents.items() if audience.wants(name)]
        newest = (row for agent in agents for row in agent.newest_steps)
        rows = sorted(newest, key=_position)[-LIVE_STEP_QUEUE_SIZE:]
        audience.take_in(rows, sum(agent.steps for agent in agents))
        tab.history_grew()
        self._serve(run_id, audience)
        return account

    def unregister_tab(self, run_id: str, tab: LiveTab) -> None:
        """Serve a tab no more; its run is followed on."""
        run = self._runs.get(run_id)
        for audience in list(run.audiences) if run is not None else ():
            if run is not None and audience.tab is tab:
                run.audiences.remove(audience)
                self.credit_manager.close_stream(run_id, audience.account)

    def give_back(self, run_id: str, account: str, shown: int) -> None:
        """Take back the credits of steps that a tab has shown, and serve what waited for them."""
        self.credit_manager.grant_credits(run_id, account, shown)
        run = self._runs.get(run_id)
        for audience in run.audiences if run is not None else ():
            if audience.account == account and audience.waiting:
                self._serve(run_id, audience)

    def history(self, run_id: str) -> RunHistory:
        """Return what is known of a run; nothing, if it is not followed."""
        run = self._runs.get(run_id)
        return RunHistory() if run is None else run.history

    def run_ended(self, run_id: str, ending: str = "completed") -> None:
        """Hear from whoever watches the list of runs that one is over, and in which state."""
        if run_id in self._runs:
            self._deliver(run_id)
            self._runs[run_id].ending = ending
            self.run_completed.emit(run_id)

    def ending(self, run_id: str) -> str | None:
        """Return the state in which a run ended, as :meth:`run_ended` heard; None: it goes on."""
        return self._runs[run_id].ending if run_id in self._runs else None

    def problem(self, run_id: str) -> str:
        """Return why nothing comes of a run; empty while all is well."""
        run = self._runs.get(run_id)
        return "" if run is None else run.problem

    def close(self) -> None:
        """Follow nothing any more; returns when all threads have ended."""
        for run_id in list(self._runs):
            self.unsubscribe_from_run(run_id)
        for feed in self._ending:
            feed.join()
        self._ending.clear()

    def _deliver(self, run_id: str) -> None:
        run = self._runs.get(run_id)
        if run is None:
            return
        run.bell.was_heard()  # first, so that it rings again for what arrives from here on
        if run.problem != run.feed.problem:
            run.problem = run.feed.problem
            self.problem_changed.emit(run_id, run.problem)
        catch = run.feed.take()
        if not catch.steps and not catch.episodes:
            return
        for block in catch.episodes:
            run.history.add_episodes(block)
        for agent_id, steps in catch.steps.items():
            run.history.add_steps(agent_id, steps.count, list(steps.newest), steps.rewards)
        for audience in run.audiences:
            wanted = [steps for name, steps in catch.steps.items() if audience.wants(name)]
            rows = sorted((row for steps in wanted for row in steps.newest), key=_position)
            audience.take_in(rows[-LIVE_STEP_QUEUE_SIZE:], sum(steps.count for steps in wanted))
            audience.tab.history_grew()
            self._serve(run_id, audience)
        self._request_tabs(run_id, run)
        history = run.history
        steps_so_far = (run.feed.steps_before or 0) + history.steps
        stats = RunStats(steps_so_far, history.episodes, history.mean_return(RECENT_EPISODES))
        self.telemetry_stats_updated.emit(run_id, stats)

    def _request_tabs(self, run_id: str, run: _Run) -> None:
        for agent_id in list(run.history.agent_names):
            if agent_id not in run.requested:
                run.requested.add(agent_id)
                name = f"{run_id} · {agent_id}" if agent_id else run_id
                self.run_tab_requested.emit(run_id, agent_id, name)

    def _serve(self, run_id: str, audience: _Audience) -> None:
        """Hand over as many as the credits cover; the others wait, and the oldest give way."""
        waiting = audience.waiting
        allowed = self.credit_manager.consume_credits(run_id, audience.account, len(waiting))
        rows = [waiting.popleft() for _ in range(allowed)]
        missed, audience.missed = audience.missed, 0
        if rows or missed:
            audience.tab.add_steps(rows, missed)


def _position(row: StepRow) -> int:
    return row.position
