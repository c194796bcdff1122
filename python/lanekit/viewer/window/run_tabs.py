"""The tabs in the window's middle, and the windows that tabs are torn off into."""

from __future__ import annotations

from PyQt6.QtCore import QPoint, Qt, pyqtSignal
from PyQt6.QtGui import QCloseEvent, QKeySequence, QMouseEvent, QShortcut
from PyQt6.QtWidgets import QMenu, QTabBar, QTabWidget, QToolButton, QVBoxLayout, QWidget

from lanekit.viewer.window.pages import Page, PageKey

_TEAR_DISTANCE = 40
"""Pixels outside of the bar at which a dragged tab becomes a window."""


class RunTabs(QTabWidget):
    """Pages by their keys; each is here or in a window of its own."""

    pages_changed = pyqtSignal()
    menu_opening = pyqtSignal(object, object)
    """A page, and the menu of its tab: whoever has more to offer adds it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._windows: dict[PageKey, TornOffWindow] = {}
        bar = _TearingBar(self)
        self.setTabBar(bar)
        self.setMovable(True)
        self.setDocumentMode(True)
        self.setElideMode(Qt.TextElideMode.ElideMiddle)
        self.setUsesScrollButtons(True)
        self.tabBarDoubleClicked.connect(self.tear_off)
        bar.torn.connect(self.tear_off)
        bar.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        bar.customContextMenuRequested.connect(self._show_menu)

    @property
    def pages(self) -> list[Page]:
        """All pages, those in windows of their own at the end."""
        here = [self.widget(place) for place in range(self.count())]
        return [page for page in here if isinstance(page, Page)] + [
            window.page for window in self._windows.values()
        ]

    @property
    def windows(self) -> list[TornOffWindow]:
        """The windows that tabs were torn off into."""
        return list(self._windows.values())

    def page(self, key: PageKey) -> Page | None:
        """Return an open page."""
        return next((page for page in self.pages if page.key == key), None)

    def add(self, page: Page) -> None:
        """Add a page and show it."""
        place = self.addTab(page, _tab_text(page.key.title))
        self.setTabToolTip(place, f"{page.key.title}\nDouble-click: a window of its own")
        bar = self.tabBar()
        assert bar is not None
        button = _CloseButton(page, self)
        button.chosen.connect(self.close_page)
        bar.setTabButton(place, QTabBar.ButtonPosition.RightSide, button)
        self.setCurrentIndex(place)
        page.setFocus()
        self.pages_changed.emit()

    def show_page(self, page: Page) -> None:
        """Bring an open page to the front, wherever it is."""
        if page.key in self._windows:
            self._windows[page.key].activateWindow()
            self._windows[page.key].raise_()
        else:
            self.setCurrentWidget(page)
            page.setFocus()

    def close_at(self, place: int) -> None:
        """Close a tab."""
        page = self.widget(place)
        if isinstance(page, Page):
            self.close_page(page)

    def tear_off_current(self) -> None:
        """Give the tab in front a window of its own."""
        self.tear_off(self.currentIndex())

    def close_current(self) -> None:
        """Close the tab in front."""
        self.close_at(self.currentIndex())

    def show_next(self) -> None:
        """Bring the tab on the right to the front; after the last comes the first."""
        self._turn(1)

    def show_previous(self) -> None:
        """Bring the tab on the left to the front."""
        self._turn(-1)

    def _turn(self, by: int) -> None:
        if self.count():
            self.setCurrentIndex((self.currentIndex() + by) % self.count())

    def close_page(self, page: Page) -> None:
        """Close a page, here or in its window; what it read is let go."""
        page.leave()
        window = self._windows.pop(page.key, None)
        if window is not None:
            window.give_up()
        else:
            self.removeTab(self.indexOf(page))
        page.deleteLater()
        self.pages_changed.emit()

    def close_all(self) -> None:
        """Close every page."""
        for page in self.pages:
            self.close_page(page)

    def tear_off(self, place: int) -> None:
        """Give a tab a window of its own."""
        page = self.widget(place)
        if not isinstance(page, Page):
            return
        size = page.size()
        self.removeTab(place)
        window = TornOffWindow(page)
        window.returned.connect(self._take_back)
        self._windows[page.key] = window
        window.resize(size)
        window.move(self.mapToGlobal(QPoint(40, 40)))
        window.show()
        page.setFocus()
        self.pages_changed.emit()

    def _take_back(self, page: Page) -> None:
        window = self._windows.pop(page.key, None)
        if window is not None:
            self.add(page)
            window.give_up()

    def _show_menu(self, at: QPoint) -> None:
        bar = self.tabBar()
        place = -1 if bar is None else bar.tabAt(at)
        if bar is None or place < 0:
            return
        page = self.widget(place)
        if not isinstance(page, Page):
            return
        menu = _TabMenu(page, self)
        menu.tear_off.connect(self._tear_off_page)
        menu.close_this.connect(self.close_page)
        menu.close_others.connect(self._close_others)
        menu.addAction("Into a window of its own", menu.tell_tear_off)
        self.menu_opening.emit(page, menu)
        menu.addSeparator()
        menu.addAction("Close", menu.tell_close_this)
        menu.addAction("Close the others", menu.tell_close_others)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(bar.mapToGlobal(at))

    def _tear_off_page(self, page: Page) -> None:
        self.tear_off(self.indexOf(page))

    def _close_others(self, kept: Page) -> None:
        for page in [self.widget(i) for i in range(self.count())]:
            if page is not kept and isinstance(page, Page):
                self.close_page(page)


class _CloseButton(QToolButton):
    """Closes a page; it knows which, wherever its tab is moved to."""

    chosen = pyqtSignal(object)

    def __init__(self, page: Page, parent: QWidget) -> None:
        super().__init__(parent)
        self._page = page
        self.setObjectName("close")
        self.setText("✕")
        self.setToolTip("Close")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.clicked.connect(self._tell)

    def _tell(self) -> None:
        self.chosen.emit(self._page)


class _TabMenu(QMenu):
    """What can be done with one page, also if its tab has another place by then."""

    tear_off = pyqtSignal(object)
    close_this = pyqtSignal(object)
    close_others = pyqtSignal(object)

    def __init__(self, page: Page, parent: QWidget) -> None:
        super().__init__(parent)
        self._page = page

    def tell_tear_off(self) -> None:
        """Have the page put into a window of its own."""
        self.tear_off.emit(self._page)

    def tell_close_this(self) -> None:
        """Have the page closed."""
        self.close_this.emit(self._page)

    def tell_close_others(self) -> None:
        """Have all others closed."""
        self.close_others.emit(self._page)


class TornOffWindow(QWidget):
    """Holds one page. Closing it brings the page back into the main window."""

    returned = pyqtSignal(object)
    """Carries the page."""

    def __init__(self, page: Page) -> None:
        super().__init__(None, Qt.WindowType.Window)
        self.page = page
        self.setWindowTitle(page.key.title)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(page)
        page.show()
        back = QShortcut(QKeySequence("Ctrl+D"), self)
        back.activated.connect(self.close)

    def give_up(self) -> None:
        """Go away without the page."""
        self.hide()
        self.deleteLater()

    def closeEvent(self, event: QCloseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Give the page back."""
        self.returned.emit(self.page)
        super().closeEvent(event)


class _TearingBar(QTabBar):
    """A bar from which a tab can be dragged away."""

    torn = pyqtSignal(int)

    def mouseReleaseEvent(self, event: QMouseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Tear a tab off that was let go well outside of the bar."""
        dragged = self.currentIndex()
        super().mouseReleaseEvent(event)
        if event is None or event.button() != Qt.MouseButton.LeftButton or dragged < 0:
            return
        room = self.rect().adjusted(
            -_TEAR_DISTANCE, -_TEAR_DISTANCE, _TEAR_DISTANCE, _TEAR_DISTANCE
        )
        if not room.contains(event.position().toPoint()):
            self.torn.emit(dragged)


def _tab_text(title: str) -> str:
    """Return a title that Qt does not take an ampersand out of."""
    return title.replace("&", "&&")
