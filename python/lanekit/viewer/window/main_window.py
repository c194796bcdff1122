"""The main window: the runs on the left, what they show in the middle, their log below."""

from __future__ import annotations

from PyQt6.QtCore import Qt, QTimer
from PyQt6.QtGui import QCloseEvent

from lanekit.errors import MissingExtra
from lanekit.slow.local_daemon import StartedDaemon, start_if_absent
from lanekit.viewer.window.background import Background
from lanekit.viewer.window.cancel_question import CancelQuestion
from lanekit.viewer.window.commands import ON_RUNS
from lanekit.viewer.window.daemon_access import DaemonAccess
from lanekit.viewer.window.daemon_status import DaemonStatus
from lanekit.viewer.window.daemon_watch import DaemonWatch
from lanekit.viewer.window.empty_state import EmptyState
from lanekit.viewer.window.guidance import Situation, tell_what_to_do
from lanekit.viewer.window.lane_watch import LaneWatch
from lanekit.viewer.window.log_pane import LogPane
from lanekit.viewer.window.memory import WindowMemory
from lanekit.viewer.window.menus import add_menus
from lanekit.viewer.window.other_windows import OtherWindows
from lanekit.viewer.window.page_opening import PageOpening
from lanekit.viewer.window.pages import MOST_IN_GRID
from lanekit.viewer.window.picture_tabs import PictureTabs
from lanekit.viewer.window.run_commands import RunCommands
from lanekit.viewer.window.run_form import RunForm
from lanekit.viewer.window.run_list import RunListPanel
from lanekit.viewer.window.run_list_model import RunListModel
from lanekit.viewer.window.run_row import RunRow
from lanekit.viewer.window.run_tabs import RunTabs
from lanekit.viewer.window.theme import Choice, ThemeControl
from lanekit.viewer.window.window_frame import WindowFrame

LIST_WIDTH = 440
LOG_HEIGHT = 190
TABS_AT_ONCE = 16
"""Most tabs that one command opens, whatever is selected."""
SELECTION_MS = 150
"""A pause in selecting after which the log follows."""


class MainWindow(WindowFrame):
    """Shows all runs, and does what people want done with them."""

    def __init__(self, access: DaemonAccess, memory: WindowMemory) -> None:
        super().__init__()
        self._access = access
        self._memory = memory
        self._situation: Situation | None = None
        self._answers = False
        self._reason = ""
        self.theme = ThemeControl(self)
        self.background = Background(access.connect, self)
        self.commands = RunCommands(self.background, self)
        self.runs = RunListModel()
        self.list = RunListPanel(self.runs, self)
        self.tabs = RunTabs(self)
        self.opening = PageOpening(
            self.tabs, access.connect, self, pictures=PictureTabs(access.connect_far)
        )
        self.others = OtherWindows(access)
        self.log = LogPane(access.connect, self)
        self.empty = EmptyState(self)
        self.daemon_status = DaemonStatus(
            str(access.target), self.actions_by_name["start_daemon"], self
        )
        self.form: RunForm | None = None
        self.daemon = DaemonWatch(access.connect, self)
        self.lanes = LaneWatch(self, connect=access.connect_far)
        self._lay_out()
        self._connect_signals()
        self._remember()
        self.daemon.start()
        self.lanes.start()
        self._tell_what_to_do()
        self._enable()

    # --- what people do ---------------------------------------------------------------------------

    def open_form(self) -> None:
        """Ask what to start."""
        if self.form is None:
            self.form = RunForm(self._access, self.background, self)
            self.form.submitted.connect(self._watch_new_run)
            self.form.finished.connect(self._forget_form)
            self.form.open()

    def open_run(self, run_id: str) -> None:
        """Show one run's picture and numbers together."""
        self.list.select(run_id)
        self.opening.open_both(run_id)

    def open_selected(self) -> None:
        """Show the selected run: its picture while it lives, its numbers afterwards."""
        for row in self.list.selected[:1]:
            may_live = row.state == "lost" and self.runs.is_published(row.run_id)
            if row.is_live or may_live:
                self.opening.open_picture(row.run_id)
            else:
                self._open_numbers_of(row)

    def open_pictures(self) -> None:
        """Watch the selected runs, each in a tab."""
        for row in self.list.selected[:TABS_AT_ONCE]:
            self.opening.open_picture(row.run_id)

    def open_numbers(self) -> None:
        """Follow the numbers of the selected runs, each in a tab."""
        for row in self.list.selected[:TABS_AT_ONCE]:
            if row.on_daemon:
                self._open_numbers_of(row)

    def open_replay(self) -> None:
        """Look at the stored episodes of the selected run."""
        for row in self.list.selected[:1]:
            self.others.open_replay(row.run_id)

    def open_side_by_side(self) -> None:
        """Watch the selected runs in one grid; with less than two, all that live."""
        chosen = [row.run_id for row in self.list.selected]
        if len(chosen) < 2:
            lines = map(self.runs.shown, range(self.runs.rowCount()))
            chosen = [row.run_id for row in lines if row.is_live]
        if len(chosen) > MOST_IN_GRID:
            self.say(f"{MOST_IN_GRID} of {len(chosen)} runs are shown; more would be too small")
        if chosen:
            self.opening.open_grid(chosen)

    def open_play(self) -> None:
        """Play an environment from the keyboard."""
        try:
            self.others.open_play()
        except MissingExtra as error:
            self.say(str(error))

    def control(self, name: str) -> None:
        """Have the selected runs paused, stopped and so on."""
        rows = [row for row in self.list.selected if name in row.actions]
        if name != "cancel":
            self.commands.send(name, rows)
            return
        question = CancelQuestion(rows, self)
        question.agreed.connect(self.commands.cancel)
        question.open()

    def control_as_told(self) -> None:
        """Have done with the selected runs what the command that calls this is named after."""
        command = self.sender()
        assert command is not None
        self.control(command.objectName())

    def toggle_list(self) -> None:
        """Show or hide the list of runs."""
        self.list_dock.setVisible(not self.list_dock.isVisible())

    def toggle_log(self) -> None:
        """Show or hide the log."""
        self.log_dock.setVisible(not self.log_dock.isVisible())

    def start_daemon(self) -> None:
        """Start a daemon on this machine."""
        self.daemon_status.tell_starting()
        path, token_file = self._access.target.path, self._access.token_file
        self.background.run(
            lambda: start_if_absent(path, token_file),
            self._tell_started,
            self._tell_not_started,
        )

    def choose_theme(self, choice: Choice) -> None:
        """Look dark, light, or as the system does."""
        self.theme.choose(choice)
        self._memory.theme = choice

    def closeEvent(self, event: QCloseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Remember how things are, and leave every run; the runs themselves go on."""
        self._memory.pages = [page.key for page in self.tabs.pages]
        self._memory.set_bytes("geometry", self.saveGeometry())
        self._memory.set_bytes("places", self.saveState())
        self._memory.shows_archived = self.list.archived.isChecked()
        self._memory.save()
        self.tabs.close_all()
        self.others.close()
        self.daemon.stop()
        self.lanes.stop()
        self.log.close_feeds()
        self.opening.close()
        self.background.close()
        super().closeEvent(event)

    # --- what is heard ----------------------------------------------------------------------------

    def _open_numbers_of(self, row: RunRow) -> None:
        self.opening.open_numbers(row.run_id)
        if not row.is_live:
            self.opening.controller.run_ended(row.run_id, row.state)

    def _take_runs(self, runs: list[RunRow]) -> None:
        before = {run.run_id: self.runs.row(run.run_id) for run in runs}
        self.runs.take(runs)
        for run_id, row in before.items():
            now = self.runs.row(run_id)
            if row is not None and row.is_live and now is not None and not now.is_live:
                self.opening.controller.run_ended(run_id, now.state)
        self._after_change()

    def _take_all_runs(self, runs: list[RunRow]) -> None:
        self.runs.take_all(runs)
        for run_id in self.opening.controller.subscribed:
            row = self.runs.row(run_id)
            if row is not None and not row.is_live:
                self.opening.controller.run_ended(run_id, row.state)
        self._after_change()

    def _take_lanes(self, lanes: dict[str, int]) -> None:
        self.runs.take_lanes(lanes)
        self._after_change()

    def _take_daemon(self, answers: bool, reason: str) -> None:
        self._answers, self._reason = answers, reason
        self.daemon_status.tell(answers, reason, can_start=self._access.can_start)
        self.actions_by_name["start_daemon"].setEnabled(not answers and self._access.can_start)
        self._tell_what_to_do()

    def _after_change(self) -> None:
        self._enable()
        self._show_log()
        self._tell_what_to_do()

    def _select(self) -> None:
        self._enable()
        self._selecting.start()

    def _show_log(self) -> None:
        selected = self.list.selected
        self.log.show_run(selected[0] if selected else None)

    def _watch_new_run(self, run_id: str) -> None:
        self.say(f"{run_id} was submitted")
        self.list.search.clear()
        self.list.select(run_id)
        self.opening.open_picture(run_id)

    def _forget_form(self) -> None:
        if self.form is not None:
            self.form.deleteLater()
            self.form = None

    def _tell_started(self, started: StartedDaemon | None) -> None:
        if started is None:
            self.say("a daemon listens already")
        else:
            self.say(f"started a daemon, process {started.pid}; its log is {started.log}")

    def _tell_not_started(self, reason: str) -> None:
        self.daemon_status.tell(False, reason, can_start=self._access.can_start)
        self.say("no daemon could be started")

    def _enable(self) -> None:
        rows = self.list.selected
        act = self.actions_by_name
        possible = {name for row in rows for name in row.actions}
        act["unarchive"].setVisible("unarchive" in possible)
        for name in ON_RUNS:
            act[name].setEnabled(name in possible)
        act["picture"].setEnabled(bool(rows))
        act["numbers"].setEnabled(any(row.on_daemon for row in rows))
        act["replay"].setEnabled(
            len(rows) == 1 and rows[0].on_daemon and self._access.can_read_store
        )
        act["side_by_side"].setEnabled(self.runs.rowCount() > 0)
        has_tab = self.tabs.count() > 0
        for name in ("tear_off", "close_tab", "next_tab", "previous_tab"):
            act[name].setEnabled(has_tab)

    def _tell_what_to_do(self) -> None:
        """Fill the middle while no tab does."""
        self.middle.setCurrentWidget(self.tabs if self.tabs.count() else self.empty)
        now = Situation(self.runs.total > 0, self._answers, self._reason, self._access.can_start)
        if now != self._situation:  # not again: somebody may be about to press a button
            self._situation = now
            tell_what_to_do(self.empty, now, self.actions_by_name)

    # --- how it is put together -------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.middle.addWidget(self.empty)
        self.middle.addWidget(self.tabs)
        self.list_dock = self.add_dock(
            "Runs", self.list, Qt.DockWidgetArea.LeftDockWidgetArea, LIST_WIDTH
        )
        self.log_dock = self.add_dock(
            "Log", self.log, Qt.DockWidgetArea.BottomDockWidgetArea, LOG_HEIGHT
        )
        self.add_status(self.daemon_status)
        add_menus(self)

    def _connect_signals(self) -> None:
        self._selecting = QTimer(self)
        self._selecting.setSingleShot(True)
        self._selecting.setInterval(SELECTION_MS)
        self._selecting.timeout.connect(self._show_log)
        self.daemon.runs_listed.connect(self._take_all_runs)
        self.daemon.runs_changed.connect(self._take_runs)
        self.daemon.daemon_changed.connect(self._take_daemon)
        self.lanes.lanes_changed.connect(self._take_lanes)
        self.commands.told.connect(self.say)
        self.list.selection_changed.connect(self._select)
        self.list.opened.connect(self.open_selected)
        self.list.menu_requested.connect(self.show_run_menu)
        self.tabs.pages_changed.connect(self._enable)
        self.tabs.pages_changed.connect(self._tell_what_to_do)
        self.theme.changed.connect(self.runs.repaint_all)

    def _remember(self) -> None:
        self.choose_theme(self._memory.theme)
        self.restoreGeometry(self._memory.bytes("geometry"))
        self.restoreState(self._memory.bytes("places"))
        self.list.archived.setChecked(self._memory.shows_archived)
        for key in self._memory.pages:
            self.opening.open(key)
