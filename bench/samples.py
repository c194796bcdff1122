"""Turning many samples into few honest numbers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[Any]
Block = Callable[[], Samples]


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep Python's garbage collector from starting inside a sample."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def percentiles(samples: Samples) -> dict[str, float]:
    """Return p50 and p99 in microseconds of samples in nanoseconds."""
    p50, p99 = np.percentile(samples, (50, 99))
    return {"p50_us": float(p50) / 1000, "p99_us": float(p99) / 1000}


def alternate(
    blocks: Mapping[str, Block],
    rounds: int,
    describe: Callable[[Samples], dict[str, float]] = percentiles,
) -> dict[str, list[dict[str, float]]]:
    """Run all blocks in turn, round after round, so that a noisy moment hits each alike.

    Every other round goes backwards, so that no block always follows the same one.
    """
    names = list(blocks)
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with undisturbed():
        for i in range(rounds):
            for name in names if i % 2 == 0 else reversed(names):
                results[name].append(describe(blocks[name]()))
    return results


def median(results: list[dict[str, float]], key: str = "p50_us") -> float:
    """Return the median over all rounds."""
    return float(np.median([result[key] for result in results]))


def ratios(results: list[dict[str, float]], limit: list[dict[str, float]]) -> list[float]:
    """Return, for each round, how many times the limit's p50 it took."""
    pairs = zip(results, limit, strict=True)
    return [ours["p50_us"] / least["p50_us"] for ours, least in pairs]


def ratio(results: list[dict[str, float]], limit: list[dict[str, float]]) -> float:
    """Return the median over all rounds of how many times the limit's p50 it took."""
    return float(np.median(ratios(results, limit)))


def _ends(name: str, values: Sequence[float]) -> dict[str, float]:
    found = quartiles(values)
    return {f"{name}_low": found["low"], f"{name}_high": found["high"]}


def quartiles(values: Sequence[float] | Samples) -> dict[str, float]:
    """Return the median over the rounds, and between which values the middle half of them lies."""
    low, middle, high = (float(value) for value in np.percentile(values, (25, 50, 75)))
    return {"median": middle, "low": low, "high": high}


def summary(
    results: Mapping[str, list[dict[str, float]]], limits: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Return p50, p99 and, where `limits` names one, the ratio to a limit of the same run.

    Between "…_low" and "…_high" lies the middle half of the rounds.
    """
    rows: dict[str, dict[str, float]] = {}
    for name, rounds in results.items():
        rows[name] = {key: median(rounds, key) for key in ("p50_us", "p99_us")}
        rows[name] |= _ends("p50", [each["p50_us"] for each in rounds])
        if name in limits:
            compared = ratios(rounds, results[limits[name]])
            rows[name] |= {"ratio": float(np.median(compared)), **_ends("ratio", compared)}
    return rows
