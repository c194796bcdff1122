"""Measure framework after framework, and keep what is found as soon as it is found."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from bench import machine
from bench.overhead.crew import ChildFailed, Crew, have_compiled
from bench.overhead.modes import EVERY_STEP, JAX, MODES, TURN_STEPS, order

METHOD = (
    f"One process per mode and seed trains, {TURN_STEPS} steps at a time, by turns with "
    "those of all other modes: each rollout and what is learned from it follow those of the others "
    "within seconds. A ratio is the time of a turn divided by that of bare training's same turn. "
    "The viewer is another process that reads at 60 Hz. Only SBX is pinned to a core, which keeps "
    "JAX to one; the viewer and the process that draws have the other then."
)
WARM_UP_TURNS = 4
"""Of each training, not counted: things are compiled, and the process that draws starts."""


@dataclass(frozen=True)
class Effort:
    """How much to train; only samples of the same effort may stand in one file."""

    steps: int
    """Per framework, seed and mode."""
    every_step_steps: int

    @property
    def turns(self) -> int:
        """Turns of each seed."""
        return -(-self.steps // TURN_STEPS)

    @property
    def every_step_turns(self) -> int:
        """In how many of them every step is drawn in one mode."""
        return min(self.turns, -(-self.every_step_steps // TURN_STEPS))


class Record:
    """The file with all samples: an interrupted run goes on with the seed it was at."""

    def __init__(self, path: Path, effort: Effort) -> None:
        self.path = path
        self.effort = effort
        self.content: dict[str, Any] = {
            "machine": machine.describe(),
            "method": METHOD,
            "effort": asdict(effort),
            "children": [],
            "failed": {},
            "turns": [],
        }
        if path.exists():
            found = load(path)
            for what, ours in (("effort", asdict(effort)), ("method", METHOD)):
                if found[what] != ours:
                    raise ValueError(
                        f"{path} has samples of another {what} ({found[what]}): name another "
                        "directory with --out, or remove the file"
                    )
            self.content = found

    def missing(self, framework: str, seeds: int) -> list[int]:
        """Return the seeds that are not yet trained."""
        taken = {turn["seed"] for turn in self.content["turns"] if turn["framework"] == framework}
        return [seed for seed in range(seeds) if seed not in taken]

    def add_seed(self, turns: list[dict[str, Any]]) -> None:
        """Keep all turns of one seed."""
        self.content["turns"] += turns
        self.content["failed"].pop(turns[0]["framework"], None)
        self._write()

    def add_child(self, **facts: Any) -> None:
        """Keep what is known about a process that has ended."""
        self.content["children"].append(facts)
        self._write()

    def add_failure(self, framework: str, reason: str) -> None:
        """Keep why a framework can not be measured."""
        self.content["failed"][framework] = reason
        self._write()

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        text = json.dumps(self.content, indent=1, ensure_ascii=False) + "\n"
        new.write_text(text, encoding="utf-8")
        os.replace(new, self.path)


def load(path: Path) -> dict[str, Any]:
    """Return what a file of samples contains."""
    content = json.loads(path.read_text(encoding="utf-8"))
    efforts = {field.name for field in fields(Effort)}
    if not isinstance(content, dict) or content.get("effort", {}).keys() != efforts:
        raise ValueError(f"{path} was not written by this version of python -m bench.overhead")
    return content


def run(record: Record, frameworks: Iterable[str], seeds: int, noise: float) -> None:
    """Train what is missing."""
    for framework in frameworks:
        missing = record.missing(framework, seeds)
        if missing:
            _run(record, framework, missing, noise)


def _run(record: Record, framework: str, seeds: list[int], noise: float) -> None:
    """Train with one framework. How noisy it was is kept also if this is interrupted."""
    begin, neighbours = time.monotonic(), machine.Neighbours()
    how = "interrupted"
    try:
        with tempfile.TemporaryDirectory() as compiled:
            if framework in JAX:
                have_compiled(framework, compiled)
            for seed in seeds:
                with Crew(framework, seed, _turns_of_modes(record.effort), compiled) as crew:
                    crew.begin()
                    if noise < 1:
                        machine.wait_until_quiet(noise)
                    record.add_seed(_train(crew, framework, seed, record.effort))
                print(f"{framework}, seed {seed}: done", file=sys.stderr)
        how = "done"
    except ChildFailed as error:
        how = f"failed: {str(error).splitlines()[-1]}"
        record.add_failure(framework, str(error))
    finally:
        seconds, others = time.monotonic() - begin, neighbours.share()
        record.add_child(framework=framework, seconds=round(seconds, 1), others=round(others, 3))
        print(
            f"{framework}: {how}, {seconds:.0f} s, others used {others:.0%} of the machine "
            "meanwhile",
            file=sys.stderr,
        )


def _turns_of_modes(effort: Effort) -> dict[str, int]:
    few = {EVERY_STEP.label: effort.every_step_turns}
    return {mode.label: WARM_UP_TURNS + few.get(mode.label, effort.turns) for mode in MODES}


def _train(crew: Crew, framework: str, seed: int, effort: Effort) -> list[dict[str, Any]]:
    """Train with one seed in all modes by turns, and return the turns that count."""
    turns = []
    few = [mode for mode in MODES if mode is not EVERY_STEP]
    for number in range(-WARM_UP_TURNS, effort.turns):
        modes = order(number, MODES if number < effort.every_step_turns else few)
        samples = [{"place": place, **crew.take_turn(mode)} for place, mode in enumerate(modes)]
        if number >= 0:
            turns.append({"framework": framework, "seed": seed, "turn": number, "samples": samples})
    version = crew.end()
    return [{**turn, "version": version} for turn in turns]
