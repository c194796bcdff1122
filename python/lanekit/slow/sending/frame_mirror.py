"""Frames found in a worker's steps, shown on the fast lane while the run goes on.

A convenience for workers that know nothing of shared memory. It never touches telemetry: whatever
goes wrong here is said once, and the frames are in the store all the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from lanekit.errors import LanekitError
from lanekit.fast import FastLaneConfig, FastLaneMetrics, FastLaneWriter, PixelFormat
from lanekit.slow.sending.lines import FrameLine, StepLine

CAPACITY = 16
"""Frames the mirror's ring holds."""
_FORMATS: dict[int, PixelFormat] = {1: "GRAY", 3: "RGB", 4: "RGBA"}
_RETRY_SECONDS = 5.0


class FrameMirror:
    """Publishes steps' frames as the run's fast lane. Used by one thread."""

    def __init__(self, run_id: str, report: Callable[[str], None]) -> None:
        self._run_id = run_id
        self._report = report
        self._writer: FastLaneWriter | None = None
        self._retry_at = 0.0
        self._said = ""
        self._returns: dict[tuple[str, str], tuple[int, float]] = {}
        self._rate = 0.0
        self._counted = 0
        self._counted_since = time.monotonic()

    def show(self, steps: list[StepLine]) -> None:
        """Publish the frames of these steps, with the rewards up to each."""
        self._count(len(steps))
        for step in steps:
            reward = 0.0 if math.isnan(step.reward) else step.reward
            agent = (step.worker_id, step.agent_id)
            episode, total = self._returns.get(agent, (step.episode_index, 0.0))
            total = total + reward if episode == step.episode_index else reward
            self._returns[agent] = (step.episode_index, total)
            if step.frame is not None and time.monotonic() >= self._retry_at:
                self._publish(step.frame, FastLaneMetrics(reward, total, self._rate))

    def close(self) -> None:
        """Leave the fast lane."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            try:
                writer.unlink()
                writer.close()
            except LanekitError as error:
                self._complain(error)

    def _publish(self, frame: FrameLine, metrics: FastLaneMetrics) -> None:
        try:
            shape = (frame.height, frame.width, frame.channels)
            if self._writer is None or self._writer.config.shape != shape:
                self.close()
                config = FastLaneConfig(
                    frame.width, frame.height, frame.channels, _FORMATS[frame.channels], CAPACITY
                )
                self._writer = FastLaneWriter.create(self._run_id, config)
            pixels = np.frombuffer(frame.pixels, dtype=np.uint8).reshape(shape)
            self._writer.publish(pixels, metrics=metrics)
        except (LanekitError, ValueError, OSError) as error:
            self._complain(error)
            self._retry_at = time.monotonic() + _RETRY_SECONDS

    def _count(self, steps: int) -> None:
        self._counted += steps
        passed = time.monotonic() - self._counted_since
        if passed >= 1.0:
            self._rate = self._counted / passed
            self._counted, self._counted_since = 0, time.monotonic()

    def _complain(self, error: Exception) -> None:
        if self._said != str(error):
            self._said = str(error)
            self._report(f"frames are not mirrored to the fast lane now: {error}")
