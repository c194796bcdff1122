"""The viewer on a terminal's whole screen, which is given back as it was."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Self, TextIO

from lanekit import FastLaneFrame
from lanekit.viewer.terminal import hud
from lanekit.viewer.terminal.cells import Cells, encode, to_cells
from lanekit.viewer.terminal.pixels import fit, resize, to_rgb
from lanekit.viewer.terminal.stream import Depth, write

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # other screen, no cursor, no wrap at the right edge
_LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # shown in one go where the terminal can
_CLEAR = "\x1b[2J"


@dataclass(frozen=True)
class _Layout:
    """Where things are: the picture, if there is one, and the lines below it, in the middle."""

    columns: int
    rows: int
    width: int = 0
    """Of the picture, in pixels."""
    height: int = 0
    """Of the picture, in pixels, two to a row."""

    @property
    def left(self) -> int:
        return (self.columns - self.width) // 2

    @property
    def top(self) -> int:
        return max(0, (self.rows - hud.LINES - self.height // 2) // 2)

    @property
    def below(self) -> int:
        return self.top + self.height // 2


class FullScreen:
    """The picture and the lines below it, on the terminal's alternate screen."""

    def __init__(self, out: TextIO, depth: Depth) -> None:
        """Prepare for the terminal behind ``out``; nothing is written before entering."""
        self._out = out
        self._depth = depth
        self._keyboard: int | None = None
        self._former: list[int | list[bytes | int]] = []
        self._gone = False
        # What the terminal shows now, to send only what is new.
        self._layout: _Layout | None = None
        self._cells: Cells | None = None
        self._lines: list[str] = []

    def __enter__(self) -> Self:
        if sys.stdin is not None and sys.stdin.isatty():
            self._keyboard = sys.stdin.fileno()
            self._former = termios.tcgetattr(self._keyboard)
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        # A terminal that has gone away needs no restoring.
        with suppress(OSError, termios.error):
            self._give_back()

    def show(self, reading: hud.Reading, frame: FastLaneFrame | None) -> None:
        """Write what changed since the last call."""
        try:
            text = self._changes(reading, frame)
            if text:
                write(self._out, _BEGIN + text + _END)
        except OSError:
            self._gone = True  # the window was closed

    def quit_asked(self) -> bool:
        """Say whether q was pressed since the last call, or the terminal has gone away."""
        if self._gone or self._keyboard is None:
            return self._gone
        try:
            pending = select.select([self._keyboard], [], [], 0)[0]
            return bool(pending) and b"q" in os.read(self._keyboard, 1024).lower()
        except OSError:
            return True

    def suspend(self) -> None:
        """Give the terminal back, stop this process, and take it again when it goes on."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._layout = None
        self._take()

    def _take(self) -> None:
        if self._keyboard is not None:
            tty.setcbreak(self._keyboard, termios.TCSANOW)
        write(self._out, _ENTER)

    def _give_back(self) -> None:
        try:
            write(self._out, _LEAVE)
        finally:
            if self._keyboard is not None:
                termios.tcsetattr(self._keyboard, termios.TCSANOW, self._former)

    def _changes(self, reading: hud.Reading, frame: FastLaneFrame | None) -> str:
        layout = self._lay_out(frame)
        text = ""
        if layout != self._layout:
            self._layout, self._cells, self._lines = layout, None, []
            text = _CLEAR
        if frame is not None and layout.height:
            text += self._paint(frame, layout, dim=reading.state is hud.State.LEFT)
        lines = hud.hud_lines(reading, layout.columns, self._depth)[: layout.rows - layout.below]
        for row, (line, shown) in enumerate(zip_longest(lines, self._lines), layout.below + 1):
            if line != shown:
                text += f"\x1b[{row};1H{line or ''}\x1b[K"
        self._lines = lines
        return text

    def _lay_out(self, frame: FastLaneFrame | None) -> _Layout:
        size = os.get_terminal_size(self._out.fileno())
        # A terminal that does not know its size says zero; cursor addresses end at 999.
        columns, rows = min(size.columns or 80, 999), min(size.lines or 24, 999)
        room = rows - hud.LINES
        if frame is None or room <= 0:
            return _Layout(columns, rows)
        return _Layout(columns, rows, *fit(frame.width, frame.height, columns, room))

    def _paint(self, frame: FastLaneFrame, layout: _Layout, *, dim: bool) -> str:
        image = to_rgb(frame.array, frame.pixel_format)
        pixels = resize(image, layout.width, layout.height)
        shown, self._cells = self._cells, to_cells(pixels // 3 if dim else pixels, self._depth)
        left, top = layout.left + 1, layout.top + 1
        return encode(self._cells, shown, self._depth, top=top, left=left).decode()
