"""Reads a recorded run in a thread: the window asks, and is told when something is there."""

from __future__ import annotations

import os

from PyQt6.QtCore import pyqtSignal

from lanekit.errors import LanekitError
from lanekit.slow.replay.tape import Player, Tape, read_contents, read_pixels, read_tape
from lanekit.slow.store.run_store import RunStore
from lanekit.viewer.replay.own_thread import OwnThread
from lanekit.viewer.replay.picture_view import image_of


class ReplayLoader(OwnThread):
    """Of several wishes for a frame only the newest is granted: nobody waits for the others."""

    contents_read = pyqtSignal(object)
    tape_read = pyqtSignal(object)
    frame_read = pyqtSignal(object, int, object)
    """The tape, the step's index, and the picture."""
    failed = pyqtSignal(str)

    def __init__(self, run_id: str, store_path: str | os.PathLike[str] | None) -> None:
        super().__init__("lanekit-replay-loader")
        self._run_id = run_id
        self._store_path = store_path
        self._wants_contents = True
        self._wants_tape: tuple[Player, int] | None = None
        self._wants_frame: tuple[Tape, int] | None = None
        self._store: RunStore | None = None

    def reload(self) -> None:
        """Look again who recorded what."""
        with self._changed:
            self._wants_contents = True
            self._changed.notify()

    def want_tape(self, player: Player, episode: int) -> None:
        """Ask for an episode."""
        with self._changed:
            self._wants_tape = (player, episode)
            self._wants_frame = None
            self._changed.notify()

    def want_frame(self, tape: Tape, index: int) -> None:
        """Ask for the frame to show at a step."""
        with self._changed:
            self._wants_frame = (tape, index)
            self._changed.notify()

    def run(self) -> None:
        """Grant wishes."""
        try:
            while self._wait_for_wish():
                try:
                    self._grant()
                except LanekitError as error:
                    self.failed.emit(str(error))
        finally:
            if self._store is not None:
                self._store.close()

    def _wait_for_wish(self) -> bool:
        with self._changed:
            self._changed.wait_for(
                lambda: self._left
                or self._wants_contents
                or self._wants_tape is not None
                or self._wants_frame is not None
            )
            return not self._left

    def _grant(self) -> None:
        with self._changed:
            wants_contents, self._wants_contents = self._wants_contents, False
            wants_tape, self._wants_tape = self._wants_tape, None
            wants_frame, self._wants_frame = self._wants_frame, None
        if self._store is None:
            self._store = RunStore.open(self._store_path)
        if wants_contents:
            self.contents_read.emit(read_contents(self._store, self._run_id))
        if wants_tape is not None:
            self.tape_read.emit(read_tape(self._store, self._run_id, *wants_tape))
        if wants_frame is not None:
            tape, index = wants_frame
            image = image_of(read_pixels(self._store, int(tape.frame_ids[index])))
            self.frame_read.emit(tape, index, image)
