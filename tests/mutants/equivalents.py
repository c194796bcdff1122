"""The checked-in list of mutants that change nothing a check could, or should, notice."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from .generation import Mutant

LIST = Path(__file__).resolve().parent / "equivalent.toml"
_FIELDS = {"file", "function", "operator", "source", "nth", "reason"}


class ListError(Exception):
    """The list has an entry that cannot be understood."""


@dataclass(frozen=True)
class Entry:
    """One judgement. Line numbers play no part in it, so that it survives changes elsewhere."""

    file: str
    function: str
    operator: str  # or "*"
    source: str  # the statement with the change marked; `*` stands for any text
    nth: int  # among equal statements of the function, from 1; 0 for all of them
    reason: str

    def covers(self, mutant: Mutant) -> bool:
        """Return whether the entry judges this mutant."""
        file, function, operator, source, nth = mutant.key
        return (
            self.file == file
            and self.function == function
            and self.operator in ("*", operator)
            and self.nth in (0, nth)
            and (self.source == source or fnmatchcase(source, _pattern(self.source)))
        )


def _pattern(source: str) -> str:
    """Let `*` alone stand for any text: C is full of brackets and question marks."""
    return source.replace("[", "[[]").replace("?", "[?]")


def parse(text: str) -> list[Entry]:
    """Read the list."""
    entries = []
    for number, raw in enumerate(tomllib.loads(text).get("equivalent", []), 1):
        if unknown := set(raw) - _FIELDS:
            raise ListError(f"entry {number}: unknown {', '.join(sorted(unknown))}")
        if missing := {"file", "function", "operator", "source", "reason"} - set(raw):
            raise ListError(f"entry {number}: {', '.join(sorted(missing))} missing")
        if not raw["reason"].strip():
            raise ListError(f"entry {number}: a reason is needed")
        entries.append(
            Entry(
                file=raw["file"],
                function=raw["function"],
                operator=raw["operator"],
                source=raw["source"],
                nth=raw.get("nth", 0),
                reason=" ".join(raw["reason"].split()),
            )
        )
    return entries


def judge(mutant: Mutant, entries: Iterable[Entry]) -> Entry | None:
    """Return the entry that says why this mutant is equivalent, or None."""
    return next((entry for entry in entries if entry.covers(mutant)), None)


def stale(entries: Iterable[Entry], mutants: Iterable[Mutant]) -> list[Entry]:
    """Return the entries that judge no mutant any more: the source has changed."""
    by_function: dict[tuple[str, str], list[Mutant]] = {}
    for mutant in mutants:
        by_function.setdefault(mutant.key[:2], []).append(mutant)
    return [
        entry
        for entry in entries
        if not any(entry.covers(m) for m in by_function.get((entry.file, entry.function), ()))
    ]
