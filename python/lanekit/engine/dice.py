"""Random numbers of many environments, each with a sequence of its own.

An environment's numbers depend on its seed and on how many it has drawn, not on who draws beside
it: the same seed gives the same episode in a lane of one and in a lane of thousands. A generator
object for each would do so too, but takes longer to seed than a whole reset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lanekit.errors import EngineError

Ids = npt.NDArray[np.intp]
Numbers = npt.NDArray[np.float64]

# The constants of SplitMix64, which turns a counter into numbers that pass for random.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_FOR_UNIT = 2.0**-53


class Dice:
    """One sequence of random numbers for each environment."""

    def __init__(self, num_envs: int, seed: int) -> None:
        """Seed environment i with `seed` + i."""
        self._keys = np.zeros(num_envs, np.uint64)
        self._drawn = np.zeros(num_envs, np.uint64)
        self.seed(np.arange(num_envs), np.uint64(seed % 2**64) + np.arange(num_envs, dtype="u8"))

    def seed(self, ids: Ids, seeds: npt.NDArray[np.uint64]) -> None:
        """Begin new sequences for some environments."""
        # Mixed first: neighbouring seeds must not have neighbouring sequences.
        self._keys[ids] = _mixed(_mixed(seeds.astype(np.uint64)) ^ _GAMMA)
        self._drawn[ids] = 0

    def uniform(self, ids: Ids, count: int) -> Numbers:
        """Return [len(ids), count] numbers, each at least 0 and below 1."""
        places = self._drawn[ids, None] + np.arange(count, dtype=np.uint64)
        self._drawn[ids] += np.uint64(count)
        words = _mixed(self._keys[ids, None] + places * _GAMMA)
        return (words >> np.uint64(11)).astype(np.float64) * _FOR_UNIT

    def between(self, ids: Ids, least: float, most: float, count: int = 1) -> Numbers:
        """Return [len(ids), count] numbers from a closed interval."""
        return least + (most - least) * self.uniform(ids, count)

    def normal(self, ids: Ids, count: int) -> Numbers:
        """Return [len(ids), count] numbers of a standard normal distribution."""
        pairs = self.uniform(ids, 2 * count)
        radius = np.sqrt(-2.0 * np.log1p(-pairs[:, :count]))
        spread: Numbers = radius * np.cos(2 * np.pi * pairs[:, count:])
        return spread


def seeds_from(first: int, count: int) -> npt.NDArray[np.uint64]:
    """Return `count` seeds, one after the other."""
    if first + count > 2**64:
        raise EngineError(f"seeds end at 2**64 - 1: {first} has none for {count} environments")
    return np.uint64(first) + np.arange(count, dtype=np.uint64)


def _mixed(words: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    # Products that are too large are meant to wrap; numpy's arrays do so without a word.
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    mixed: npt.NDArray[np.uint64] = words ^ (words >> np.uint64(31))
    return mixed
