"""Where a replay is and what people can do with it, without a pixel."""

from __future__ import annotations

import os
import time

import numpy as np
from PyQt6.QtCore import QObject, QTimer, pyqtSignal

from lanekit.slow.replay.tape import Contents, EpisodeEntry, Player, Tape
from lanekit.viewer.replay.loader import ReplayLoader

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
TICK_MS = 16


class ReplayModel(QObject):
    """Plays one episode's steps at the pace of their recorded times."""

    contents_changed = pyqtSignal()
    """Who recorded which episodes is known, or known anew."""
    tape_changed = pyqtSignal()
    """Another episode is there; or none, while it is being read."""
    moved = pyqtSignal()
    changed = pyqtSignal()
    """Playing, speed, loop or the problem."""
    frame_shown = pyqtSignal(object)

    def __init__(
        self,
        run_id: str,
        store_path: str | os.PathLike[str] | None = None,
        *,
        episode: int | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.run_id = run_id
        self.contents: Contents | None = None
        self.tape: Tape | None = None
        self.player: Player | None = None
        self.episode = episode
        self.index = 0
        self.shown_index: int | None = None
        """The step whose frame is on the screen."""
        self.playing = False
        self.loop = False
        self.speed = 1.0
        self.problem = ""
        """Why there is nothing, or not everything, to see."""
        self._was_playing = False
        self._anchor = (0.0, 0.0)  # this moment of the recording is now, on the monotonic clock
        self._tick = QTimer(self)
        self._tick.setInterval(TICK_MS)
        self._tick.timeout.connect(self._advance)
        self.loader = ReplayLoader(run_id, store_path)
        self.loader.contents_read.connect(self._take_contents)
        self.loader.tape_read.connect(self._take_tape)
        self.loader.frame_read.connect(self._take_frame)
        self.loader.failed.connect(self._take_problem)
        self.loader.start()

    @property
    def last(self) -> int:
        """The index of the last step."""
        return 0 if self.tape is None else len(self.tape) - 1

    @property
    def seconds(self) -> float:
        """How far into the recording this step is."""
        return 0.0 if self.tape is None else float(self.tape.timeline.seconds[self.index])

    @property
    def players(self) -> list[Player]:
        """Who recorded steps."""
        return [] if self.contents is None else list(self.contents.episodes)

    @property
    def entries(self) -> list[EpisodeEntry]:
        """The episodes of the chosen agent."""
        if self.contents is None or self.player is None:
            return []
        return self.contents.episodes[self.player]

    # --- what people do --------------------------------------------------------------------------

    def toggle_play(self) -> None:
        """Play, from the beginning if the end was reached; or pause."""
        if self.playing:
            self.pause()
        else:
            self.play()

    def play(self) -> None:
        """Go on; from the beginning, if the end was reached."""
        if self.tape is None:
            return
        if self.index == self.last:
            self._go_to(0)
        self.playing = True
        self._anchor_here()
        self._tick.start()
        self.changed.emit()

    def pause(self) -> None:
        """Stand still."""
        self._tick.stop()
        if self.playing:
            self.playing = False
            self.changed.emit()

    def seek(self, index: int) -> None:
        """Show a step, playing on from there if it plays."""
        if self.tape is not None:
            self._go_to(max(0, min(self.last, index)))
            self._anchor_here()

    def step_by(self, count: int) -> None:
        """Stand still, so many steps further; backwards if negative."""
        self.pause()
        self.seek(self.index + count)

    def set_speed(self, speed: float) -> None:
        """Play so many times as fast as recorded."""
        if speed not in SPEEDS:
            raise ValueError(f"speed is one of {', '.join(map(str, SPEEDS))}, not {speed}")
        self.speed = speed
        self._anchor_here()
        self.changed.emit()

    def change_speed(self, by: int) -> None:
        """Play faster, or slower if negative, as far as it goes."""
        place = SPEEDS.index(self.speed) + by
        self.set_speed(SPEEDS[max(0, min(len(SPEEDS) - 1, place))])

    def set_loop(self, loop: bool) -> None:
        """Begin again at the end, or stop there."""
        self.loop = loop
        self.changed.emit()

    def choose_player(self, player: Player) -> None:
        """Look at another agent's episodes; at the same one, if it has it."""
        if player != self.player:
            self.player = player
            numbers = [entry.number for entry in self.entries]
            self._load(self.episode if self.episode in numbers else numbers[0])
            self.contents_changed.emit()

    def choose_episode(self, number: int) -> None:
        """Look at another episode."""
        if number != self.episode or self.tape is None:
            self._load(number)

    def episode_by(self, count: int) -> None:
        """Look at a later episode; an earlier one if negative."""
        numbers = [entry.number for entry in self.entries]
        if self.episode in numbers:
            place = numbers.index(self.episode) + count
            if 0 <= place < len(numbers):
                self.choose_episode(numbers[place])

    def reload(self) -> None:
        """Read the store again: the run may have gone on."""
        self.problem = ""
        self.loader.reload()
        self.changed.emit()

    def leave(self) -> None:
        """Stop, and let go of the store."""
        self._tick.stop()
        self.playing = False
        self.loader.leave()

    # --- what the loader tells -------------------------------------------------------------------

    def _take_contents(self, contents: Contents) -> None:
        self.contents = contents
        if not contents.episodes:
            self.problem = "This run has no recorded steps."
            self.changed.emit()
        elif self.player is None:
            # Whoever has frames goes first: people come here to see something.
            self.player = max(
                self.players, key=lambda who: any(entry.frames for entry in contents.episodes[who])
            )
            numbers = [entry.number for entry in self.entries]
            self._load(self.episode if self.episode in numbers else numbers[0])
        elif self.episode is not None and self._has_grown():
            self._load(self.episode)
        self.contents_changed.emit()

    def _take_tape(self, tape: Tape) -> None:
        if (tape.player, tape.episode) == (self.player, self.episode):
            self.tape = tape
            self.problem = ""
            self.shown_index = None
            self.tape_changed.emit()
            self._go_to(0)
            if self._was_playing:
                self.play()

    def _take_frame(self, tape: Tape, index: int, image: object) -> None:
        if tape is self.tape:
            self.shown_index = index
            self.frame_shown.emit(image)

    def _take_problem(self, problem: str) -> None:
        self.pause()
        self.problem = problem
        self.changed.emit()

    def _has_grown(self) -> bool:
        """Whether there is more of the episode than was read."""
        steps = {entry.number: entry.steps for entry in self.entries}
        return self.tape is None or len(self.tape) != steps.get(self.tape.episode)

    # --- details ---------------------------------------------------------------------------------

    def _load(self, episode: int) -> None:
        assert self.player is not None
        self._was_playing = self.playing
        self.pause()
        self.episode = episode
        self.tape = None
        self.index = 0
        self.loader.want_tape(self.player, episode)
        self.tape_changed.emit()

    def _go_to(self, index: int) -> None:
        assert self.tape is not None
        self.index = index
        if self.tape.has_frames:
            self.loader.want_frame(self.tape, index)
        self.moved.emit()

    def _anchor_here(self) -> None:
        self._anchor = (self.seconds, time.monotonic())

    def _advance(self) -> None:
        if self.tape is None:
            return
        moment, then = self._anchor
        now = moment + (time.monotonic() - then) * self.speed
        seconds = self.tape.timeline.seconds
        index = int(np.searchsorted(seconds, now, side="right")) - 1
        index = max(self.index, index)  # of several steps at one moment, none is gone back to
        if index != self.index:
            self._go_to(index)
        elif index == self.last:
            # Only now: the last frame, too, is shown for a tick.
            if self.loop and self.last > 0:
                self._go_to(0)
                self._anchor_here()
            else:
                self.pause()
