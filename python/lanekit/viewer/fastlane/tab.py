"""The tab that shows one run live."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from PyQt6.QtCore import (
    QAbstractEventDispatcher,
    QCoreApplication,
    QSize,
    Qt,
    QTimer,
    QTimerEvent,
    pyqtSignal,
)
from PyQt6.QtGui import QCloseEvent, QHideEvent, QImage, QShowEvent
from PyQt6.QtQuickWidgets import QQuickWidget
from PyQt6.QtWidgets import QVBoxLayout, QWidget

from lanekit.viewer.fastlane.actions import ACTIONS
from lanekit.viewer.fastlane.capturing import Capturing
from lanekit.viewer.fastlane.consumer import FastLaneConsumer, FastLaneFrameEvent
from lanekit.viewer.fastlane.eval_summary import EvalSummary
from lanekit.viewer.fastlane.frame_item import FrameItem
from lanekit.viewer.fastlane.full_screen import FullScreen
from lanekit.viewer.fastlane.view_model import FastLaneViewModel
from lanekit.viewer.named_key import NamedKey
from lanekit.viewer.qml_engine import prepare, url_of

RunMode = Literal["train", "policy_eval"]
_QT_WAITS_MS = 5
"""How long a QQuickWidget waits for further changes before it draws one."""


class Scene(QQuickWidget):
    """Shows the QML scene, and tells whether it can be seen, in the tab or on the full screen."""

    seen = pyqtSignal(bool)

    def showEvent(self, event: QShowEvent | None) -> None:  # noqa: N802 - Qt's name
        """Tell so."""
        super().showEvent(event)
        self.seen.emit(True)

    def hideEvent(self, event: QHideEvent | None) -> None:  # noqa: N802 - Qt's name
        """Tell so."""
        super().hideEvent(event)
        self.seen.emit(False)

    def draw_now(self) -> None:
        """Draw what has changed in this turn of the event loop.

        Qt would wait 5 ms for further changes, which makes a frame a third of a display's interval
        older. It waits by a timer, and is told here that the time is over.
        """
        dispatcher = QAbstractEventDispatcher.instance()
        for timer in [] if dispatcher is None else dispatcher.registeredTimers(self):
            if timer.interval == _QT_WAITS_MS:
                QCoreApplication.sendEvent(self, QTimerEvent(timer.timerId))


class FastLaneTab(QWidget):
    """Live frames of a run with reward, return and step rate.

    `run_mode` "policy_eval" adds what the evaluation found so far, from ``eval_summary.json`` in
    `eval_directory` (default: where the program runs). Screenshots and films go to
    `capture_directory` (default: the same). A tab that nobody can see stops reading after a
    moment, so that the worker need not draw.
    """

    def __init__(
        self,
        run_id: str,
        agent_id: str,
        *,
        mode_label: str | None = None,
        run_mode: RunMode | None = None,
        eval_directory: Path | None = None,
        capture_directory: Path | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        if run_mode not in (None, "train", "policy_eval"):
            raise ValueError(f"run_mode must be 'train' or 'policy_eval', not {run_mode!r}")
        self.run_id = run_id
        self.agent_id = agent_id
        self.mode_label = mode_label or "Fast lane"
        self.run_mode: RunMode = run_mode or "train"
        self.setWindowTitle(f"{self.mode_label} - {run_id}")
        self.consumer = FastLaneConsumer(run_id, self)
        self.quick = Scene(self)
        self.model = FastLaneViewModel(self.consumer, self.quick)  # outlives the scene it serves
        self.model.set_visible(False)  # until it is shown
        self._load_scene()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.addWidget(self.quick)
        self.setFocusProxy(self.quick)
        self.captures = Capturing(run_id, self.model, capture_directory, self)
        self._full_screen: FullScreen | None = None
        self._eval = EvalSummary((eval_directory or Path()) / "eval_summary.json")
        self._eval.text_changed.connect(self.model.set_eval_text)
        if self.run_mode == "policy_eval":
            self._eval.start()
        self.model.frame_shown.connect(self._show)
        self.model.action_requested.connect(self._act)
        self._add_shortcuts()
        self.quick.seen.connect(self.model.set_visible)
        # Also when nobody closes the tab before it is deleted.
        self.destroyed.connect(self._eval.stop)
        self.destroyed.connect(self.consumer.let_go)
        # The first look may find the run: what it shows must find somebody who listens.
        self._beginning = QTimer(self)
        self._beginning.setSingleShot(True)
        self._beginning.timeout.connect(self.consumer.start)
        self._beginning.start(0)

    @property
    def shown(self) -> FastLaneFrameEvent | None:
        """The frame on the screen."""
        return self.model.shown

    def picture(self) -> QImage | None:
        """Return a copy of the frame on the screen, in its own size."""
        return None if self.shown is None else self.shown.image.copy()

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Room for a common frame and the buttons."""
        return QSize(720, 582)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Small enough for a grid of many runs."""
        return QSize(120, 72)

    def closeEvent(self, event: QCloseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Leave the run."""
        self.leave()
        super().closeEvent(event)

    def leave(self) -> None:
        """Stop reading; the mapping of the run's memory is gone afterwards."""
        if self._full_screen is not None:
            self._full_screen.leave()
        self._beginning.stop()
        self._eval.stop()
        self.consumer.stop()
        self.captures.end()

    def toggle_full_screen(self) -> None:
        """Fill the screen with this picture, or go back into the window."""
        if self._full_screen is not None:
            self._full_screen.leave()
            return
        self._full_screen = FullScreen(self.quick, self._layout, self._back_from_full_screen)
        self._full_screen.setWindowTitle(self.windowTitle())
        # It holds the scene now, and would stay without a tab to come back to.
        self.destroyed.connect(self._full_screen.deleteLater)
        self._full_screen.showFullScreen()
        self.quick.setFocus()
        self.model.set_full_screen(True)

    def _load_scene(self) -> None:
        # The scene covers all of it: nothing needs to be painted below.
        self.quick.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.quick.setResizeMode(QQuickWidget.ResizeMode.SizeRootObjectToView)
        engine = self.quick.engine()
        assert engine is not None
        prepare(engine)
        self.quick.setInitialProperties({"model": self.model})
        self.quick.setSource(url_of("FastLaneView.qml"))
        if errors := self.quick.errors():
            raise RuntimeError("; ".join(error.toString() for error in errors))
        root = self.quick.rootObject()
        assert root is not None
        frame = root.findChild(FrameItem, "frame")
        assert frame is not None
        self.frame = frame

    def _show(self, event: FastLaneFrameEvent) -> None:
        self.frame.show_image(event.image)
        self.quick.draw_now()

    def _back_from_full_screen(self) -> None:
        self._full_screen = None
        self.model.set_full_screen(False)

    def _act(self, name: str) -> None:
        match name:
            case "screenshot":
                self.captures.screenshot()
            case "record":
                self.captures.toggle("mp4")
            case "record_gif":
                self.captures.toggle("gif")
            case "full_screen":
                self.toggle_full_screen()
            case "fit":
                self.model.zoom.fit()
            case "zoom_in":
                self.model.zoom.zoom_in()
            case "zoom_out":
                self.model.zoom.zoom_out()
            case "actual_size":
                self.model.zoom.actual_size()
            case "back":
                self._back()

    def _back(self) -> None:
        """Take away what lies over the picture, else leave the full screen."""
        if self.model.helpVisible:
            self.model.toggle_help()
        elif self._full_screen is not None:
            self._full_screen.leave()

    def _add_shortcuts(self) -> None:
        # On the scene, which keeps them when it moves to the full screen.
        keys = [(key, action.name) for action in ACTIONS for key in action.keys]
        for key, name in (*keys, ("Esc", "back")):
            shortcut = NamedKey(key, name, self.quick)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.setAutoRepeat(name.startswith("zoom"))
            shortcut.pressed.connect(self.model.act)
