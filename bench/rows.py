"""Every figure of a run as a row of one shape: what a page, a picture and a comparison read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Found = Mapping[str, Any]
"""What a lane's benchmark found, as it is in JSON."""
Role = Literal["ours", "limit", "peer"]
Better = Literal["less", "more"]


@dataclass(frozen=True)
class Figure:
    """A median over the rounds, and between which values the middle half of them lies."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, found: Mapping[str, float]) -> Figure:
        """Take what :func:`bench.samples.quartiles` returned."""
        return cls(found["median"], found["low"], found["high"])


def point(value: float) -> Figure:
    """A figure of one round, or whose rounds were not kept."""
    return Figure(value, value, value)


def number(value: float) -> str:
    """Return a figure with as many digits as mean something."""
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    if value >= 1e4:
        return f"{value / 1e3:.3g} k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@dataclass(frozen=True)
class Row:
    """One way's answer to one question."""

    lane: str
    question: str
    case: str
    """A size, a number of environments, a kind of reader; empty where there is only one."""
    name: str
    role: Role
    unit: str
    better: Better
    value: Figure | None
    """None: see `failed`."""
    ratio: Figure | None = None
    """To the row named by `base`, round by round."""
    base: str = ""
    rival: str = ""
    """For a peer: which of our ways does the same work."""
    about: str = ""
    """Version and calls."""
    note: str = ""
    """What explains the figure, where it is not the same work."""
    failed: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes it the same row in another run."""
        return self.lane, self.question, self.case, self.name

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it, without what is empty."""
        return {key: value for key, value in asdict(self).items() if value not in (None, "")}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Row:
        """Read it back."""
        figures = {
            key: Figure(**found[key]) if key in found else None for key in ("value", "ratio")
        }
        rest = {key: value for key, value in found.items() if key not in figures}
        return cls(case=rest.pop("case", ""), **rest, **figures)  # type: ignore[arg-type]


def factor(better: Better, value: float, other: float) -> float:
    """Return how many times better `value` is than `other`; below 1: how much worse."""
    if value == other:
        return 1.0
    if not value or not other:
        return 0.0 if (better == "more") == (not value) else float("inf")
    return other / value if better == "less" else value / other


def apart(one: Figure, other: Figure) -> bool:
    """Whether the middle halves of the rounds do not even touch; one round has no halves."""
    if one.low == one.high and other.low == other.high:
        return False
    return one.high < other.low or other.high < one.low


@dataclass(frozen=True)
class Ahead:
    """A peer that did better than our way of doing the same work."""

    peer: Row
    ours: Row
    times: float
    clear: bool
    """Beyond the spread of both."""


def peers_ahead(rows: Iterable[Row]) -> list[Ahead]:
    """Return every case in which a peer did better, the clearest first."""
    rows = list(rows)
    ours = {row.key: row for row in rows if row.role == "ours"}
    found = []
    for row in rows:
        mine = ours.get((row.lane, row.question, row.case, row.rival))
        if row.role != "peer" or mine is None or row.value is None or mine.value is None:
            continue
        times = factor(row.better, row.value.median, mine.value.median)
        if times > 1:
            found.append(Ahead(row, mine, times, apart(row.value, mine.value)))
    return sorted(found, key=lambda each: (not each.clear, -each.times))
