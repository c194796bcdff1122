"""What the main window remembers, how it looks, and its keys."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from PyQt6.QtCore import Qt
from PyQt6.QtGui import QAction
from PyQt6.QtWidgets import QApplication, QDialog, QLabel
from pytestqt.qtbot import QtBot
from window_desk import WindowDesk, lone_desk

from lanekit.viewer.appearance import appearance
from lanekit.viewer.fastlane.tab import FastLaneTab
from lanekit.viewer.palette import DARK, LIGHT
from lanekit.viewer.window.keys_dialog import KeysDialog

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)


@pytest.fixture
def desk(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[WindowDesk]:
    """A desk of its own for each test."""
    with lone_desk(qapp, monkeypatch) as made:
        yield made


def test_layout_tabs_and_theme_come_back(desk: WindowDesk) -> None:
    window = desk.open()
    window.choose_theme("light")
    window.opening.open_picture("one & two")
    window.opening.open_grid(["a", "b"])
    window.opening.open_numbers("r")
    window.tabs.tear_off(1)
    window.log_dock.hide()
    window.list.archived.setChecked(True)
    window.close()
    desk.close_windows()  # closes it once more, as the end of the program does: no harm
    again = desk.open()
    assert again.theme.choice == "light"
    assert not appearance().dark
    assert [page.key.title for page in again.tabs.pages] == ["one & two", "r · numbers", "2 runs"]
    assert again.log_dock.isHidden()
    assert not again.list_dock.isHidden()
    assert again.list.archived.isChecked()


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\0garbage",
        b"[General]\ntheme=purple\npages=@Variant(\\0\\0\\0\\x7f)\ngeometry=@ByteArray(zzz)\n",
        b'[General]\npages="[\\"film\\", 3]"\nplaces=!!!\narchived=@Invalid()\n',
    ],
)
@pytest.mark.qt_log_ignore("QVariant::load", "This plugin does not support", extend=True)
def test_a_broken_memory_does_no_harm(desk: WindowDesk, content: bytes) -> None:
    desk.memory.write_bytes(content)
    window = desk.open()
    assert window.tabs.pages == []
    assert window.theme.choice == "system"


def test_a_memory_that_can_not_be_written_does_no_harm(desk: WindowDesk) -> None:
    desk.memory = Path("/proc/no-such-place/viewer.ini")
    desk.open()
    desk.close_windows()


def test_themes_reach_widgets_and_pictures(desk: WindowDesk) -> None:
    window = desk.open()
    window.opening.open_picture("some")
    gc.collect()  # what only Python held together would be gone now
    page = window.tabs.pages[0].content
    assert isinstance(page, FastLaneTab)
    engine = page.quick.engine()
    assert engine is not None
    for choice, colours in (("light", LIGHT), ("dark", DARK)):
        action = window.findChild(QAction, f"theme-{choice}")
        assert isinstance(action, QAction)
        action.trigger()
        theme = engine.singletonInstance("Lanekit", "Theme")
        assert theme is not None
        assert theme.property("quietText").name() == colours.quiet_text
        assert window.palette().window().color().name() == colours.background


def test_keys_find_runs_turn_tabs_and_show_help(desk: WindowDesk, qtbot: QtBot) -> None:
    window = desk.open()
    control = Qt.KeyboardModifier.ControlModifier
    window.opening.open_picture("a")
    window.opening.open_picture("b")
    qtbot.keyClick(window, Qt.Key.Key_Tab, control)
    assert window.tabs.currentIndex() == 0
    qtbot.keyClick(window, Qt.Key.Key_W, control)
    assert [page.key.title for page in window.tabs.pages] == ["b"]
    qtbot.keyClick(window, Qt.Key.Key_D, control)
    assert len(window.tabs.windows) == 1
    qtbot.keyClick(window, Qt.Key.Key_L, control)
    assert window.log_dock.isHidden()
    window.list.table.setFocus()
    qtbot.keyClick(window, Qt.Key.Key_F, control)
    assert window.list.search.hasFocus() or not window.isActiveWindow()
    qtbot.keyClick(window, Qt.Key.Key_Slash, control)
    dialog = window.findChild(QDialog)
    assert isinstance(dialog, KeysDialog)
    assert "Ctrl+G" in {label.text() for label in dialog.findChildren(QLabel)}
