"""What became slower between two runs: ``python -m bench compare A.json B.json``.

Of each row that is lanekit's own its ratio to the limit in the same run is compared, because a
machine that is slower today slows both sides of it; where there is none, the figure itself. A row
has become worse when it did so by more than the tolerance *and* the middle halves of the rounds of
both runs do not touch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.record import Record, RecordError, load
from bench.report import _table as table
from bench.rows import Figure, Row, apart, factor

Verdict = Literal["slower", "faster", "missing", "same"]


@dataclass(frozen=True)
class Change:
    """One row in both runs."""

    before: Row
    after: Row | None
    times: float
    """How many times worse it has become; below 1: better."""
    verdict: Verdict

    def line(self) -> tuple[str, ...]:
        """Return it as cells of a table."""
        one, other = self.before, self.after
        where = ", ".join(part for part in (one.lane, one.question, one.case) if part)
        if other is None or other.value is None:
            why = other.failed if other is not None else "not in the second run"
            return self.verdict, where, one.name, _cell(one), why, ""
        return self.verdict, where, one.name, _cell(one), _cell(other), f"×{self.times:.2f}"


def _figures(before: Row, after: Row) -> tuple[Figure | None, Figure | None, str]:
    if before.ratio and after.ratio and before.base == after.base:
        return before.ratio, after.ratio, f"× {before.base}"
    return before.value, after.value, before.unit


def _cell(row: Row) -> str:
    found, unit = (row.ratio, f"× {row.base}") if row.ratio else (row.value, row.unit)
    return (
        "" if found is None else f"{found.median:.4g} ({found.low:.4g} – {found.high:.4g}) {unit}"
    )


def changes(before: Iterable[Row], after: Iterable[Row], tolerance: float) -> list[Change]:
    """Return how each of our rows of the first run has changed."""
    found = {row.key: row for row in after}
    judged = []
    for row in before:
        if row.role != "ours" or row.value is None:
            continue
        other = found.get(row.key)
        if other is None or other.value is None:
            judged.append(Change(row, other, float("inf"), "missing"))
            continue
        one, two, _ = _figures(row, other)
        assert one is not None
        assert two is not None
        times = factor(row.better, one.median, two.median)
        verdict: Verdict = "same"
        if apart(one, two) and times > 1 + tolerance:
            verdict = "slower"
        elif apart(one, two) and times < 1 / (1 + tolerance):
            verdict = "faster"
        judged.append(Change(row, other, times, verdict))
    return judged


def regressed(judged: Iterable[Change]) -> list[Change]:
    """Return what is a reason to look: slower, or measured once and failing now."""
    return [
        change
        for change in judged
        if change.verdict == "slower"
        or (change.verdict == "missing" and change.after is not None and change.after.failed)
    ]


def _warnings(before: Record, after: Record) -> Iterable[str]:
    for what in ("cpu", "cores", "python"):
        one, two = before.machine.get(what), after.machine.get(what)
        if one != two:
            yield f"not the same {what}: {one} and {two}"
    if before.mode != after.mode:
        yield f"not the same effort: {before.mode} and {after.mode}"
    for record, name in ((before, "first"), (after, "second")):
        if record.noise > 0.1:
            yield f"others used up to {record.noise:.0%} of the machine during the {name} run"


def main(arguments: argparse.Namespace) -> int:
    """Print what has changed; 1 when something has become slower, 2 when it can not be told."""
    try:
        before, after = load(Path(arguments.before)), load(Path(arguments.after))
    except RecordError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for warning in _warnings(before, after):
        print(f"beware: {warning}")
    judged = changes(before.rows, after.rows, arguments.tolerance)
    if not judged:
        print(f"error: {arguments.before} has no row of lanekit's own", file=sys.stderr)
        return 2
    order = ("slower", "missing", "faster")
    told = sorted(
        (change for change in judged if change.verdict in order),
        key=lambda change: (order.index(change.verdict), -change.times),
    )
    if told:
        header = ("", "where", "row", "first", "second", "slower")
        print(table(header, (change.line() for change in told)))
    same = sum(change.verdict == "same" for change in judged)
    worse = regressed(judged)
    print(f"{len(judged)} rows compared: {len(worse)} regressed, {same} within the spread")
    return 1 if worse else 0
