"""From a real daemon to tabs: what each gets, and that the store never waits for one."""

from __future__ import annotations

import sys
import threading
import tracemalloc
from collections.abc import Iterator, Sequence

import pytest
from pytestqt.qtbot import QtBot
from stored_runs import (
    RUN,
    SLOW_TESTS,
    DaemonProcess,
    Sender,
    connect_to,
    running_daemon,
)

from lanekit.slow.display_rows import StepRow
from lanekit.viewer.live.controller import ALL_AGENTS, LiveTelemetryController, RunStats
from lanekit.viewer.live.credit_manager import INITIAL_CREDITS
from lanekit.viewer.live.history import LIVE_STEP_QUEUE_SIZE
from patience import patience_ms, until


class Tab:
    """Writes down what it is given; gives credits back at once, if it is told to."""

    def __init__(self, controller: LiveTelemetryController, *, quick: bool = True) -> None:
        self.controller = controller
        self.quick = quick
        self.account = ""
        self.shown: list[StepRow] = []
        self.missed = 0
        self.looks = 0

    def register(self, agent: str) -> Tab:
        self.account = self.controller.register_tab(RUN, agent, self)
        if self.quick:
            self.give_back()
        return self

    def add_steps(self, rows: Sequence[StepRow], missed: int) -> None:
        self.shown += rows
        self.missed += missed
        if self.quick and self.account and rows:
            self.controller.give_back(RUN, self.account, len(rows))

    def history_grew(self) -> None:
        self.looks += 1

    def give_back(self) -> None:
        self.controller.give_back(RUN, self.account, INITIAL_CREDITS)

    @property
    def positions(self) -> list[int]:
        return [row.position for row in self.shown]

    @property
    def accounted(self) -> int:
        return len(self.shown) + self.missed


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    """A running daemon."""
    with running_daemon() as daemon:
        yield daemon


@pytest.fixture
def controller(qtbot: QtBot, daemon: DaemonProcess) -> Iterator[LiveTelemetryController]:
    """A controller that follows the run."""
    Sender(daemon)
    controller = LiveTelemetryController(lambda: connect_to(daemon))
    controller.subscribe_to_run(RUN)
    feed = controller._runs[RUN].feed
    until(lambda: feed.steps_before is not None)
    yield controller
    controller.close()
    assert not _feeding_threads()


def _feeding_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("feed-")]


def test_each_agent_asks_for_a_tab_once(
    qtbot: QtBot, daemon: DaemonProcess, controller: LiveTelemetryController
) -> None:
    asked: list[tuple[str, str, str]] = []
    controller.run_tab_requested.connect(lambda *what: asked.append(what))
    Sender(daemon).steps(4, ("", "b"))
    Sender(daemon).episodes(3, ("b", "c"))
    qtbot.waitUntil(lambda: len(asked) == 3, timeout=patience_ms())
    Sender(daemon).steps(4, ("", "b"))
    qtbot.waitUntil(lambda: controller.history(RUN).steps == 8, timeout=patience_ms())
    assert sorted(asked) == [(RUN, "", RUN), (RUN, "b", f"{RUN} · b"), (RUN, "c", f"{RUN} · c")]


def test_a_tab_that_registers_late_gets_the_newest_steps_and_every_episode(
    qtbot: QtBot, daemon: DaemonProcess, controller: LiveTelemetryController
) -> None:
    sender = Sender(daemon)
    sender.steps(1000)
    sender.episodes(25_000)
    history = controller.history(RUN)
    qtbot.waitUntil(
        lambda: (history.steps, history.episodes) == (1000, 25_000), timeout=patience_ms()
    )
    tab = Tab(controller).register("")
    assert tab.positions == list(range(1000 - LIVE_STEP_QUEUE_SIZE, 1000))
    assert tab.missed == 1000 - LIVE_STEP_QUEUE_SIZE
    assert tab.looks == 1
    assert history.episode.values.tolist() == list(range(25_000))
    assert history.agents[""].returns.values.tolist() == list(range(25_000))


def test_steps_shown_and_steps_missed_are_together_those_committed(
    qtbot: QtBot, daemon: DaemonProcess, controller: LiveTelemetryController
) -> None:
    agents = ("a", "b", "c")
    one = Tab(controller).register("a")
    every = Tab(controller).register(ALL_AGENTS)
    slow = Tab(controller, quick=False).register(ALL_AGENTS)
    sender = Sender(daemon)
    for _ in range(10):
        sender.steps(600, agents)
        qtbot.wait(5)
        slow.give_back()
    committed = sender.committed().steps
    assert committed == 6000
    qtbot.waitUntil(lambda: controller.history(RUN).steps == committed, timeout=patience_ms())
    slow.give_back()
    assert one.accounted == committed // 3
    assert every.accounted == slow.accounted == committed
    for tab in (one, every, slow):
        assert tab.positions == sorted(set(tab.positions))
        assert tab.positions[-1] >= committed - len(agents)


def test_a_tab_without_credits_starves_and_then_goes_on_with_the_newest(
    qtbot: QtBot, daemon: DaemonProcess, controller: LiveTelemetryController
) -> None:
    words: list[str] = []
    controller.credit_manager.starved.connect(lambda *_: words.append("starved"))
    controller.credit_manager.resumed.connect(lambda *_: words.append("resumed"))
    tab = Tab(controller, quick=False).register("")
    sender = Sender(daemon)
    expected = 0

    def all_came() -> bool:
        return controller.history(RUN).steps == expected

    for _ in range(20):
        sender.steps(50)
        expected += 50
        qtbot.waitUntil(all_came, timeout=patience_ms())
    assert len(tab.shown) == INITIAL_CREDITS
    assert words == ["starved"]
    assert tab.missed == 1000 - INITIAL_CREDITS - LIVE_STEP_QUEUE_SIZE
    tab.give_back()
    assert words == ["starved", "resumed"]
    assert tab.positions[-LIVE_STEP_QUEUE_SIZE:] == list(range(1000 - LIVE_STEP_QUEUE_SIZE, 1000))
    assert tab.accounted == 1000


def test_an_agent_may_have_two_tabs_and_one_of_them_may_leave(
    qtbot: QtBot, daemon: DaemonProcess, controller: LiveTelemetryController
) -> None:
    first, second = Tab(controller).register(""), Tab(controller).register("")
    assert first.account != second.account
    sender = Sender(daemon)
    sender.steps(10)
    qtbot.waitUntil(lambda: second.accounted == 10, timeout=patience_ms())
    controller.unregister_tab(RUN, first)
    sender.steps(10)
    qtbot.waitUntil(lambda: second.accounted == 20, timeout=patience_ms())
    assert first.accounted == 10


def test_the_run_is_told_in_numbers(
    qtbot: QtBot, daemon: DaemonProcess, controller: LiveTelemetryController
) -> None:
    told: list[RunStats] = []
    controller.telemetry_stats_updated.connect(lambda run, stats: told.append(stats))
    sender = Sender(daemon)
    sender.steps(500)
    sender.episodes(300)
    mean = sum(range(200, 300)) / 100
    expected = RunStats(500, 300, mean)
    qtbot.waitUntil(lambda: told[-1:] == [expected], timeout=patience_ms())


def test_the_steps_of_before_are_in_the_numbers_of_a_run_that_is_followed_late(
    qtbot: QtBot, daemon: DaemonProcess
) -> None:
    Sender(daemon).steps(5000)
    controller = LiveTelemetryController(lambda: connect_to(daemon))
    told: list[RunStats] = []
    controller.telemetry_stats_updated.connect(lambda run, stats: told.append(stats))
    controller.subscribe_to_run(RUN)
    qtbot.waitUntil(lambda: bool(told) and told[-1].steps == 5000, timeout=patience_ms())
    controller.close()


def test_a_daemon_that_is_away_is_told_and_its_return_too(
    qtbot: QtBot, daemon: DaemonProcess, controller: LiveTelemetryController
) -> None:
    told: list[str] = []
    controller.problem_changed.connect(lambda run, problem: told.append(problem))
    tab = Tab(controller).register("")
    sender = Sender(daemon)
    sender.steps(30)
    sender.episodes(30)
    qtbot.waitUntil(lambda: tab.accounted == 30, timeout=patience_ms())
    daemon.kill()
    qtbot.waitUntil(lambda: bool(told) and str(daemon.socket) in told[-1], timeout=patience_ms())
    assert controller.problem(RUN) == told[-1]
    daemon.start()
    sender.steps(30)
    sender.episodes(30)
    history = controller.history(RUN)
    qtbot.waitUntil(lambda: tab.accounted == 60 and history.episodes == 60, timeout=patience_ms())
    assert tab.positions == list(range(60))
    assert history.episode.values.tolist() == list(range(60))
    assert told[-1] == ""


def test_a_window_that_stands_still_does_not_hold_up_the_store(
    qtbot: QtBot, daemon: DaemonProcess, controller: LiveTelemetryController
) -> None:
    """A real worker prints through a real proxy while nobody turns the event loop."""
    tally = daemon.directory / "tally"
    tally.write_bytes(bytes(8))
    worker = [sys.executable, str(SLOW_TESTS / "numbered_worker.py"), "20000", "5000", str(tally)]
    tab = Tab(controller, quick=False)
    with connect_to(daemon) as client:
        client.submit_run(worker, run_id="worked")
        controller.subscribe_to_run("worked")
        controller.register_tab("worked", ALL_AGENTS, tab)
        qtbot.waitUntil(lambda: tab.accounted > 0, timeout=patience_ms())
        before, looks = client.run("worked").steps, tab.looks
        until(lambda: client.run("worked").steps >= min(before + 4000, 20_000))
        assert tab.looks == looks  # really: nothing was delivered meanwhile
        until(lambda: client.run("worked").steps == 20_000)
        # The worker may have begun before it was followed.
        followed = 20_000 - (controller._runs["worked"].feed.steps_before or 0)
        history = controller.history("worked")
        qtbot.waitUntil(lambda: history.steps == followed, timeout=patience_ms())
        controller.give_back("worked", ALL_AGENTS, INITIAL_CREDITS)
    assert tab.accounted == followed
    qtbot.waitUntil(lambda: controller.history("worked").episodes == 400, timeout=patience_ms())
    assert controller.history("worked").episode.values.tolist() == list(range(400))


def test_a_following_window_needs_no_more_memory_the_more_steps_there_were(
    qtbot: QtBot, daemon: DaemonProcess, controller: LiveTelemetryController
) -> None:
    tab = Tab(controller).register(ALL_AGENTS)
    sender = Sender(daemon)

    def follow(steps: int) -> int:
        sender.steps(steps, ("a", "b"))
        expected = sender.committed().steps
        qtbot.waitUntil(lambda: controller.history(RUN).steps == expected, timeout=patience_ms())
        tab.shown.clear()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        follow(5000)
        first = follow(5000)
        last = follow(40_000)
    finally:
        tracemalloc.stop()
    assert last - first < 500_000


def test_unsubscribing_ends_the_threads_and_nobody_waits_for_them(
    qtbot: QtBot, daemon: DaemonProcess, controller: LiveTelemetryController
) -> None:
    tab = Tab(controller).register("")
    controller.unsubscribe_from_run(RUN)
    assert controller.subscribed == frozenset()
    until(lambda: not _feeding_threads())
    Sender(daemon).steps(5)
    qtbot.wait(100)
    assert tab.accounted == 0
    controller.unregister_tab(RUN, tab)  # which comes too late, and does no harm
    controller.give_back(RUN, tab.account, 5)
    assert controller.credit_manager.credits(RUN, tab.account) == 0


def test_a_run_that_is_over_is_told_after_its_last_step_was_delivered(
    qtbot: QtBot, daemon: DaemonProcess, controller: LiveTelemetryController
) -> None:
    tab = Tab(controller).register("")
    Sender(daemon).steps(40)
    feed = controller._runs[RUN].feed
    until(lambda: sum(steps.count for steps in feed._catch.steps.values()) == 40)
    told: list[int] = []
    controller.run_completed.connect(lambda run: told.append(tab.accounted))
    controller.run_ended(RUN)
    controller.run_ended("another run")
    assert told == [40]


def test_a_tab_may_register_before_its_run_is_followed(qtbot: QtBot, daemon: DaemonProcess) -> None:
    Sender(daemon).steps(7)
    controller = LiveTelemetryController(lambda: connect_to(daemon))
    tab = Tab(controller).register("")
    qtbot.waitUntil(lambda: tab.accounted == 7, timeout=patience_ms())
    controller.close()


def test_nothing_is_delivered_to_a_closed_controller(qtbot: QtBot, daemon: DaemonProcess) -> None:
    Sender(daemon).steps(7)
    controller = LiveTelemetryController(lambda: connect_to(daemon))
    tab = Tab(controller).register("")
    feed = controller._runs[RUN].feed
    until(lambda: sum(steps.count for steps in feed._catch.steps.values()) == 7)
    controller.close()
    qtbot.wait(50)
    assert tab.accounted == 0
