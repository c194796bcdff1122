"""Everything the main window can do: one table for menus, toolbar, keys, tooltips and help."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from PyQt6.QtGui import QAction, QKeySequence
from PyQt6.QtWidgets import QMainWindow, QMenu, QToolBar


class Command(NamedTuple):
    """Something to do: how it is called, its key, and what it does."""

    name: str
    text: str
    key: str
    tip: str


COMMANDS = (
    Command("new_run", "New run…", "Ctrl+N", "Start a worker with options of your choice"),
    Command("play", "Play…", "Ctrl+P", "Play an environment from the keyboard"),
    Command("quit", "Quit", "Ctrl+Q", "Close the window; runs go on"),
    Command("picture", "Picture", "Ctrl+O", "Watch the selected runs live"),
    Command("numbers", "Numbers", "Ctrl+I", "Curves and tables of the selected runs"),
    Command("side_by_side", "Side by side", "Ctrl+G", "Watch the selected runs in one grid"),
    Command("replay", "Replay…", "Ctrl+R", "Look at the stored episodes of the selected run"),
    Command("pause", "Pause", "F6", "Ask the selected runs to pause"),
    Command("resume", "Resume", "F7", "Let the selected runs go on"),
    Command("stop", "Stop", "F8", "Ask the selected runs to end after their current step"),
    Command("cancel", "Cancel…", "Shift+F8", "End the selected runs by force if need be"),
    Command("archive", "Archive", "Ctrl+Backspace", "Put ended runs out of sight; nothing is lost"),
    Command("unarchive", "Unarchive", "Ctrl+Shift+Backspace", "Bring archived runs back"),
    Command("find", "Find a run", "Ctrl+F", "Search by id or state"),
    Command("tear_off", "Tab into a window", "Ctrl+D", "Give the tab a window of its own"),
    Command("close_tab", "Close tab", "Ctrl+W", "Stop watching what the tab shows"),
    Command("next_tab", "Next tab", "Ctrl+Tab", "Go to the tab on the right"),
    Command("previous_tab", "Previous tab", "Ctrl+Shift+Tab", "Go to the tab on the left"),
    Command("show_list", "List of runs", "Ctrl+B", "Show or hide the list of runs"),
    Command("show_log", "Log", "Ctrl+L", "Show or hide the log"),
    Command("start_daemon", "Start a daemon", "", "Start one on this machine; it stays"),
    Command("keys", "Keys", "Ctrl+/", "Show this list"),
)
ON_RUNS = ("pause", "resume", "stop", "cancel", "archive", "unarchive")
"""What the daemon is asked to do with runs."""


class WindowActions:
    """The commands as Qt's actions, by name: ``actions["pause"]``."""

    def __init__(self, window: QMainWindow) -> None:
        self._actions = {command.name: _action(command, window) for command in COMMANDS}
        for action in self._actions.values():
            window.addAction(action)

    def __getitem__(self, name: str) -> QAction:
        return self._actions[name]

    def fill(self, place: QMenu | QToolBar, names: Iterable[str]) -> None:
        """Put commands into a menu or a toolbar; an empty name is a line between two."""
        for name in names:
            if name:
                place.addAction(self._actions[name])
            else:
                place.addSeparator()


def _action(command: Command, window: QMainWindow) -> QAction:
    action = QAction(command.text, window)
    action.setObjectName(command.name)
    if command.key:
        action.setShortcut(QKeySequence(command.key))
    key = f" ({command.key})" if command.key else ""
    action.setToolTip(f"{command.tip}{key}")
    return action
