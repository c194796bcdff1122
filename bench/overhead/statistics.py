"""From samples to ratios, and how far chance may have moved them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from bench.overhead.modes import BARE, COMPARED, MODES, Mode
from bench.overhead.watching import explained

Clock = Literal["wall", "cpu"]
_FIELDS = {"wall": "train_seconds", "cpu": "train_cpu_seconds"}
_RESAMPLES = 10_000


class Interval(NamedTuple):
    """A median, and the interval that holds the true one with 95 % confidence."""

    value: float
    low: float
    high: float


def bootstrap(groups: Sequence[Sequence[float]]) -> Interval:
    """Return the median of all values with its interval.

    Groups are drawn with replacement, then values within each: those of one group (a seed, trained
    in one process) may have more in common with each other than with the rest. Always draws the
    same numbers, so that the same samples give the same interval.
    """
    if not groups or not all(groups):
        raise ValueError("no values to take the median of")
    random = np.random.default_rng(0)
    values = np.array([value for group in groups for value in group])
    sizes = np.array([len(group) for group in groups])
    begins = np.cumsum(sizes) - sizes
    # Groups may differ in size after an interrupted run: each draw then takes as many as the
    # largest has.
    drawn = random.integers(len(groups), size=(_RESAMPLES, len(groups), 1))
    within = random.random((_RESAMPLES, len(groups), int(sizes.max())))
    picked = begins[drawn] + (within * sizes[drawn]).astype(int)
    medians = np.median(values[picked].reshape(_RESAMPLES, -1), axis=1)
    low, high = np.percentile(medians, (2.5, 97.5))
    return Interval(float(np.median(values)), float(low), float(high))


class Watching(NamedTuple):
    """What the viewer saw of the trainings of one mode."""

    frames: int
    hz: float
    """Frames per second of training, from the first one on."""
    different: float
    """The share of frames that did not look like the one before."""
    wait: float
    """Median seconds from a training's first step to the first frame."""
    least: int
    """Frames seen in the training of which fewest were seen."""


class Findings(NamedTuple):
    """All about one framework."""

    framework: str
    version: str
    seeds: int
    turns: int
    bare: dict[Clock, float]
    """Median seconds per step."""
    ratios: dict[tuple[Mode, Clock], Interval]
    picture: float
    """Median CPU seconds of one picture drawn by the training process."""
    explained: Interval
    """The ratio that 60 of these per second explain."""
    watching: dict[Mode, Watching]
    others: tuple[float, float]
    """The least and the greatest share of the machine that others used meanwhile."""


def per_step(turn: dict[str, Any], mode: Mode, clock: Clock) -> float:
    """Return the seconds that a step of one training took."""
    sample = next(sample for sample in turn["samples"] if sample["mode"] == mode.label)
    return float(sample[_FIELDS[clock]] / sample["steps"])


def _by_seed(turns: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    seeds: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for turn in turns:
        seeds[turn["seed"]].append(turn)
    return [seeds[seed] for seed in sorted(seeds)]


def _ratio(seeds: list[list[dict[str, Any]]], mode: Mode, clock: Clock) -> Interval:
    return bootstrap(
        [
            [per_step(turn, mode, clock) / per_step(turn, BARE, clock) for turn in turns]
            for turns in seeds
        ]
    )


def _watching(turns: list[dict[str, Any]], mode: Mode) -> Watching:
    samples = [s for turn in turns for s in turn["samples"] if s["mode"] == mode.label]
    seen = [sample["seen"] for sample in samples]
    frames = sum(s["frames"] for s in seen)
    shown = sum(
        max(0.0, sample["train_seconds"] - sample["seen"]["wait"])
        for sample in samples
        if sample["seen"]["frames"]
    )
    return Watching(
        frames,
        frames / shown if shown > 0 else 0.0,
        sum(s["different"] for s in seen) / max(1, frames),
        float(np.median([s["wait"] for s in seen if s["frames"]] or [0.0])),
        min(s["frames"] for s in seen),
    )


def find(content: dict[str, Any]) -> list[Findings]:
    """Return what the samples say about each framework, in the order of their first turns."""
    found = []
    for framework in dict.fromkeys(turn["framework"] for turn in content["turns"]):
        turns = [turn for turn in content["turns"] if turn["framework"] == framework]
        seeds = _by_seed(turns)
        others = [c["others"] for c in content["children"] if c["framework"] == framework]
        clocks: tuple[Clock, Clock] = ("wall", "cpu")
        found.append(
            Findings(
                framework,
                turns[0]["version"],
                len(seeds),
                len(turns),
                {c: float(np.median([per_step(t, BARE, c) for t in turns])) for c in clocks},
                {(mode, c): _ratio(seeds, mode, c) for mode in COMPARED for c in clocks},
                float(np.median([turn["picture_seconds"] for turn in turns])),
                bootstrap([[explained(t["picture_seconds"]) for t in turns] for turns in seeds]),
                {mode: _watching(turns, mode) for mode in MODES if mode.watched},
                (min(others, default=0.0), max(others, default=0.0)),
            )
        )
    return found
