"""Dark, light, or as the system is: colours and shapes of all widgets."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

from PyQt6.QtCore import QObject, Qt, pyqtSignal
from PyQt6.QtGui import QGuiApplication, QPalette
from PyQt6.QtWidgets import QApplication

from lanekit.viewer.appearance import appearance
from lanekit.viewer.palette import DARK, Palette

Choice = Literal["system", "dark", "light"]
_ICONS = Path(str(files("lanekit.viewer.window"))) / "icons"
CHOICES: tuple[Choice, ...] = get_args(Choice)


class ThemeControl(QObject):
    """Applies a choice to the whole program, and follows the system if that is the choice."""

    changed = pyqtSignal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._choice: Choice = "system"
        self._system_was_dark = _colours_are_dark()  # before any of ours are set
        hints = QGuiApplication.styleHints()
        if hints is not None:
            hints.colorSchemeChanged.connect(self._apply)
        QApplication.setStyle("fusion")  # the same everywhere, and it takes all our colours

    @property
    def choice(self) -> Choice:
        """What was chosen."""
        return self._choice

    def choose(self, choice: Choice) -> None:
        """Make all windows look so."""
        self._choice = choice
        self._apply()

    def _apply(self) -> None:
        dark = self._choice == "dark" or (self._choice == "system" and self._system_is_dark())
        appearance().set_dark(dark)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.setPalette(appearance().palette.for_widgets())
        application.setStyleSheet(style_sheet(appearance().palette))
        self.changed.emit()

    def _system_is_dark(self) -> bool:
        hints = QGuiApplication.styleHints()
        scheme = Qt.ColorScheme.Unknown if hints is None else hints.colorScheme()
        if scheme == Qt.ColorScheme.Unknown:
            return self._system_was_dark
        return scheme == Qt.ColorScheme.Dark


def _colours_are_dark() -> bool:
    return QGuiApplication.palette().color(QPalette.ColorRole.Window).lightness() < 128


def style_sheet(c: Palette) -> str:
    """Return the shapes of widgets, in a theme's colours."""
    name = "dark" if c is DARK else "light"
    return f"""
QMainWindow::separator {{ background: {c.background}; width: 5px; height: 5px; }}
QMainWindow::separator:hover {{ background: {c.accent}; }}
QToolBar {{ background: {c.background}; border: none; padding: 4px 6px; spacing: 2px; }}
QToolBar::separator {{ background: {c.outline}; width: 1px; margin: 5px 6px; }}
QToolButton {{ padding: 5px 9px; border: none; border-radius: 5px; }}
QToolButton:hover, QToolButton:checked {{ background: {c.raised}; }}
QToolButton:pressed {{ background: {c.outline}; }}
QToolButton:focus {{ background: {c.raised}; }}
QPushButton {{ background: {c.raised}; border: 1px solid {c.outline}; border-radius: 5px;
  padding: 5px 14px; }}
QPushButton#small {{ padding: 1px 10px; }}
QPushButton:hover, QPushButton:focus {{ border-color: {c.accent}; }}
QPushButton:pressed {{ background: {c.outline}; }}
QPushButton:default {{ background: {c.accent}; border-color: {c.accent}; color: {c.background}; }}
QPushButton:disabled {{ background: {c.background}; color: {c.quiet_text};
  border-color: {c.outline}; }}
QLineEdit, QPlainTextEdit#entry {{ background: {c.surface}; padding: 5px 7px;
  border: 1px solid {c.outline}; border-radius: 5px; selection-background-color: {c.accent}; }}
QLineEdit:focus, QPlainTextEdit#entry:focus {{ border-color: {c.accent}; }}
*[wrong="true"] {{ border-color: {c.bad}; }}
QComboBox {{ background: {c.raised}; padding: 5px 9px; border: 1px solid {c.outline};
  border-radius: 5px; }}
QComboBox:hover, QComboBox:focus {{ border-color: {c.accent}; }}
QComboBox::drop-down {{ border: none; width: 24px; }}
QComboBox::down-arrow {{ width: 0; height: 0; border-left: 4px solid {c.raised};
  border-right: 4px solid {c.raised}; border-top: 5px solid {c.quiet_text}; }}
QComboBox QAbstractItemView {{ background: {c.surface}; border: 1px solid {c.outline};
  selection-background-color: {c.raised}; selection-color: {c.text}; }}
QCheckBox {{ spacing: 7px; }}
QCheckBox::indicator {{ width: 13px; height: 13px; border: 1px solid {c.quiet_text};
  border-radius: 3px; background: {c.surface}; }}
QCheckBox::indicator:hover, QCheckBox::indicator:focus {{ border-color: {c.accent}; }}
QCheckBox::indicator:checked {{ background: {c.accent}; border-color: {c.accent};
  image: url({_ICONS / f"check-{name}.svg"}); }}
QTableView {{ background: {c.surface}; border: 1px solid {c.outline}; border-radius: 5px;
  selection-background-color: {c.raised}; selection-color: {c.text}; outline: none; }}
QTableView::item {{ padding: 0 3px; }}
QTableView::item:selected {{ background: {c.raised}; color: {c.text}; }}
QHeaderView {{ background: {c.surface}; }}
QHeaderView::section {{ background: {c.surface}; color: {c.quiet_text}; border: none;
  border-bottom: 1px solid {c.outline}; padding: 6px; font-weight: normal; }}
QHeaderView::up-arrow, QHeaderView::down-arrow {{ image: none; width: 0; height: 0; }}
QTabWidget::pane {{ border: none; border-top: 1px solid {c.outline}; }}
QTabBar::tab {{ background: {c.background}; color: {c.quiet_text}; padding: 7px 10px;
  border: none; border-bottom: 2px solid transparent; max-width: 260px; }}
QTabBar::tab:selected {{ color: {c.text}; border-bottom-color: {c.accent}; }}
QTabBar {{ qproperty-drawBase: 0; }}
QTabBar QToolButton#close {{ padding: 0 3px; color: {c.quiet_text}; }}
QTabBar QToolButton#close:hover {{ color: {c.text}; }}
QTabBar::tab:hover {{ color: {c.text}; background: {c.raised}; }}
QDockWidget {{ color: {c.quiet_text}; titlebar-close-icon: url({_ICONS / f"close-{name}.svg"});
  titlebar-normal-icon: url({_ICONS / f"float-{name}.svg"}); }}
QDockWidget::title {{ background: {c.background}; padding: 6px 10px; }}
QDockWidget::close-button, QDockWidget::float-button {{ background: transparent; border: none;
  padding: 0; border-radius: 4px; }}
QDockWidget::close-button:hover, QDockWidget::float-button:hover {{ background: {c.raised}; }}
QPlainTextEdit#log {{ background: {c.surface}; border: 1px solid {c.outline};
  border-radius: 5px; padding: 4px; }}
QStatusBar {{ background: {c.background}; border-top: 1px solid {c.outline}; }}
QStatusBar::item {{ border: none; }}
QMenuBar {{ background: {c.background}; }}
QMenuBar::item {{ padding: 5px 9px; border-radius: 5px; background: transparent; }}
QMenuBar::item:selected {{ background: {c.raised}; }}
QMenu {{ background: {c.surface}; border: 1px solid {c.outline}; padding: 4px; }}
QMenu::item {{ padding: 6px 24px 6px 22px; border-radius: 4px; }}
QMenu::item:selected {{ background: {c.raised}; color: {c.text}; }}
QMenu::item:disabled {{ color: {c.quiet_text}; }}
QMenu::separator {{ background: {c.outline}; height: 1px; margin: 4px 8px; }}
QToolTip {{ background: {c.surface}; color: {c.text}; border: 1px solid {c.outline};
  padding: 4px; }}
QScrollArea {{ border: none; }}
QAbstractScrollArea::corner {{ background: transparent; border: none; }}
QLabel#quiet {{ color: {c.quiet_text}; }}
QLabel#title {{ font-size: 20px; }}
QLabel#section {{ color: {c.quiet_text}; font-weight: bold; padding-top: 6px; }}
QLabel#option {{ padding-top: 6px; }}
QLabel#wrong {{ color: {c.bad}; }}
QFrame#cell {{ background: {c.surface}; border: 1px solid {c.outline}; border-radius: 5px; }}
QScrollBar:vertical {{ background: transparent; width: 10px; margin: 0; }}
QScrollBar:horizontal {{ background: transparent; height: 10px; margin: 0; }}
QScrollBar::handle {{ background: {c.outline}; border-radius: 4px; min-height: 28px;
  min-width: 28px; margin: 1px; }}
QScrollBar::handle:hover {{ background: {c.quiet_text}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
"""
