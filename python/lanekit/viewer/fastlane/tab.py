"""The tab that shows one run live."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from PyQt6.QtCore import Qt, QTimer
from PyQt6.QtGui import QCloseEvent, QImage, QKeySequence, QShortcut
from PyQt6.QtQuickWidgets import QQuickWidget
from PyQt6.QtWidgets import QVBoxLayout, QWidget

from lanekit.viewer.fastlane.consumer import FastLaneConsumer, FastLaneFrameEvent
from lanekit.viewer.fastlane.eval_summary import EvalSummary
from lanekit.viewer.fastlane.frame_item import FrameItem
from lanekit.viewer.fastlane.view_model import FastLaneViewModel
from lanekit.viewer.qml_engine import prepare, url_of

RunMode = Literal["train", "policy_eval"]


class FastLaneTab(QWidget):
    """Live frames of a run with reward, return and step rate.

    `run_mode` "policy_eval" adds what the evaluation found so far, from ``eval_summary.json`` in
    `eval_directory` (default: where the program runs).
    """

    def __init__(
        self,
        run_id: str,
        agent_id: str,
        *,
        mode_label: str | None = None,
        run_mode: RunMode | None = None,
        eval_directory: Path | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.run_id = run_id
        self.agent_id = agent_id
        self.mode_label = mode_label or "Fast lane"
        self.run_mode: RunMode = run_mode or "train"
        self.setWindowTitle(f"{self.mode_label} - {run_id}")
        self.consumer = FastLaneConsumer(run_id, self)
        self.quick = QQuickWidget(self)
        self.model = FastLaneViewModel(self.consumer, self.quick)  # outlives the scene it serves
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
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.quick)
        self._shown: FastLaneFrameEvent | None = None
        self.model.frame_shown.connect(self._show)
        self._eval = EvalSummary((eval_directory or Path()) / "eval_summary.json", self)
        self._eval.text_changed.connect(self.model.set_eval_text)
        if self.run_mode == "policy_eval":
            self._eval.start()
        self._add_shortcuts()
        # The first look may find the run: what it shows must find somebody who listens.
        QTimer.singleShot(0, self.consumer.start)

    @property
    def shown(self) -> FastLaneFrameEvent | None:
        """The frame on the screen."""
        return self._shown

    def picture(self) -> QImage | None:
        """Return a copy of the frame on the screen, in its own size."""
        return None if self._shown is None else self._shown.image.copy()

    def closeEvent(self, event: QCloseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Leave the run."""
        self.leave()
        super().closeEvent(event)

    def leave(self) -> None:
        """Stop reading; the mapping of the run's memory is gone afterwards."""
        self._eval.stop()
        self.consumer.stop()

    def toggle_full_screen(self) -> None:
        """Fill the screen with this picture, or go back into the window."""
        if self.isFullScreen():
            self.setWindowFlag(Qt.WindowType.Window, False)
            self.showNormal()
        else:
            self.setWindowFlag(Qt.WindowType.Window, True)
            self.showFullScreen()

    def _show(self, event: FastLaneFrameEvent) -> None:
        self._shown = event
        self.frame.show_image(event.image)

    def _add_shortcuts(self) -> None:
        for keys, action in (
            ("Space", self.model.toggle_pause),
            ("H", self.model.toggle_hud),
            ("0", self.model.fit),
            ("F11", self.toggle_full_screen),
        ):
            shortcut = QShortcut(QKeySequence(keys), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(action)
