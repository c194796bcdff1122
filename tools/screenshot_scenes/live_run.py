"""A running worker with a real environment's frames, for every scene that shows one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import gymnasium
import numpy as np
from PyQt6.QtTest import QTest

from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneWriter

PATIENCE = 120.0
"""Seconds: also a busy machine gets there."""


class LiveRun:
    """Plays an environment with a simple policy and publishes what it looks like."""

    def __init__(self, run_id: str, env_id: str, *, seed: int = 3) -> None:
        self._env = gymnasium.make(env_id, render_mode="rgb_array")
        self._observation, _ = self._env.reset(seed=seed)
        self._step = 0
        self._return = 0.0
        height, width, _ = self._picture().shape
        self._writer = FastLaneWriter.create(
            run_id, FastLaneConfig(width, height, capacity=8, metadata_size=128)
        )

    def _picture(self) -> np.ndarray:
        picture = self._env.render()
        assert isinstance(picture, np.ndarray)
        return picture

    def play(self, frames: int) -> None:
        """Publish some frames at the pace of a screen."""
        for _ in range(frames):
            self._observation, reward, over, cut, _ = self._env.step(self._action())
            self._step += 1
            self._return += float(reward)
            self._writer.publish(
                self._picture(),
                metrics=FastLaneMetrics(float(reward), self._return, 1843.2),
                metadata=json.dumps({"step": 41_200 + self._step}).encode(),
            )
            QTest.qWait(20)
            if over or cut:
                self._observation, _ = self._env.reset()
                self._return = 0.0

    def _action(self) -> object:
        if "CartPole" in str(self._env.spec):
            return int(self._observation[2] + 0.5 * self._observation[3] > 0)
        return self._env.action_space.sample()

    def leave(self) -> None:
        """End as a worker does."""
        self._writer.unlink()
        self._writer.close()
        self._env.close()


@contextmanager
def live_run(run_id: str, env_id: str = "CartPole-v1") -> Iterator[LiveRun]:
    """Have a worker for a while."""
    run = LiveRun(run_id, env_id)
    try:
        yield run
    finally:
        run.leave()


def wait_until(condition: Callable[[], bool]) -> None:
    """Let Qt work until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the scene did not come about in {PATIENCE:.0f} seconds")
        QTest.qWait(20)
