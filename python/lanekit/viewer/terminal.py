"""Show a run in the terminal: the newest frame in half-block cells, and its numbers below.

A cell is the character ``▀`` whose foreground colours its upper and whose background its lower
half, so a terminal of 80 columns and 24 rows is a picture of 80 x 48 pixels. Each frame is
averaged down to that size and only cells that changed are sent, which keeps a slow link usable.

What a terminal can not do is left out: without 24-bit colour the picture has 256 colours, with
``NO_COLOR`` it is made of characters of different weight, and a pipe or a dumb terminal gets one
line of numbers per second.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import zip_longest
from types import FrameType
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from lanekit import FastLaneFrame, FastLaneMetrics, FastLaneReader, SegmentNotFound, SegmentNotReady

Bytes = NDArray[np.uint8]

# --- the picture ----------------------------------------------------------------------------------


class Depth(Enum):
    """What a terminal can paint; the value is how many numbers make one colour."""

    TRUE_COLOUR = 3
    INDEXED = 1
    MONO = 0


def colour_depth(environment: Mapping[str, str], encoding: str | None) -> Depth:
    """Say what the terminal that ``environment`` describes can paint.

    A stream whose encoding has no half block gets characters, as one without colour does.
    """
    if environment.get("NO_COLOR") or not _is_unicode(encoding):
        return Depth.MONO
    if environment.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return Depth.TRUE_COLOUR
    return Depth.INDEXED


def to_rgb(array: Bytes, pixel_format: str) -> Bytes:
    """Return a frame's pixels as (height, width, 3), a view where the format allows.

    Transparency is ignored: a frame is what the environment rendered, not a layer.
    """
    if pixel_format == "GRAY":
        height, width = array.shape[:2]
        return np.broadcast_to(array.reshape(height, width, 1), (height, width, 3))
    if pixel_format == "BGRX":
        return array[:, :, 2::-1]
    return array[:, :, :3]


def fit(width: int, height: int, columns: int, rows: int) -> tuple[int, int]:
    """Return the largest size in pixels, in a shape like the frame's, that the cells can hold.

    A cell is two pixels high, and about as wide as half its height, so the pixels are square.
    """
    scale = min(columns / width, 2 * rows / height)
    return max(1, round(width * scale)), max(2, 2 * round(height * scale / 2))


def resize(image: Bytes, width: int, height: int) -> Bytes:
    """Return the image at another size, each pixel the mean of the area it covers."""
    # A frame far larger than the terminal is thinned out first: four samples a side are enough
    # for a mean, and the cost no longer grows with the frame.
    tall, wide = (max(1, n // (4 * m)) for n, m in zip(image.shape, (height, width), strict=False))
    shrunk = _average_rows(image[::tall, ::wide], height)
    turned = _average_rows(shrunk.swapaxes(0, 1), width)
    return np.rint(turned.swapaxes(0, 1)).astype(np.uint8)


def _average_rows(values: NDArray[np.generic], count: int) -> NDArray[np.float32]:
    """Average the first axis down (or stretch it up) to ``count`` equal, maybe fractional, spans.

    The difference of a running sum between two edges is the sum of the span between them. That is
    exact for fractional edges, needs one pass, and unlike a matrix product wakes no BLAS threads,
    which would spin next to the training process that is being watched.
    """
    size = len(values)
    edges = np.linspace(0.0, size, count + 1)
    whole = edges.astype(np.intp)
    part = (edges - whole).astype(np.float32).reshape(-1, *(1 for _ in values.shape[1:]))
    total = np.zeros((size + 1, *values.shape[1:]), np.float32)
    np.cumsum(values, axis=0, dtype=np.float32, out=total[1:])
    after = total[np.minimum(whole + 1, size)]
    upto = total[whole] * (1 - part) + after * part
    return np.multiply(np.diff(upto, axis=0), count / size, dtype=np.float32)


_RAMP = np.frombuffer(b" .:-=+*#%@", np.uint8)
_LUMINANCE = np.array((0.299, 0.587, 0.114), np.float32)


def to_cells(pixels: Bytes, depth: Depth) -> Bytes:
    """Pair the pixel rows into cells: (rows, columns, numbers of upper and lower colour).

    Without colour a cell is one number, the character whose weight matches the brightness.
    """
    upper, lower = pixels[0::2], pixels[1::2]
    if depth is Depth.MONO:
        light = (upper @ _LUMINANCE + lower @ _LUMINANCE) / 2
        weight = np.rint(light * ((len(_RAMP) - 1) / 255)).astype(np.intp)
        return _RAMP[weight][:, :, None]
    if depth is Depth.INDEXED:
        upper, lower = to_indexed(upper), to_indexed(lower)
    return np.concatenate((upper, lower), axis=2)


_CUBE_LEVELS = np.array((0, 95, 135, 175, 215, 255), np.int32)


def to_indexed(pixels: Bytes) -> Bytes:
    """Return the nearest colours of the 256-colour palette: its 6x6x6 cube or its 24 greys."""
    wanted = pixels.astype(np.int32)
    steps = np.searchsorted((_CUBE_LEVELS[1:] + _CUBE_LEVELS[:-1]) / 2, wanted)
    cube_error = ((_CUBE_LEVELS[steps] - wanted) ** 2).sum(axis=2)
    grey = np.clip(np.rint((wanted.mean(axis=2) - 8) / 10), 0, 23).astype(np.int32)
    grey_error = (((8 + 10 * grey)[:, :, None] - wanted) ** 2).sum(axis=2)
    cube = 16 + steps @ np.array((36, 6, 1))
    index: Bytes = np.where(grey_error < cube_error, 232 + grey, cube).astype(np.uint8)
    return index[:, :, None]


_HALF_BLOCK = "▀".encode()


def encode(cells: Bytes, previous: Bytes | None, depth: Depth, *, top: int, left: int) -> bytes:
    """Return what to write so that the picture at cell (``top``, ``left``) shows ``cells``.

    Only cells that differ from ``previous`` are sent, and a colour only where it changes. The
    text of all cells is laid out in one byte matrix with a mask of the bytes to keep, so there is
    no loop over cells.
    """
    if previous is None or previous.shape != cells.shape:
        row, column = (axis.ravel() for axis in np.indices(cells.shape[:2]))
    else:
        row, column = np.nonzero((cells != previous).any(axis=2))
    if not row.size:
        return b""
    sent = cells[row, column]
    # A cell right after its left neighbour is where the cursor already stands.
    jump = np.ones(row.size, bool)
    jump[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1] + 1)

    line = _Line(row.size)
    line.literal(b"\x1b[", jump)
    line.number(row + top, jump)
    line.literal(b";", jump)
    line.number(column + left, jump)
    line.literal(b"H", jump)
    if depth is Depth.MONO:
        line.column(sent, np.True_)
        return line.text()
    introduce = b"8;2" if depth is Depth.TRUE_COLOUR else b"8;5"
    for plane, colour in ((b"\x1b[3", sent[:, : depth.value]), (b"\x1b[4", sent[:, depth.value :])):
        fresh = np.ones(row.size, bool)
        fresh[1:] = (colour[1:] != colour[:-1]).any(axis=1)
        line.literal(plane + introduce, fresh)
        for component in colour.T:
            line.literal(b";", fresh)
            line.number(component, fresh)
        line.literal(b"m", fresh)
    line.literal(_HALF_BLOCK, np.True_)
    return line.text() + b"\x1b[0m"


class _Line:
    """Lays out the text of many cells side by side: rows are cells, columns are bytes."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._text: list[Bytes] = []
        self._keep: list[NDArray[np.bool_]] = []

    def literal(self, text: bytes, where: NDArray[np.bool_] | np.bool_) -> None:
        """Append the same text to each cell that ``where`` selects."""
        self.column(np.frombuffer(text, np.uint8), where)

    def number(self, values: NDArray[np.integer], where: NDArray[np.bool_]) -> None:
        """Append a number below 1000 to each cell that ``where`` selects, in decimal."""
        digits, significant = _decimals()
        self._text.append(digits[values])
        self._keep.append(significant[values] & where[:, None])

    def column(self, text: Bytes, where: NDArray[np.bool_] | np.bool_) -> None:
        """Append bytes, one row per cell or one row for all of them."""
        shape = (self._count, text.shape[-1])
        self._text.append(np.broadcast_to(text, shape))
        self._keep.append(np.broadcast_to(np.reshape(where, (-1, 1)), shape))

    def text(self) -> bytes:
        """Return the kept bytes, cell after cell."""
        return np.hstack(self._text)[np.hstack(self._keep)].tobytes()


@lru_cache(maxsize=1)
def _decimals() -> tuple[Bytes, NDArray[np.bool_]]:
    """Return the three digits of 0..999, and which of them are not leading zeros."""
    numbers = np.arange(1000)
    powers = np.array((100, 10, 1))
    digits = (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)
    return digits, (numbers[:, None] >= powers) | (powers == 1)


# --- the numbers below it -------------------------------------------------------------------------


class State(Enum):
    """What is known of the writer; the value is what the viewer says about it."""

    WAITING = "waiting for run"
    LIVE = "live"
    LEFT = "the writer has left, waiting for a new one"


@dataclass(frozen=True)
class Reading:
    """All that the lines below the picture tell, at one moment."""

    run_id: str
    state: State
    metrics: FastLaneMetrics | None = None
    seq: int = 0
    shown_per_second: float = 0.0
    age_ms: float = 0.0
    skipped: int = 0
    returns: Sequence[float] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)


def read_metadata(metadata: bytes | None) -> dict[str, object]:
    """Return a frame's metadata if it is a JSON object, else nothing: it belongs to the run."""
    if not metadata:
        return {}
    try:
        value = json.loads(metadata)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def printable(text: str, limit: int = 40) -> str:
    """Return the text without characters that could command the terminal, cut if it is long."""
    safe = "".join(c if c.isprintable() else "?" for c in text)
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


def sparkline(values: Sequence[float]) -> str:
    """Draw finite values as a row of bars, the lowest to the highest."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    span = (high - low) or 1.0
    return "".join("▁▂▃▄▅▆▇█"[min(7, int((value - low) / span * 8))] for value in values)


class History:
    """A number over the whole run in at most ``limit`` points, coarser as the run grows."""

    def __init__(self, limit: int, interval: float) -> None:
        """Take one point every ``interval`` seconds until there are ``limit`` of them."""
        self.points: list[float] = []
        self._limit = limit
        self._interval = interval
        self._due = -math.inf

    def add(self, value: float, now: float) -> None:
        """Note the value, if a point is due."""
        if now < self._due or not math.isfinite(value):
            return
        if len(self.points) == self._limit:
            pairs = zip(self.points[::2], self.points[1::2], strict=False)
            self.points = [(one + other) / 2 for one, other in pairs]
            self._interval *= 2
        self.points.append(value)
        self._due = now + self._interval


def status_line(reading: Reading) -> str:
    """Tell everything in one plain line, for a pipe or a dumb terminal."""
    name = printable(reading.run_id)
    if reading.state is State.WAITING:
        return f"waiting for run {name}"
    words = [f"{label} {value}".strip() for label, value in _figures(reading) + _notes(reading)]
    return f"run {name}: {reading.state.value} | " + ", ".join(words)


def hud_lines(reading: Reading, columns: int, depth: Depth) -> list[str]:
    """Return the lines below the picture, none wider than ``columns``, most important first."""
    name = printable(reading.run_id)
    dot = "*" if depth is Depth.MONO else f"\x1b[{_DOT_COLOURS[reading.state]}m●\x1b[0m"
    if reading.state is State.WAITING:
        head = [("", f"{State.WAITING.value} {name}")]
    else:
        head = [("run", name), ("", reading.state.value)]
    lines = [dot + _tabulate([*head, ("q", "quits")], columns)[1:]]
    if figures := _figures(reading):
        told, arrived = figures[:_TOLD], figures[_TOLD:]
        if depth is not Depth.MONO and len(reading.returns) > 1:
            told.append(("", sparkline(reading.returns)))
        lines += [_tabulate(told, columns), _tabulate(arrived, columns)]
    if notes := _notes(reading):
        lines.append(_tabulate(notes, columns))
    return lines


_DOT_COLOURS = {State.WAITING: 33, State.LIVE: 32, State.LEFT: 31}

_TOLD = 3
"""How many of the figures come from the run; the others are about how its frames arrive."""


def _figures(reading: Reading) -> list[tuple[str, str]]:
    metrics = reading.metrics
    if metrics is None:
        return []
    return [
        ("reward", f"{metrics.last_reward:.2f}"),
        ("return", f"{metrics.rolling_return:.1f}"),
        ("step/s", f"{metrics.step_rate_hz:,.0f}"),
        ("frame", f"{reading.seq:,}"),
        ("fps", f"{reading.shown_per_second:.1f}"),
        ("age", f"{reading.age_ms:.0f} ms"),
        ("skipped", f"{reading.skipped:,}"),
    ]


def _notes(reading: Reading) -> list[tuple[str, str]]:
    return [
        (printable(key.replace("_", " ")), printable(_short(value)))
        for key, value in reading.metadata.items()
    ]


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


_TAB = 16


def _tabulate(pairs: Sequence[tuple[str, str]], width: int) -> str:
    """Set dim labels and bright values at tab stops, so that they stand still as numbers grow.

    A pair that no longer fits is left out, never cut.
    """
    line, used = "", 0
    for label, value in pairs:
        gap = " " if label else ""
        start = 2 + _TAB * math.ceil(used / _TAB)
        end = start + len(label) + len(gap) + len(value)
        if end > width:
            break
        line += " " * (start - used) + f"\x1b[2m{label}\x1b[0m{gap}\x1b[1m{value}\x1b[0m"
        used = end
    return line


# --- the two ways to show it ----------------------------------------------------------------------


class PlainLines:
    """One line per second, and one whenever the state changes."""

    def __init__(self, out: TextIO) -> None:
        """Write to ``out``, whatever it is."""
        self._out = out
        self._due = -math.inf
        self._state: State | None = None
        self._unread = False

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, reading: Reading, frame: FastLaneFrame | None) -> None:
        """Write a line if one is due."""
        now = time.monotonic()
        if now < self._due and reading.state is self._state:
            return
        repeated = reading.state is self._state and reading.state is not State.LIVE
        self._due, self._state = now + 1.0, reading.state
        if repeated:
            return
        try:
            _write(self._out, status_line(reading) + "\n")
        except BrokenPipeError:
            # Whoever reads the pipe has seen enough. What is still buffered must not fail at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())
            self._unread = True

    def quit_asked(self) -> bool:
        """Say whether nobody reads the lines any more; there are no keys here."""
        return self._unread

    def suspend(self) -> None:
        """Stop this process; there is nothing to give back."""
        os.kill(os.getpid(), signal.SIGSTOP)


_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # other screen, no cursor, no wrap at the right edge
_LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_HUD_ROWS = 4
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # shown in one go where the terminal can


class FullScreen:
    """The picture and the lines below it, on the terminal's alternate screen."""

    def __init__(self, out: TextIO, depth: Depth) -> None:
        """Prepare for the terminal behind ``out``; nothing is written before entering."""
        self._out = out
        self._depth = depth
        self._keyboard: int | None = None
        self._former: list[int | list[bytes | int]] = []
        self._layout = (0, 0, True)
        self._cells: Bytes | None = None
        self._hud: list[str] = []
        self._gone = False

    def __enter__(self) -> FullScreen:
        if sys.stdin is not None and sys.stdin.isatty():
            self._keyboard = sys.stdin.fileno()
            self._former = termios.tcgetattr(self._keyboard)
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        # A terminal that has gone away needs no restoring.
        with suppress(OSError, termios.error):
            self._give_back()

    def show(self, reading: Reading, frame: FastLaneFrame | None) -> None:
        """Write what changed since the last call."""
        try:
            self._update(reading, frame)
        except OSError:
            self._gone = True  # the window was closed

    def _update(self, reading: Reading, frame: FastLaneFrame | None) -> None:
        columns, rows = self._measure()
        text = ""
        layout = (columns, rows, frame is None)
        if layout != self._layout:
            self._layout, self._cells, self._hud = layout, None, []
            text = "\x1b[2J"
        hud = hud_lines(reading, columns, self._depth)[:rows]
        room = rows // 2 if frame is None else max(0, rows - _HUD_ROWS)
        if frame is not None and room:
            text += self._paint(frame, columns, room, dim=reading.state is State.LEFT)
        for row, (line, before) in enumerate(zip_longest(hud, self._hud), start=room + 1):
            if line != before:
                text += f"\x1b[{row};1H{line or ''}\x1b[K"
        self._hud = hud
        if text:
            _write(self._out, _BEGIN + text + _END)

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
        self._layout = (0, 0, True)
        self._take()

    def _take(self) -> None:
        if self._keyboard is not None:
            tty.setcbreak(self._keyboard, termios.TCSANOW)
        _write(self._out, _ENTER)

    def _give_back(self) -> None:
        try:
            _write(self._out, _LEAVE)
        finally:
            if self._keyboard is not None:
                termios.tcsetattr(self._keyboard, termios.TCSANOW, self._former)

    def _measure(self) -> tuple[int, int]:
        size = os.get_terminal_size(self._out.fileno())
        # A terminal that does not know its size says zero; cursor addresses end at 999.
        return min(size.columns or 80, 999), min(size.lines or 24, 999)

    def _paint(self, frame: FastLaneFrame, columns: int, room: int, *, dim: bool) -> str:
        image = to_rgb(frame.array, frame.pixel_format)
        width, height = fit(image.shape[1], image.shape[0], columns, room)
        pixels = resize(image, width, height)
        cells = to_cells(pixels // 3 if dim else pixels, self._depth)
        text = ""
        if self._cells is not None and self._cells.shape != cells.shape:
            text, self._cells, self._hud = "\x1b[2J", None, []
        top, left = 1 + (room - height // 2) // 2, 1 + (columns - width) // 2
        text += encode(cells, self._cells, self._depth, top=top, left=left).decode()
        self._cells = cells
        return text


def face_for(out: TextIO, environment: Mapping[str, str]) -> FullScreen | PlainLines:
    """Choose the best that the stream can show."""
    if not out.isatty() or environment.get("TERM", "dumb") == "dumb":
        return PlainLines(out)
    return FullScreen(out, colour_depth(environment, out.encoding))


def _write(out: TextIO, text: str) -> None:
    """Write at once; a run's name may hold characters that the stream has no code for."""
    encoding = out.encoding or "ascii"
    out.write(text.encode(encoding, "replace").decode(encoding))
    out.flush()


def _is_unicode(encoding: str | None) -> bool:
    return (encoding or "").lower().replace("-", "").startswith("utf")


# --- the loop -------------------------------------------------------------------------------------


class QuitSignals:
    """Turns signals into flags for as long as it is entered, then puts the handlers back.

    A flag, unlike an exception, can not cut an escape sequence or a clean-up in two. A signal that
    was ignored before, as under ``nohup``, stays ignored. Off the main thread, where Python allows
    no handlers, nothing happens.
    """

    def __init__(self) -> None:
        """Prepare; no handler is touched before entering."""
        self.quit = False
        self.suspend = False
        self._former: dict[signal.Signals, Callable[[int, FrameType | None], object] | int] = {}

    def __enter__(self) -> QuitSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP):
                former = signal.getsignal(number)
                if former is not None and former != signal.SIG_IGN:
                    self._former[number] = former
                    signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)

    def _note(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGTSTP:
            self.suspend = True
        else:
            self.quit = True


@dataclass(frozen=True)
class Outcome:
    """How watching a run ended."""

    frames_shown: int
    appeared: bool
    """Whether there was a writer at all."""
    metadata: Mapping[str, object]
    """What the newest frame said about itself."""


_SLICE = 0.05
"""The longest sleep, in seconds, so that keys and signals feel immediate."""

_REFRESH = 0.2
"""Seconds after which the numbers are written anew although no frame came."""


class _Watch:
    """A run being watched: its reader, its newest picture, and what was shown of it so far."""

    def __init__(self, run_id: str, interval: float) -> None:
        self.frames_shown = 0
        self.metadata: dict[str, object] = {}
        self._run_id = run_id
        self._interval = interval
        self._reader: FastLaneReader | None = None
        self._frame: FastLaneFrame | None = None
        self._returns = History(limit=28, interval=0.25)
        self._moments: deque[float] = deque(maxlen=31)
        self._state = State.WAITING
        self._frame_due = self._refresh_due = -math.inf

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.close()

    @property
    def appeared(self) -> bool:
        return self._reader is not None

    def tick(self, face: FullScreen | PlainLines) -> None:
        """Wait a little for something new, and show it."""
        now = time.monotonic()
        if now < self._frame_due:
            time.sleep(min(self._frame_due - now, _SLICE))
            return
        if self._reader is None:
            self._reader = self._attach()
        if self._reader is None:
            time.sleep(_SLICE)
        else:
            # Spinning would save microseconds that no eye can see, at the training's expense.
            self._reader.wait(_SLICE, strategy="block")
            self._read(self._reader)
        now = time.monotonic()
        if now >= self._refresh_due:
            face.show(self._reading(now), self._frame)
            self._refresh_due = now + _REFRESH

    def _attach(self) -> FastLaneReader | None:
        try:
            # The writer must not think us gone between two frames that are far apart.
            return FastLaneReader.attach(self._run_id, lease=min(3600.0, 1.0 + self._interval))
        except (SegmentNotFound, SegmentNotReady):
            return None

    def _read(self, reader: FastLaneReader) -> None:
        state = State.LIVE if reader.connected else State.LEFT
        frame = reader.latest_frame(fresh=True)
        now = time.monotonic()
        if frame is not None:
            self._frame = frame
            self.metadata = read_metadata(frame.metadata)
            self.frames_shown += 1
            self._moments.append(now)
            self._returns.add(frame.metrics.rolling_return, now)
            # From the moment it was due, not from now, or the rate would stay below the one asked.
            self._frame_due = max(self._frame_due + self._interval, now)
        if frame is not None or state is not self._state:
            self._state = state
            self._refresh_due = now

    def _reading(self, now: float) -> Reading:
        if self._reader is None or self._frame is None:
            return Reading(self._run_id, self._state)
        age_ns = time.monotonic_ns() - self._frame.timestamp_ns
        recent = [moment for moment in self._moments if moment > now - 2.0]
        span = now - recent[0] if len(recent) > 1 else math.inf
        return Reading(
            self._run_id,
            self._state,
            metrics=self._frame.metrics,
            seq=self._frame.seq,
            shown_per_second=(len(recent) - 1) / span,
            age_ms=age_ns / 1e6,
            skipped=self._reader.stats().skipped,
            returns=tuple(self._returns.points),
            metadata=self.metadata,
        )


def follow(
    run_id: str,
    *,
    fps: float = 30.0,
    seconds: float | None = None,
    out: TextIO | None = None,
    wait_for_writer: float | None = 10.0,
    alive: Callable[[], bool] = lambda: True,
) -> Outcome:
    """Show the run until the user quits, ``seconds`` have passed or ``alive`` says no.

    ``wait_for_writer`` bounds the wait for the first writer; None waits for ever. A writer that
    leaves is waited for without a bound.
    """
    if not 0 < fps < math.inf:
        raise ValueError(f"fps must be a positive number, got {fps}")
    stream = sys.stdout if out is None else out
    started = time.monotonic()
    end = math.inf if seconds is None else started + seconds
    patience = math.inf if wait_for_writer is None else started + wait_for_writer
    with (
        QuitSignals() as signals,
        face_for(stream, os.environ) as face,
        _Watch(run_id, 1.0 / fps) as watched,
    ):
        while not signals.quit and not face.quit_asked() and alive():
            now = time.monotonic()
            if now >= end or (now >= patience and not watched.appeared):
                break
            if signals.suspend:
                signals.suspend = False
                face.suspend()
            watched.tick(face)
    return Outcome(watched.frames_shown, watched.appeared, watched.metadata)


def watch(
    run_id: str,
    *,
    fps: float = 30.0,
    seconds: float | None = None,
    out: TextIO | None = None,
    wait_for_writer: float | None = 10.0,
) -> int:
    """Show the run as :func:`follow` does, and return an exit status: 1 if no writer appeared."""
    outcome = follow(run_id, fps=fps, seconds=seconds, out=out, wait_for_writer=wait_for_writer)
    return 0 if outcome.appeared else 1
