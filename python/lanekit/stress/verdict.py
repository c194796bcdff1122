"""What was found, per configuration and in total."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lanekit
from lanekit.stress.plan import Round

CLEAN, FOUND = 0, 1
"""Exit statuses."""


@dataclass(frozen=True)
class Counts:
    """What the parties of a round counted."""

    published: int = 0
    frames: int = 0
    """Frames checked, each once per reader."""
    torn: int = 0
    """Frames that the protocol accepted and that are not what one publish wrote."""
    reordered: int = 0
    """Older than what was seen before, or announced before it was there."""
    skipped: int = 0
    retries: int = 0
    """Copies that the protocol refused, as it should."""
    waits: int = 0
    lost: int = 0
    """Wake-ups that did not come although the announcement had been made."""

    def __add__(self, other: Counts) -> Counts:
        ours, theirs = dataclasses.astuple(self), dataclasses.astuple(other)
        return Counts(*(a + b for a, b in zip(ours, theirs, strict=True)))

    @property
    def errors(self) -> int:
        """Everything that a sound lane never does."""
        return self.torn + self.reordered + self.lost


@dataclass(frozen=True)
class Result:
    """One configuration's outcome."""

    round: Round
    counts: Counts
    seconds: float
    problem: str | None = None
    """Why it could not be carried out."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a run."""

    results: Sequence[Result]
    planned: int
    """Configurations that were to be run."""

    @property
    def total(self) -> Counts:
        """All counts together."""
        return sum((result.counts for result in self.results), Counts())

    @property
    def problems(self) -> list[str]:
        """What could not be carried out."""
        return [f"{r.round.title}: {r.problem}" for r in self.results if r.problem is not None]

    @property
    def status(self) -> int:
        """The exit status: 0 only if frames were checked, all of them well."""
        total = self.total
        return CLEAN if total.frames > 0 and total.errors == 0 and not self.problems else FOUND

    def lines(self) -> list[str]:
        """Return the verdict as people read it."""
        heads = ["CONFIGURATION", *(name.upper() for name in _COLUMNS)]
        rows = [[r.round.title, *_cells(r.counts)] for r in self.results]
        if len(rows) > 1:
            rows.append(["total", *_cells(self.total)])
        widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
        lines = [
            "  ".join(
                [
                    row[0].ljust(widths[0]),
                    *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
                ]
            )
            for row in [heads, *rows]
        ]
        lines += [f"problem: {problem}" for problem in self.problems]
        if len(self.results) < self.planned:
            lines.append(f"stopped after {len(self.results)} of {self.planned} configurations")
        return [*lines, self.summary()]

    def summary(self) -> str:
        """Return the verdict in one line."""
        total = self.total
        seconds = sum(result.seconds for result in self.results)
        rate = total.frames / seconds if seconds > 0 else 0.0
        if total.frames == 0 and total.errors == 0:
            return "no verdict: no frame was checked"
        word = "incomplete" if self.problems else "clean"
        if total.errors:
            word = "FOUND"
        return (
            f"{word}: {total.frames:,} frames checked in {seconds:.1f} s ({rate:,.0f} per second), "
            f"{total.torn:,} torn, {total.reordered:,} reordered, {total.lost:,} wake-ups lost "
            f"of {total.waits:,}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything, for other programs."""
        return {
            "machine": {
                "architecture": platform.machine(),
                "cores": os.cpu_count(),
                "kernel": platform.release(),
                "python": platform.python_version(),
                "lanekit": lanekit.__version__,
            },
            "clean": self.status == CLEAN,
            "complete": len(self.results) == self.planned and not self.problems,
            "configurations_planned": self.planned,
            "configurations": [
                {
                    **dataclasses.asdict(r.round),
                    "seconds": r.seconds,
                    "problem": r.problem,
                    "counts": dataclasses.asdict(r.counts),
                }
                for r in self.results
            ],
            "seconds": sum(r.seconds for r in self.results),
            "total": dataclasses.asdict(self.total),
        }


_COLUMNS = ("frames", "torn", "reordered", "lost", "skipped", "retries", "waits")


def _cells(counts: Counts) -> list[str]:
    return [f"{getattr(counts, name):,}" for name in _COLUMNS]
