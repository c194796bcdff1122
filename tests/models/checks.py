"""Every checker on the correct source, then on every mutant."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from . import herd, litmus_aarch64, litmus_c11, relacy
from .litmus_programs import PROGRAMS, Program
from .source import Mutant, Source


@dataclass(frozen=True)
class Verdict:
    """One checker's answer about one model."""

    checker: str
    model: str
    found: str  # empty: nothing wrong
    states: int
    unit: str  # what was counted
    complete: bool = True

    def __str__(self) -> str:
        count = f"{self.states:,} {self.unit}"
        return f"{self.checker} {self.model}: {self.found or 'holds'} ({count})"


@dataclass
class Row:
    """A mutant and who caught it."""

    mutant: Mutant
    caught: list[Verdict] = field(default_factory=list)
    missed: list[Verdict] = field(default_factory=list)

    @property
    def checkers(self) -> list[str]:
        return sorted({verdict.checker for verdict in self.caught})


@dataclass
class Report:
    """All there is to say about one run."""

    source: Source
    correct: list[Verdict]
    rows: list[Row]
    seconds: float

    @property
    def wrong(self) -> list[Verdict]:
        return [v for v in self.correct if v.found or not v.complete]

    @property
    def uncaught(self) -> list[Row]:
        return [row for row in self.rows if not row.caught]

    @property
    def passed(self) -> bool:
        return not self.wrong and not self.uncaught

    @property
    def states(self) -> int:
        """Executions that all searches together went through."""
        verdicts = [*self.correct, *(v for row in self.rows for v in (*row.caught, *row.missed))]
        return sum(verdict.states for verdict in verdicts)


@dataclass(frozen=True)
class _LitmusKind:
    """One way to make a litmus test, and the models to ask about it."""

    checker: str
    models: tuple[str, ...]
    generate: Callable[[Mapping[str, str], Program, Path], Path]


def _litmus_kinds(fast: bool) -> Iterator[_LitmusKind]:
    yield _LitmusKind("herd7 C11", litmus_c11.MODELS, litmus_c11.generate)
    for machine in litmus_aarch64.MACHINES[:1] if fast else litmus_aarch64.MACHINES:

        def generate(
            files: Mapping[str, str], program: Program, directory: Path, machine: str = machine
        ) -> Path:
            return litmus_aarch64.generate(files, program, directory, machine)

        yield _LitmusKind(f"herd7 {machine}", (litmus_aarch64.MODEL,), generate)


def _ask(
    kind: _LitmusKind, program: Program, model: str, litmus: Path, settle: bool = False
) -> Verdict:
    answer = herd.ask(litmus, model, settle)
    found = "forbidden outcome" if answer.seen else "data race" if answer.racy else ""
    name = program.name if len(kind.models) == 1 else f"{program.name}/{model.removesuffix('.cat')}"
    return Verdict(kind.checker, name, found, answer.executions, "executions")


class Runner:
    """Runs the checkers. In a fast run each checker stops at the first model that catches."""

    def __init__(self, source: Source, directory: Path, fast: bool, only: str = "") -> None:
        self.source = source
        self.mutants = [m for m in source.mutants if only in m.name]
        self.directory = directory
        self.fast = fast
        self.kinds = list(_litmus_kinds(fast))
        self.program = directory / "relacy_models"
        self.outcomes: dict[str, relacy.Outcome] = {}
        self.litmus: dict[tuple[str, str], str] = {}

    def run(self) -> Report:
        begun = time.monotonic()
        workers = len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(workers) as pool:
            # The C++ compiler is the longest piece: start it first, let litmus tests fill the gap.
            building = pool.submit(relacy.build, self.source, self.directory)
            pairs = [(kind, program) for kind in self.kinds for program in PROGRAMS]
            answers = [pool.submit(self.litmus_correct, *pair) for pair in pairs]
            self.program = building.result()
            names = relacy.models(self.program)
            correct = list(pool.map(self.relacy_correct, names))
            correct += [verdict for answer in answers for verdict in answer.result()]
            rows = list(pool.map(self.mutant, self.mutants))
        return Report(self.source, correct, rows, time.monotonic() - begun)

    def relacy_correct(self, model: str) -> Verdict:
        # What must hold is searched deeper than what must break.
        outcome = relacy.run(self.program, model, more=0 if self.fast else 1)
        self.outcomes[model] = outcome
        return self.relacy_verdict(model, outcome)

    @staticmethod
    def relacy_verdict(model: str, outcome: relacy.Outcome) -> Verdict:
        found = "" if outcome.passed else outcome.found.lower()
        searched = f"up to {outcome.preemptions} preemptions" if outcome.preemptions >= 0 else "all"
        unit = "iterations" if found else f"iterations, {searched}"
        return Verdict("Relacy", model, found, outcome.iterations, unit, outcome.complete)

    def litmus_correct(self, kind: _LitmusKind, program: Program) -> list[Verdict]:
        place = self.directory / f"correct-{kind.checker}-{program.name}".replace(" ", "-")
        litmus = kind.generate(self.source.files, program, place)
        self.litmus[kind.checker, program.name] = litmus.read_text("utf-8")
        return [_ask(kind, program, model, litmus) for model in kind.models]

    def mutant(self, mutant: Mutant) -> Row:
        row = Row(mutant)
        for verdicts in (self.relacy_mutant(mutant), *self.litmus_mutant(mutant)):
            for verdict in verdicts:
                (row.caught if verdict.found else row.missed).append(verdict)
                if verdict.found and self.fast:
                    break
        return row

    def relacy_mutant(self, mutant: Mutant) -> Iterator[Verdict]:
        """Search the models that reach what the mutant changes, the smallest first."""
        for model, outcome in sorted(self.outcomes.items(), key=lambda item: item[1].iterations):
            number = mutant.number if mutant.site is None else mutant.site.number
            if outcome.passed and number in (outcome.swaps if mutant.swap else outcome.sites):
                yield self.relacy_verdict(model, relacy.run(self.program, model, mutant))

    def litmus_mutant(self, mutant: Mutant) -> Iterator[Iterator[Verdict]]:
        for kind in self.kinds:
            yield self.litmus_mutant_kind(mutant, kind)

    def litmus_mutant_kind(self, mutant: Mutant, kind: _LitmusKind) -> Iterator[Verdict]:
        file = mutant.site.file if mutant.site is not None else ""
        file = mutant.swap.file if mutant.swap is not None else file
        changed = mutant.apply(self.source.files)
        for program in PROGRAMS:
            if file not in program.files:
                continue
            place = self.directory / f"{mutant.number}-{kind.checker}".replace(" ", "-")
            litmus = kind.generate(changed, program, place)
            # The same test: this program does not use it, or this machine needs no weaker code.
            if litmus.read_text("utf-8") != self.litmus[kind.checker, program.name]:
                # Machine code has no races to report: there the outcome is the whole question.
                settle = self.fast and kind.models == (litmus_aarch64.MODEL,)
                for model in kind.models:
                    yield _ask(kind, program, model, litmus, settle)
