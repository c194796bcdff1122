"""The main window's frame: its parts and where they are. It knows nothing of runs."""

from __future__ import annotations

from PyQt6.QtCore import QPoint, Qt
from PyQt6.QtWidgets import QDockWidget, QMainWindow, QMenu, QStackedWidget, QToolBar, QWidget

from lanekit.viewer.window.commands import ON_RUNS, WindowActions
from lanekit.viewer.window.keys_dialog import KeysDialog

NOTICE_MS = 8000


class WindowFrame(QMainWindow):
    """A toolbar, something in the middle, docks around it, and a status bar."""

    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle("lanekit")
        self.resize(1280, 800)
        self.actions_by_name = WindowActions(self)
        self.middle = QStackedWidget(self)
        self.setCentralWidget(self.middle)
        self.setDockNestingEnabled(True)
        self.setCorner(Qt.Corner.BottomLeftCorner, Qt.DockWidgetArea.LeftDockWidgetArea)
        self.bar = QToolBar("Toolbar", self)
        self.bar.setObjectName("toolbar")
        self.bar.setMovable(False)
        looking = ("picture", "numbers", "side_by_side", "replay")
        self.actions_by_name.fill(self.bar, ("new_run", "play", "", *looking, "", *ON_RUNS))
        self.addToolBar(self.bar)

    def add_dock(
        self, title: str, content: QWidget, area: Qt.DockWidgetArea, size: int
    ) -> QDockWidget:
        """Put something beside the middle, with so many pixels at first."""
        dock = QDockWidget(title, self)
        dock.setObjectName(title.lower())
        dock.setWidget(content)
        self.addDockWidget(area, dock)
        is_beside = area == Qt.DockWidgetArea.LeftDockWidgetArea
        direction = Qt.Orientation.Horizontal if is_beside else Qt.Orientation.Vertical
        self.resizeDocks([dock], [size], direction)
        return dock

    def add_status(self, widget: QWidget) -> None:
        """Put something into the status bar that stays there."""
        bar = self.statusBar()
        assert bar is not None
        bar.addPermanentWidget(widget)

    def say(self, text: str) -> None:
        """Tell something in the status bar for a while."""
        bar = self.statusBar()
        assert bar is not None
        bar.showMessage(text, NOTICE_MS)

    def show_keys(self) -> None:
        """Show which key does what."""
        dialog = KeysDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def show_run_menu(self, at: QPoint) -> None:
        """Offer what can be done with the selected runs."""
        menu = QMenu(self)
        names = ("picture", "numbers", "side_by_side", "replay", "", *ON_RUNS)
        self.actions_by_name.fill(menu, names)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(at)
