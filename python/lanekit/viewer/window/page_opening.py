"""Opens pages for runs, and keeps the live numbers that some of them show coming."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PyQt6.QtCore import QObject, Qt
from PyQt6.QtGui import QAction
from PyQt6.QtWidgets import QMenu, QSplitter

from lanekit.slow.daemon_client import DaemonClient
from lanekit.viewer.live.controller import ALL_AGENTS, LiveTelemetryController
from lanekit.viewer.live.tab import LiveTelemetryTab
from lanekit.viewer.window.pages import MOST_IN_GRID, Page, PageKey, RunGrid, picture_page
from lanekit.viewer.window.picture_tabs import PictureTabs
from lanekit.viewer.window.run_tabs import RunTabs


class PageOpening(QObject):
    """Brings each page into being once; what is open already comes to the front."""

    def __init__(
        self,
        tabs: RunTabs,
        connect: Callable[[], DaemonClient],
        parent: QObject | None = None,
        *,
        pictures: PictureTabs | None = None,
    ) -> None:
        super().__init__(parent)
        self._tabs = tabs
        self._pictures = pictures or PictureTabs()
        self.controller = LiveTelemetryController(connect, parent=self)
        tabs.pages_changed.connect(self._unsubscribe_from_unseen)
        tabs.menu_opening.connect(self._offer_agents)

    def open(self, key: PageKey) -> None:
        """Open a page, or bring it to the front."""
        page = self._tabs.page(key)
        if page is None:
            self._tabs.add(self._make(key))
        else:
            self._tabs.show_page(page)

    def open_picture(self, run_id: str) -> None:
        """Watch a run."""
        self.open(PageKey("picture", (run_id,)))

    def open_both(self, run_id: str) -> None:
        """Watch a run and follow its numbers, one below the other."""
        self.open(PageKey("both", (run_id,), ALL_AGENTS))

    def open_grid(self, run_ids: Sequence[str]) -> None:
        """Watch several runs."""
        self.open(PageKey("grid", tuple(run_ids[:MOST_IN_GRID])))

    def open_numbers(self, run_id: str, agent_id: str = ALL_AGENTS) -> None:
        """Follow the steps and episodes of a run, or of one of its agents."""
        self.open(PageKey("numbers", (run_id,), agent_id))

    def close(self) -> None:
        """Follow nothing any more."""
        self.controller.close()

    def _make(self, key: PageKey) -> Page:
        if key.kind == "picture":
            return picture_page(key, self._pictures)
        if key.kind == "numbers":
            tab = LiveTelemetryTab(key.runs[0], key.agent, self.controller)
            return Page(key, tab, tab.leave)
        if key.kind == "both":
            return self._picture_above_numbers(key)
        grid = RunGrid(key.runs, tabs=self._pictures)
        page = Page(key, grid, grid.leave)
        grid.emptied.connect(page.tell_emptied)
        page.emptied.connect(self._tabs.close_page)
        return page

    def _picture_above_numbers(self, key: PageKey) -> Page:
        both = QSplitter(Qt.Orientation.Vertical)
        both.setChildrenCollapsible(False)
        picture = self._pictures.make(key.runs[0], parent=both)
        numbers = LiveTelemetryTab(key.runs[0], key.agent, self.controller, parent=both)
        both.addWidget(picture)
        both.addWidget(numbers)
        both.setStretchFactor(0, 1)
        both.setStretchFactor(1, 1)

        def leave() -> None:
            picture.leave()
            numbers.leave()

        both.setFocusProxy(picture)
        return Page(key, both, leave)

    def _offer_agents(self, page: Page, menu: QMenu) -> None:
        """Let each agent of a run have a tab of its own."""
        if page.key.kind != "numbers" or page.key.agent != ALL_AGENTS:
            return
        run_id = page.key.runs[0]
        names = self.controller.history(run_id).agent_names
        if len(names) > 1:
            agents = menu.addMenu("A tab for one agent")
            assert agents is not None
            for name in names:
                action = agents.addAction(name)
                assert action is not None
                action.setData(PageKey("numbers", (run_id,), name))
            agents.triggered.connect(self._open_chosen)

    def _open_chosen(self, action: QAction) -> None:
        self.open(action.data())

    def _unsubscribe_from_unseen(self) -> None:
        seen = {
            page.key.runs[0] for page in self._tabs.pages if page.key.kind in ("numbers", "both")
        }
        for run_id in self.controller.subscribed - seen:
            self.controller.unsubscribe_from_run(run_id)
