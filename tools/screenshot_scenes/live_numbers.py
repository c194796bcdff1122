"""The live numbers of a run in their states."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PyQt6.QtCore import QPoint
from PyQt6.QtGui import QPixmap
from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QApplication

from lanekit.viewer.appearance import appearance
from lanekit.viewer.live.controller import ALL_AGENTS, LiveTelemetryController
from lanekit.viewer.live.tab import LiveTelemetryTab
from lanekit.viewer.window.theme import Choice, ThemeControl
from screenshot_scenes.live_run import wait_until
from screenshot_scenes.stored_run import StoredRun, stored_run

RUN = "ppo-cartpole-seed3"
AGENTS = ("red-team-leader", "red-team-scout", "blue-team", "referee")


@contextmanager
def _tab(run: StoredRun, agent: str, theme: Choice) -> Iterator[LiveTelemetryTab]:
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    control = ThemeControl()
    control.choose(theme)
    controller = LiveTelemetryController(run.connect)
    tab = LiveTelemetryTab(run.run_id, agent, controller)
    tab.resize(1080, 760)
    tab.show()
    QTest.mouseMove(tab, QPoint(4, 4))  # away from the curves
    try:
        yield tab
    finally:
        tab.close()
        controller.close()
        tab.deleteLater()
        application.setStyleSheet("")
        appearance().set_dark(True)
        QTest.qWait(1)


def _shown(tab: LiveTelemetryTab, episodes: int) -> None:
    wait_until(lambda: tab.episodes.rowCount() >= episodes and tab.steps.rowCount() > 0)
    QTest.qWait(250)


def _one_agent(theme: Choice) -> QPixmap:
    with stored_run(RUN) as run:
        run.learn(900, steps=400)
        with _tab(run, "", theme) as tab:
            _shown(tab, 900)
            tab.smoothing.slider.setValue(5)
            QTest.mouseMove(tab.returns, QPoint(560, 90))
            QTest.qWait(150)
            return tab.grab()


def dark() -> QPixmap:
    """Curves and tables of one agent."""
    return _one_agent("dark")


def light() -> QPixmap:
    """The same in the light theme."""
    return _one_agent("light")


def agents() -> QPixmap:
    """Several agents, a colour each."""
    with stored_run("battle-of-two-teams") as run:
        run.learn(700, AGENTS)
        with _tab(run, ALL_AGENTS, "dark") as tab:
            _shown(tab, 2800)
            return tab.grab()


def long_run() -> QPixmap:
    """A long run, light."""
    with stored_run(RUN) as run:
        run.learn(25_000, pace=25)
        with _tab(run, "", "light") as tab:
            _shown(tab, 25_000)
            tab.smoothing.slider.setValue(7)
            QTest.qWait(150)
            return tab.grab()


def starved() -> QPixmap:
    """Steps that come faster than they can be shown."""
    with stored_run(RUN) as run:
        run.learn(300)
        with _tab(run, "", "dark") as tab:
            _shown(tab, 300)
            while tab.status.state != "sampling":
                run.learn(3, steps=5000)
                QTest.qWait(30)
            QTest.qWait(300)
            return tab.grab()


def daemon_away() -> QPixmap:
    """A daemon that was ended: what came stays, and the reason is told."""
    with stored_run(RUN) as run:
        run.learn(500)
        with _tab(run, "", "dark") as tab:
            _shown(tab, 500)
            run.end_daemon()
            wait_until(lambda: "`lanekit daemon`" in tab.status.problem)
            QTest.qWait(200)
            return tab.grab()


def waiting() -> QPixmap:
    """A run without a step so far."""
    with stored_run(RUN) as run:
        run.learn(0, steps=0)
        with _tab(run, "", "dark") as tab:
            QTest.qWait(600)
            return tab.grab()


SCENES = {
    "live-dark": dark,
    "live-light": light,
    "live-agents": agents,
    "live-long-run": long_run,
    "live-starved": starved,
    "live-daemon-away": daemon_away,
    "live-waiting": waiting,
}
