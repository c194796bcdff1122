"""The window in which a recorded episode is looked at again."""

from __future__ import annotations

import os

from PyQt6.QtWidgets import QHBoxLayout, QLabel, QStackedWidget, QVBoxLayout, QWidget

from lanekit.viewer.named_key import NamedKey
from lanekit.viewer.replay.actions import KEYS, ReplayActions
from lanekit.viewer.replay.choice_bar import ChoiceBar
from lanekit.viewer.replay.control_bar import ControlBar
from lanekit.viewer.replay.model import ReplayModel
from lanekit.viewer.replay.number_row import NumberRow
from lanekit.viewer.replay.own_window import OwnWindow
from lanekit.viewer.replay.picture_view import PictureView
from lanekit.viewer.replay.reward_strip import RewardStrip
from lanekit.viewer.window.empty_state import EmptyState

NO_FRAMES = (
    "Only its numbers were recorded; look through them below. Pictures are recorded with "
    "lanekit.slow.emit.step(..., frame=pixels) in a worker, or by playing yourself."
)
_EMPTY_SPARSE = "This episode has no frames. Others of this run have: they are marked in the list."
_WORDS_HEIGHT = 150
_NO_LIMIT = 16_777_215
"""Qt's own largest size."""


class ReplayWindow(OwnWindow):
    """Scrubs through the episodes of a run: pictures, if there are some, and numbers always.

    Reads `store_path`, or the daemon's usual store, in a thread.
    """

    def __init__(
        self,
        run_id: str,
        store_path: str | os.PathLike[str] | None = None,
        parent: QWidget | None = None,
        *,
        episode: int | None = None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(f"Replay - {run_id}")
        self.model = ReplayModel(run_id, store_path, episode=episode, parent=self)
        self.choices = ChoiceBar(self.model, self)
        self.picture = PictureView(self)
        self.empty = EmptyState(self)
        self.numbers = NumberRow(("step", "reward", "return", "action", "time"), self)
        self.strip = RewardStrip(self)
        self.deeds = ReplayActions(self.model)
        self.controls = ControlBar(self.model, self.deeds, self)
        self.remarks = QLabel(self)
        self._lay_out()
        self._connect_signals()
        self._add_shortcuts()
        self._show_state()
        self.destroyed.connect(self.model.loader.leave)  # which outlives this window

    def leave(self) -> None:
        """Let go of the store."""
        self.model.leave()

    def _lay_out(self) -> None:
        self.middle = QStackedWidget(self)
        self.middle.addWidget(self.empty)
        self.middle.addWidget(self.picture)
        self.remarks.setObjectName("quiet")
        self.remarks.setWordWrap(True)
        self._below = QWidget(self)
        below = QVBoxLayout(self._below)
        below.setContentsMargins(12, 10, 12, 12)
        below.setSpacing(10)
        below.addWidget(self.numbers)
        below.addWidget(self.strip, 1)
        below.addWidget(self.controls)
        below.addWidget(self.remarks)
        layout = self._layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        top = QHBoxLayout()
        top.setContentsMargins(12, 10, 12, 10)
        top.addWidget(self.choices)
        layout.addLayout(top)
        layout.addWidget(self.middle, 1)
        layout.addWidget(self._below)
        self.resize(820, 760)
        self.setFocusProxy(self.picture)
        self.setFocus()

    def _connect_signals(self) -> None:
        model = self.model
        model.contents_changed.connect(self._show_state)
        model.tape_changed.connect(self._show_tape)
        model.changed.connect(self._show_state)
        model.moved.connect(self._show_numbers)
        model.frame_shown.connect(self.picture.show_image)
        self.strip.sought.connect(model.seek)

    def _add_shortcuts(self) -> None:
        for name, keys in KEYS:
            for key in keys:
                NamedKey(key, name, self).pressed.connect(self.deeds.act)

    def _show_tape(self) -> None:
        self.strip.set_tape(self.model.tape)
        tape = self.model.tape
        self.remarks.setText("" if tape is None else "; ".join(tape.timeline.remarks()))
        self.remarks.setVisible(bool(self.remarks.text()))
        self._show_state()

    def _show_state(self) -> None:
        model, tape = self.model, self.model.tape
        if tape is not None and tape.has_frames:
            self.middle.setCurrentWidget(self.picture)
            self._give_room_to_the_picture()
            return
        self.middle.setCurrentWidget(self.empty)
        if tape is not None:
            self._give_room_to_the_curve()
        if model.problem:
            self.empty.tell("There is nothing to replay", model.problem)
        elif tape is None:
            self.empty.tell("Reading the recording …", "")
        elif model.contents is not None and model.contents.frames:
            self.empty.tell("No pictures of this episode", _EMPTY_SPARSE)
        else:
            self.empty.tell("No pictures were recorded", NO_FRAMES)

    def _give_room_to_the_picture(self) -> None:
        self._layout.setStretch(self._layout.indexOf(self.middle), 1)
        self._layout.setStretch(self._layout.indexOf(self._below), 0)
        self.middle.setMaximumHeight(_NO_LIMIT)

    def _give_room_to_the_curve(self) -> None:
        self._layout.setStretch(self._layout.indexOf(self._below), 1)
        self.middle.setMaximumHeight(_WORDS_HEIGHT)

    def _show_numbers(self) -> None:
        model, tape = self.model, self.model.tape
        if tape is None:
            return
        index = model.index
        self.strip.set_index(index)
        action = tape.action[index]
        self.numbers.show_values(
            f"{int(tape.step[index]):,} of {int(tape.step[-1]):,}",
            f"{float(tape.reward[index]):.4g}".replace("nan", "none"),
            f"{float(tape.total[index]):.6g}",
            "none" if action is None else action.decode("utf-8", "replace"),
            f"{model.seconds:.2f} of {tape.timeline.duration:.2f} s",
        )
