"""From samples to ratios, and how far chance may have moved them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.overhead.modes import BARE, COMPARED, IN_PROCESS, MODES, Mode
from bench.overhead.watching import explained

Clock = Literal["wall", "cpu"]
_FIELDS = {"wall": "train_seconds", "cpu": "train_cpu_seconds"}
_RESAMPLES = 10_000
_AT_ONCE = 250  # more take a gigabyte when there are many turns
_ENDS = 0.1

Ratios = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """A ratio, and the interval that holds the true one with 95 % confidence."""

    value: float
    low: float
    high: float


def centre(ratios: Ratios) -> Ratios:
    """Return the geometric mean of the middle 80 % of the ratios, along the last axis.

    Geometric, because what disturbs the one side of a ratio as often as the other shall cancel out;
    without the ends, because one burst of noise shall not decide. The median would need half as
    many turns again for the same interval.
    """
    ends = int(_ENDS * ratios.shape[-1])
    middle = np.sort(np.log(ratios), axis=-1)[..., ends : ratios.shape[-1] - ends]
    return np.asarray(np.exp(middle.mean(axis=-1)))


def bootstrap(groups: Sequence[Sequence[float]]) -> Interval:
    """Return the centre of all values with its interval.

    Groups are drawn with replacement, then values within each: those of one group (a seed) may have
    more in common with each other than with the rest. Always draws the same numbers, so that the
    same samples give the same interval.
    """
    if not groups or not all(groups):
        raise ValueError("no values to take the centre of")
    random = np.random.default_rng(0)
    values = np.array([value for group in groups for value in group])
    sizes = np.array([len(group) for group in groups])
    begins = np.cumsum(sizes) - sizes
    centres = []
    for _ in range(_RESAMPLES // _AT_ONCE):
        # Groups may differ in size: each draw then takes as many as the largest has.
        drawn = random.integers(len(groups), size=(_AT_ONCE, len(groups), 1))
        within = random.random((_AT_ONCE, len(groups), int(sizes.max())))
        picked = begins[drawn] + (within * sizes[drawn]).astype(int)
        centres.append(centre(values[picked].reshape(_AT_ONCE, -1)))
    low, high = np.percentile(centres, (2.5, 97.5))
    return Interval(float(centre(values)), float(low), float(high))


class Watching(NamedTuple):
    """What the viewer saw of the trainings of one mode."""

    frames: int
    hz: float
    """Frames per second of training."""
    different: float
    """The share of frames that did not look like the one before."""
    blind: float
    """The share of turns of which no frame was seen."""
    drawing: float | None
    """Which share of its time the training process drew; None if it was not timed."""


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
    """Seconds that one picture took where the training process draws."""
    explained: Interval
    """The ratio that 60 of these per second explain."""
    watching: dict[Mode, Watching]
    others: tuple[float, float]
    """The least and the greatest share of the machine that others used meanwhile."""


def sample_of(turn: dict[str, Any], mode: Mode) -> dict[str, Any] | None:
    """Return what a turn has of a mode; not all turns have all of them."""
    return next((sample for sample in turn["samples"] if sample["mode"] == mode.label), None)


def per_step(sample: dict[str, Any], clock: Clock) -> float:
    """Return the seconds that a step took."""
    return float(sample[_FIELDS[clock]] / sample["steps"])


def _ratios(turns: list[dict[str, Any]], mode: Mode, clock: Clock) -> list[float]:
    pairs = ((sample_of(turn, mode), sample_of(turn, BARE)) for turn in turns)
    return [per_step(one, clock) / per_step(bare, clock) for one, bare in pairs if one and bare]


def _by_seed(turns: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    seeds: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for turn in turns:
        seeds[turn["seed"]].append(turn)
    return [seeds[seed] for seed in sorted(seeds)]


def _ratio(seeds: list[list[dict[str, Any]]], mode: Mode, clock: Clock) -> Interval:
    return bootstrap([_ratios(turns, mode, clock) for turns in seeds])


def _bare(turns: list[dict[str, Any]], clock: Clock) -> float:
    samples = (sample_of(turn, BARE) for turn in turns)
    return float(np.median([per_step(sample, clock) for sample in samples if sample]))


def _price(turns: list[dict[str, Any]]) -> float:
    samples = [sample for turn in turns if (sample := sample_of(turn, IN_PROCESS))]
    pictures = sum(sample["pictures"] for sample in samples)
    return float(sum(sample["picture_seconds"] for sample in samples) / max(1, pictures))


def _watching(turns: list[dict[str, Any]], mode: Mode) -> Watching:
    samples = [sample for turn in turns if (sample := sample_of(turn, mode))]
    seen = [sample["seen"] for sample in samples]
    frames = sum(s["frames"] for s in seen)
    seconds = sum(sample["train_seconds"] for sample in samples)
    drawn = [sample["picture_seconds"] for sample in samples if "picture_seconds" in sample]
    return Watching(
        frames,
        frames / seconds,
        sum(s["different"] for s in seen) / max(1, frames),
        sum(s["frames"] == 0 for s in seen) / len(seen),
        sum(drawn) / seconds if drawn else None,
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
                {c: _bare(turns, c) for c in clocks},
                {(mode, c): _ratio(seeds, mode, c) for mode in COMPARED for c in clocks},
                _price(turns),
                bootstrap([[explained(_price(turns))] for turns in seeds]),
                {mode: _watching(turns, mode) for mode in MODES if mode.watched},
                (min(others, default=0.0), max(others, default=0.0)),
            )
        )
    return found
