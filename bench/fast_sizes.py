"""How long the fast lane is measured, and with which frames."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np

from bench.limits import Pixels
from lanekit import FastLaneConfig


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int
    block_seconds: float
    throughput_seconds: float
    latency_frames: int
    publishes: int
    hunt_seconds: float


FULL = Effort(15, 0.03, 0.15, 3000, 10_000_000, 10.0)
QUICK = Effort(5, 0.01, 0.1, 300, 200_000, 1.0)
TINY = Effort(1, 0.001, 0.01, 20, 2_000, 0.1)


@dataclass(frozen=True)
class Size:
    """A frame size, and about how long its memcpy takes, to choose the length of a block."""

    width: int
    height: int
    capacity: int
    about_us: float

    @property
    def label(self) -> str:
        """Width × height."""
        return f"{self.width}×{self.height}"

    @property
    def config(self) -> FastLaneConfig:
        """The geometry of the ring."""
        return FastLaneConfig(self.width, self.height, capacity=self.capacity)

    def block(self, effort: Effort) -> int:
        """Operations per block: at least one lap of the ring."""
        return max(self.capacity, int(effort.block_seconds * 1e6 / self.about_us))


SIZES = (
    Size(84, 84, 128, 2),
    Size(160, 210, 128, 6),
    Size(320, 240, 128, 15),
    Size(640, 480, 128, 80),
    Size(1920, 1080, 16, 800),
)
SMALL = SIZES[0]
LARGE = SIZES[3]


def new_run_id(purpose: str) -> str:
    """Return a name that nobody else has."""
    return f"bench-{purpose}-{os.getpid()}-{time.monotonic_ns()}"


def frames(config: FastLaneConfig, count: int) -> list[Pixels]:
    """Return frames of noise."""
    random = np.random.default_rng(1)
    return [random.integers(0, 256, config.shape, np.uint8) for _ in range(count)]
