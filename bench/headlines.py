"""The few rows that a newcomer asks for first: the page begins with them, the README has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from bench.lane_rows import EVENTS, ONE_WAY, PUBLISH, ROUND_TRIP, THROUGHPUT
from bench.report import _table as table
from bench.rows import Row, number

STAR = r"\*"
"""Beside a peer that does something else than ours."""


class Headline(NamedTuple):
    """Which of our rows, in the words of somebody who does not know the lanes yet."""

    what: str
    lane: str
    question: str
    """With * for what a machine's number of cores changes; the case likewise."""
    case: str
    ours: str
    limit: str | None = ""
    """By name; else the one that ours is compared with. None: none that says anything."""


_FRAMES = {"84×84": "an 84×84 frame", "1920×1080": "a 1920×1080 frame"}
_CROWDED = "a round trip of 4096 environments on cores that others use*"
_NEVER_REST = "one pair beside * that never rest"

HEADLINES = (
    *(
        Headline(
            f"publish {frame} from Python, a viewer at 60 Hz", "peers", PUBLISH, case, "lanekit"
        )
        for case, frame in _FRAMES.items()
    ),
    Headline(
        "publish a 1920×1080 frame that was drawn in place",
        *("peers", PUBLISH, "1920×1080", "lanekit, in place", None),
    ),
    *(
        Headline(f"whole {case} frames that reach a reader", "peers", THROUGHPUT, case, "lanekit")
        for case in _FRAMES
    ),
    *(
        Headline(f"an 84×84 frame one way, the {how}", "peers", ONE_WAY, how, "lanekit")
        for how in ("reader spins", "reader sleeps")
    ),
    Headline(
        "step 4096 environments × 100 float32, all written",
        *("step", ROUND_TRIP, "", "lanekit, full write"),
    ),
    Headline(
        "step 4096 environments, one number written",
        *("step", ROUND_TRIP, "", "lanekit, touch", "a cache line, there and back"),
    ),
    *(
        Headline(
            f"the same, processes that never rest beside it, {which}",
            *("step", f"{_CROWDED}, {which}", _NEVER_REST, "lanekit, hybrid"),
        )
        for which in ("p50", "p99")
    ),
    Headline(
        "trajectories of 8,192 tokens from 4 producers",
        *("trajectory", "records received, 4 producers", "8,192 tokens", "lanekit"),
    ),
    Headline(
        "a worker's steps, durable and queryable",
        *("slow", EVENTS, "", "lanekit, Python worker, normal"),
    ),
    Headline(
        "steps of 1,024 MuJoCo hoppers in another process",
        *("engine", "environment steps", "hopper, 1,024", "lanekit, lanes"),
    ),
    Headline(
        "processor time of a 640×480 frame in a window",
        *("viewer", "processor time of a frame shown, on a virtual screen", "640×480"),
        "lanekit's tab",
    ),
)


class Found(NamedTuple):
    """A headline's rows in a run."""

    what: str
    mine: Row
    limit: Row | None
    peers: list[Row]
    """The best first."""


def _limit(line: Headline, mine: Row, rows: Iterable[Row]) -> Row | None:
    """Return the limit that is named, that ours is compared with, or the question's first."""
    limits = [row for row in rows if row.role == "limit"]
    if line.limit is None or not limits:
        return None
    return next((row for row in limits if row.name == (line.limit or mine.base)), limits[0])


def _best(row: Row) -> float:
    value = row.value.median if row.value else 0.0
    return -value if row.better == "more" else value


def found(rows: Iterable[Row]) -> Iterator[Found]:
    """Yield the headlines that a run has."""
    rows = [row for row in rows if row.value is not None]
    for line in HEADLINES:
        same = [
            row
            for row in rows
            if row.lane == line.lane
            and fnmatchcase(row.question, line.question)
            and fnmatchcase(row.case, line.case)
        ]
        mine = next((row for row in same if row.role == "ours" and row.name == line.ours), None)
        if mine is not None:
            peers = [row for row in same if row.role == "peer" and row.rival == line.ours]
            yield Found(line.what, mine, _limit(line, mine, same), sorted(peers, key=_best))


def _value(row: Row | None) -> str:
    return f"{number(row.value.median)} {row.unit}" if row and row.value else ""


def _peers(rows: list[Row], most: int) -> str:
    """Name the best peers, the unit once; a star for those that do something else."""
    if not rows:
        return ""
    named = [
        f"{row.name}{STAR if row.note else ''} {number(row.value.median)}"
        for row in rows[:most]
        if row.value
    ]
    more = f" · {len(rows) - most} more" if len(rows) > most else ""
    return f"{' · '.join(named)} {rows[0].unit}{more}"


def table_of(rows: Iterable[Row], most: int = 99) -> str:
    """Return the headlines as a table, with so many peers at most."""
    lines = (
        (
            each.what,
            f"**{_value(each.mine)}**",
            f"{each.limit.name} {_value(each.limit)}" if each.limit else "",
            _peers(each.peers, most),
        )
        for each in found(rows)
    )
    return table(("what", "lanekit", "the machine's own limit", "peers, the best first"), lines)
