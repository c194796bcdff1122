"""The main window's menus, and which function each command calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PyQt6.QtCore import QObject, pyqtSignal
from PyQt6.QtGui import QAction, QActionGroup
from PyQt6.QtWidgets import QMenu, QMenuBar

from lanekit.viewer.window.commands import ON_RUNS
from lanekit.viewer.window.theme import CHOICES, Choice, ThemeControl

if TYPE_CHECKING:
    from lanekit.viewer.window.main_window import MainWindow

_THEMES = {"system": "As the system", "dark": "Dark", "light": "Light"}
_MENUS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("&Program", ("new_run", "play", "", "start_daemon", "", "quit")),
    ("&Run", ("picture", "numbers", "side_by_side", "replay", "", *ON_RUNS)),
    (
        "&View",
        (
            *("find", "show_list", "show_log", ""),
            *("tear_off", "close_tab", "next_tab", "previous_tab", ""),
        ),
    ),
    ("&Help", ("keys",)),
)


def add_menus(window: MainWindow) -> None:
    """Give the window its menus, and each command its function."""
    bar = window.menuBar()
    assert isinstance(bar, QMenuBar)
    for title, names in _MENUS:
        menu = bar.addMenu(title)
        assert isinstance(menu, QMenu)
        menu.setToolTipsVisible(True)
        window.actions_by_name.fill(menu, names)
        if title == "&View":
            _add_themes(window, menu)
    for name, function in _functions(window).items():
        window.actions_by_name[name].triggered.connect(function)


def _functions(window: MainWindow) -> dict[str, Callable[[], object]]:
    tabs = window.tabs
    found: dict[str, Callable[[], object]] = {
        "new_run": window.open_form,
        "play": window.open_play,
        "quit": window.close,
        "picture": window.open_pictures,
        "numbers": window.open_numbers,
        "side_by_side": window.open_side_by_side,
        "replay": window.open_replay,
        "find": window.list.focus_search,
        "tear_off": tabs.tear_off_current,
        "close_tab": tabs.close_current,
        "next_tab": tabs.show_next,
        "previous_tab": tabs.show_previous,
        "show_list": window.toggle_list,
        "show_log": window.toggle_log,
        "start_daemon": window.start_daemon,
        "keys": window.show_keys,
    }
    return found | dict.fromkeys(ON_RUNS, window.control_as_told)


def _add_themes(window: MainWindow, menu: QMenu) -> None:
    themes = menu.addMenu("Theme")
    assert isinstance(themes, QMenu)
    group = QActionGroup(window)
    for choice in CHOICES:
        action = _ThemeAction(choice, window.theme, window)
        action.chosen.connect(window.choose_theme)
        group.addAction(action)
        themes.addAction(action)


class _ThemeAction(QAction):
    """One of the themes; checked while it is the chosen one."""

    chosen = pyqtSignal(str)

    def __init__(self, choice: Choice, theme: ThemeControl, parent: QObject) -> None:
        super().__init__(_THEMES[choice], parent)
        self._choice = choice
        self._theme = theme
        self.setObjectName(f"theme-{choice}")
        self.setCheckable(True)
        self.triggered.connect(self._tell)
        theme.changed.connect(self._follow)

    def _tell(self) -> None:
        self.chosen.emit(self._choice)

    def _follow(self) -> None:
        self.setChecked(self._theme.choice == self._choice)
