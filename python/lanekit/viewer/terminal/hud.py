"""The numbers below the picture, as text: a few aligned lines, or one plain line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from lanekit import FastLaneMetrics
from lanekit.viewer.terminal.sparkline import sparkline
from lanekit.viewer.terminal.stream import Depth

LINES = 4
"""How many lines there are at most."""

_TAB = 16

Pair = tuple[str, str]


class State(Enum):
    """What is known of the writer; the value is what the viewer says about it."""

    WAITING = "waiting for run"
    LIVE = "live"
    LEFT = "the writer has left, waiting for a new one"


_DOT_COLOURS = {State.WAITING: 33, State.LIVE: 32, State.LEFT: 31}


@dataclass(frozen=True)
class Reading:
    """All that there is to tell, at one moment."""

    run_id: str
    state: State
    metrics: FastLaneMetrics | None = None
    """What the run says of itself; None before there is a run."""
    seq: int = 0
    """The frame in the picture; 0 before there is one."""
    shown_per_second: float = 0.0
    age_ms: float = 0.0
    skipped: int = 0
    returns: Sequence[float] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)


def status_line(reading: Reading) -> str:
    """Tell everything in one plain line, for a pipe or a dumb terminal."""
    name = printable(reading.run_id)
    if reading.state is State.WAITING:
        return f"{State.WAITING.value} {name}"
    pairs = _progress(reading) + _arrival(reading) + _notes(reading)
    return f"run {name}: {reading.state.value} | " + ", ".join(map(" ".join, pairs))


def hud_lines(reading: Reading, columns: int, depth: Depth) -> list[str]:
    """Return the lines below the picture, none wider than ``columns``, most important first."""
    name = printable(reading.run_id)
    dot = "*" if depth is Depth.MONO else f"\x1b[{_DOT_COLOURS[reading.state]}m●\x1b[0m"
    if reading.state is State.WAITING:
        head = [("", f"{State.WAITING.value} {name}")]
    else:
        head = [("run", name), ("", reading.state.value)]
    progress = _progress(reading)
    if depth is not Depth.MONO and len(reading.returns) > 1:
        progress.append(("", sparkline(reading.returns)))
    below = [pairs for pairs in (progress, _arrival(reading), _notes(reading)) if pairs]
    first = dot + _tabulate([*head, ("quit", "q")], columns)[1:]
    return [first, *(_tabulate(pairs, columns) for pairs in below)]


def printable(text: str, limit: int = 40) -> str:
    """Return the text without characters that could command the terminal, cut if it is long."""
    safe = "".join(c if c.isprintable() else "?" for c in text)
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


def _progress(reading: Reading) -> list[Pair]:
    """Tell what the run says of itself."""
    metrics = reading.metrics
    if metrics is None:
        return []
    return [
        ("reward", f"{metrics.last_reward:.2f}"),
        ("step/s", f"{metrics.step_rate_hz:,.0f}"),
        ("return", f"{metrics.rolling_return:.1f}"),  # last, beside its history
    ]


def _arrival(reading: Reading) -> list[Pair]:
    """Tell how its frames arrive here."""
    if not reading.seq:
        return []
    return [
        ("frame", f"{reading.seq:,}"),
        ("fps", f"{reading.shown_per_second:.1f}"),
        ("age", _duration(reading.age_ms)),
        ("skipped", f"{reading.skipped:,}"),
    ]


def _notes(reading: Reading) -> list[Pair]:
    """Tell what the frame carries along."""
    return [
        (printable(key.replace("_", " ")), printable(_short(value)))
        for key, value in reading.metadata.items()
    ]


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:,.0f} s"


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _tabulate(pairs: Sequence[Pair], width: int) -> str:
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
