"""The stage in time: stepped at the speed people watch at, published, and recorded."""

from __future__ import annotations

import json
import time
from collections import deque

from lanekit import FastLaneMetrics, FastLaneWriter
from lanekit.demo.ppo import Learner
from lanekit.demo.recording import Recording
from lanekit.demo.stages import Stage


class Show:
    """Steps the stage in time, publishes what it looks like and records it."""

    def __init__(self, writer: FastLaneWriter, stage: Stage, recording: Recording) -> None:
        """Begin at once."""
        self.recording = recording
        self.due = time.monotonic()
        self._writer = writer
        self._stage = stage
        self._steps = 0
        self._reward = 0.0
        self._rate = Rate()

    def step(self, learner: Learner, *, solved: bool) -> bool:
        """Show the next moment if anybody looks, and say whether somebody does."""
        visible = self._writer.watched or self.recording.has_room
        if visible:
            step = self._stage.step(learner.policy, solved=solved)
            image = self._stage.picture()
            self._reward = 0.0 if step is None else step.reward
            self._steps += step is not None
            if step is not None:
                self.recording.shown(step, image)
        metrics = FastLaneMetrics(
            last_reward=self._reward,
            rolling_return=learner.mean_return,
            step_rate_hz=self._rate.update(learner.steps + self._steps, time.monotonic()),
        )
        if visible:
            notes = {
                "update": learner.updates,
                "episode": learner.episodes,
                "best": learner.best_return if learner.episodes else 0.0,
                "policy": "solved" if solved else "learning",
            }
            self._writer.publish(image, metrics=metrics, metadata=json.dumps(notes).encode())
        else:
            self._writer.update_metrics(metrics)
        self.due = max(self.due + 1.0 / self._stage.hz, time.monotonic())
        return visible


class Rate:
    """Counts per second, over the last two seconds."""

    def __init__(self) -> None:
        """Start with no counts."""
        self._marks: deque[tuple[float, int]] = deque()

    def update(self, total: int, now: float) -> float:
        """Note the total so far and return how fast it grows."""
        self._marks.append((now, total))
        while now - self._marks[0][0] > 2.0:
            self._marks.popleft()
        then, before = self._marks[0]
        return (total - before) / (now - then) if now > then else 0.0
