"""The tab that shows a run's numbers live: curves, episodes, steps."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6 import sip
from PyQt6.QtCore import QObject, QSize, Qt
from PyQt6.QtGui import QCloseEvent, QResizeEvent
from PyQt6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from lanekit.slow.display_rows import StepRow
from lanekit.viewer.live.controller import ALL_AGENTS, LiveTelemetryController
from lanekit.viewer.live.curve import Curve
from lanekit.viewer.live.history import AgentHistory
from lanekit.viewer.live.legend import Legend
from lanekit.viewer.live.plot import CurvePlot
from lanekit.viewer.live.rendering_speed_regulator import RenderingSpeedRegulator
from lanekit.viewer.live.series import Series
from lanekit.viewer.live.smoothing import SmoothingSlider
from lanekit.viewer.live.status import LiveStatus
from lanekit.viewer.live.status_line import ProblemBanner, StatusLine
from lanekit.viewer.live.table_models import ONLY_AGENT, EpisodeTableModel, StepTableModel
from lanekit.viewer.live.table_view import NewestFirstView

ROOM_FOR_ALL = 500
"""A tab that is less high has one plot instead of three."""
ROOM_FOR_TABLES = 330
"""One that is less high than this has no tables."""
MOST_CURVES = 16
"""How many agents are drawn at once; more would be neither told apart nor drawn in time."""


class _Leaving(QObject):
    """Leaves the controller for a tab, also for one that is destroyed without a word.

    It belongs to the controller: what belongs to the tab has gone by then.
    """

    def __init__(self, tab: LiveTelemetryTab) -> None:
        super().__init__(tab.controller)
        self._tab: LiveTelemetryTab | None = tab

    def unregister(self) -> None:
        """Have the tab served no more. May be called twice."""
        tab, self._tab = self._tab, None
        if tab is not None:
            tab.controller.unregister_tab(tab.run_id, tab)
            if not sip.isdeleted(self):  # the controller may have gone first
                self.deleteLater()


class LiveTelemetryTab(QWidget):
    """One agent of a run, or with `agent_id` :data:`ALL_AGENTS` every agent, and a choice of them.

    What comes is drawn ten times a second, at whatever rate it comes.
    """

    def __init__(
        self,
        run_id: str,
        agent_id: str,
        controller: LiveTelemetryController,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.run_id = run_id
        self.agent_id = agent_id
        self.controller = controller
        self.status = LiveStatus(self)
        self.steps = StepTableModel(self)
        self.episodes = EpisodeTableModel(self)
        self.regulator = RenderingSpeedRegulator(parent=self)
        self.regulator.payload_ready.connect(self._show_news)
        self._waiting: list[StepRow] = []
        self._missed = 0
        self._news = 0
        self._left = False
        self._build()
        credit = controller.credit_manager
        self._account = ""
        credit.starved.connect(self._starved)
        credit.resumed.connect(self._resumed)
        controller.problem_changed.connect(self._problem_changed)
        controller.run_completed.connect(self._run_completed)
        self._account = controller.register_tab(run_id, agent_id, self)
        self._leaving = _Leaving(self)
        self.destroyed.connect(self._leaving.unregister)
        self._history = controller.history(run_id)
        self.status.set_problem(controller.problem(run_id))
        self._run_completed(run_id)
        self.episodes.show_history(self._history, self.chosen_agent)
        self.regulator.start()

    @property
    def chosen_agent(self) -> str | None:
        """The one agent that is shown; None: all of them."""
        if self.agent_id != ALL_AGENTS:
            return self.agent_id
        chosen: str | None = self.choice.currentData()
        return chosen

    @property
    def plots(self) -> tuple[CurvePlot, CurvePlot, CurvePlot]:
        """The three plots."""
        return self.returns, self.lengths, self.rewards

    def choose_agent(self, agent_id: str | None) -> None:
        """Show one agent, or all."""
        self.choice.setCurrentIndex(self.choice.findData(agent_id))

    def add_steps(self, rows: Sequence[StepRow], missed: int) -> None:
        """Take steps, to be shown with the next picture."""
        self._waiting += rows
        self._missed += missed
        self.history_grew()

    def history_grew(self) -> None:
        """Draw the curves anew with the next picture."""
        self._news += 1
        self.regulator.submit_payload(self._news)

    def leave(self) -> None:
        """Take nothing more. May be called twice."""
        if not self._left:
            self._left = True
            self.regulator.stop()
            self._leaving.unregister()

    def closeEvent(self, event: QCloseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Leave the run."""
        self.leave()
        super().closeEvent(event)

    def resizeEvent(self, event: QResizeEvent | None) -> None:  # noqa: N802 - Qt's name
        """Where there is little room, show the returns alone."""
        self._tables.setVisible(self.height() >= ROOM_FOR_TABLES)
        self._lower_curves.setVisible(self.height() >= ROOM_FOR_ALL)
        super().resizeEvent(event)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Room for curves and tables."""
        return QSize(980, 720)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Small enough for half a window."""
        return QSize(320, 240)

    def _build(self) -> None:
        one_agent = self.agent_id not in ("", ALL_AGENTS)
        self.setWindowTitle(f"{self.run_id} · {self.agent_id}" if one_agent else self.run_id)
        self.choice = QComboBox(self)
        self.choice.addItem("All agents", None)
        self.choice.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.choice.setMaximumWidth(220)
        self.choice.setToolTip("Which agent's numbers are shown")
        self.choice.setVisible(False)
        self.choice.currentIndexChanged.connect(self._choose)
        self.legend = Legend(self)
        self.smoothing = SmoothingSlider(self)
        at_the_end = "A point comes with the end of each episode."
        self.returns = CurvePlot("Return", "episode", self, hint=at_the_end)
        self.lengths = CurvePlot("Length", "episode", self, hint=at_the_end)
        self.rewards = CurvePlot(
            "Reward of the last steps", "step", self, hint="A point comes with each step."
        )
        for plot in self.plots:
            plot.set_window_size(self.smoothing.window_size)
            self.smoothing.window_changed.connect(plot.set_window_size)
        top = QHBoxLayout()
        top.setSpacing(12)
        top.addWidget(self.choice)
        top.addWidget(self.legend, 1)
        top.addWidget(self.smoothing)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 8)
        layout.setSpacing(8)
        layout.addWidget(ProblemBanner(self.status, self))
        layout.addLayout(top)
        layout.addWidget(self._curves_and_tables(), 1)
        layout.addWidget(StatusLine(self.status, self))

    def _curves_and_tables(self) -> QSplitter:
        curves, self._lower_curves = QWidget(self), QWidget(self)
        lower, column = QHBoxLayout(self._lower_curves), QVBoxLayout(curves)
        for layout in (lower, column):
            layout.setContentsMargins(0, 0, 0, 0)
            layout.setSpacing(8)
        lower.addWidget(self.lengths, 1)
        lower.addWidget(self.rewards, 1)
        column.addWidget(self.returns, 5)
        column.addWidget(self._lower_curves, 4)
        self.episode_view = NewestFirstView(self.episodes, self)
        self.step_view = NewestFirstView(self.steps, self)
        for view in (self.episode_view, self.step_view):
            view.show_agents(False)  # until there are several
        tables = self._tables = QSplitter(Qt.Orientation.Horizontal, self)
        self._captions = QLabel("Episodes", self), QLabel("Steps", self)
        for caption, view in zip(self._captions, (self.episode_view, self.step_view), strict=True):
            tables.addWidget(_captioned(caption, view))
        tables.setSizes([380, 580])
        whole = QSplitter(Qt.Orientation.Vertical, self)
        whole.addWidget(curves)
        whole.addWidget(tables)
        whole.setSizes([430, 240])
        for splitter in (tables, whole):
            splitter.setHandleWidth(8)
        return whole

    def _show_news(self) -> None:
        """Show what came since the last picture, and give the credits back."""
        self._offer_agents(self._history.agent_names)
        rows, missed, self._waiting, self._missed = self._waiting, self._missed, [], 0
        self.steps.add(rows)
        self.episodes.grow()
        self.status.add_steps(len(rows), missed)
        self.status.set_episodes(self.episodes.rowCount())
        self._tell_counts()
        self._draw_curves()
        if rows and not self._left:
            self.controller.give_back(self.run_id, self._account, len(rows))

    def _tell_counts(self) -> None:
        episodes, steps = self._captions
        ended, shown = self.episodes.total, self.steps.rowCount()
        episodes.setText(f"Episodes · {ended:,}" if ended else "Episodes")
        steps.setText(f"Steps · the newest {shown:,}" if shown else "Steps")

    def _draw_curves(self) -> None:
        history, chosen = self._history, self.chosen_agent
        agents = [
            (name if chosen is None else "", number, history.agents[name])
            for number, name in enumerate(history.agent_names)
            if chosen in (None, name)
        ]
        drawn = agents[:MOST_CURVES]
        if chosen is None:
            drawn = [(name or ONLY_AGENT, number, agent) for name, number, agent in drawn]
        self.returns.set_curves([Curve(*agent[:2], agent[2].returns) for agent in drawn])
        self.lengths.set_curves([Curve(*agent[:2], agent[2].lengths) for agent in drawn])
        self.rewards.set_curves([_reward_curve(*agent) for agent in drawn])
        named = self.returns.curves if len(agents) > 1 else []
        self.legend.set_curves(named, len(agents) - len(drawn))

    def _offer_agents(self, names: Sequence[str]) -> None:
        for name in names[self.choice.count() - 1 :]:
            self.choice.addItem(name or ONLY_AGENT, name)
        several = self.agent_id == ALL_AGENTS and len(names) > 1
        self.choice.setVisible(several)
        for view in (self.episode_view, self.step_view):
            view.show_agents(several and self.chosen_agent is None)

    def _choose(self) -> None:
        chosen = self.chosen_agent
        self.steps.show_agent(chosen)
        self.episodes.show_history(self._history, chosen)
        for view in (self.episode_view, self.step_view):
            view.show_agents(chosen is None)
        self._tell_counts()
        self._draw_curves()

    def _starved(self, run_id: str, account: str) -> None:
        if (run_id, account) == (self.run_id, self._account):
            self.status.set_starved(True)

    def _resumed(self, run_id: str, account: str) -> None:
        if (run_id, account) == (self.run_id, self._account):
            self.status.set_starved(False)

    def _problem_changed(self, run_id: str, problem: str) -> None:
        if run_id == self.run_id:
            self.status.set_problem(problem)

    def _run_completed(self, run_id: str) -> None:
        ending = self.controller.ending(run_id)
        if run_id == self.run_id and ending is not None:
            self.status.set_ended(ending)


def _reward_curve(name: str, number: int, agent: AgentHistory) -> Curve:
    """Return the curve of the last rewards; it ends with the newest step that came."""
    return Curve(name, number, Series(agent.rewards), 1 - len(agent.rewards))


def _captioned(caption: QLabel, view: NewestFirstView) -> QWidget:
    caption.setObjectName("quiet")
    caption.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
    whole = QWidget()
    layout = QVBoxLayout(whole)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(4)
    layout.addWidget(caption)
    layout.addWidget(view, 1)
    return whole
