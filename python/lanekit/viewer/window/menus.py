"""The main window's menus, and which function each command calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PyQt6.QtGui import QAction, QActionGroup
from PyQt6.QtWidgets import QMenu, QMenuBar

from lanekit.viewer.window.commands import ON_RUNS
from lanekit.viewer.window.theme import CHOICES

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
        window.actions_by_name[name].triggered.connect(lambda _, call=function: call())


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
        "tear_off": lambda: tabs.tear_off(tabs.currentIndex()),
        "close_tab": lambda: tabs.close_at(tabs.currentIndex()),
        "next_tab": lambda: _turn(window, 1),
        "previous_tab": lambda: _turn(window, -1),
        "show_list": lambda: window.list_dock.setVisible(not window.list_dock.isVisible()),
        "show_log": lambda: window.log_dock.setVisible(not window.log_dock.isVisible()),
        "start_daemon": window.start_daemon,
        "keys": window.show_keys,
    }
    return found | {name: partial(window.control, name) for name in ON_RUNS}


def _turn(window: MainWindow, by: int) -> None:
    tabs = window.tabs
    if tabs.count():
        tabs.setCurrentIndex((tabs.currentIndex() + by) % tabs.count())


def _add_themes(window: MainWindow, menu: QMenu) -> None:
    themes = menu.addMenu("Theme")
    assert isinstance(themes, QMenu)
    group = QActionGroup(window)
    for choice in CHOICES:
        action = QAction(_THEMES[choice], window)
        action.setObjectName(f"theme-{choice}")
        action.setCheckable(True)
        action.triggered.connect(lambda _, choice=choice: window.choose_theme(choice))
        window.theme.changed.connect(
            lambda action=action, choice=choice: action.setChecked(window.theme.choice == choice)
        )
        group.addAction(action)
        themes.addAction(action)
