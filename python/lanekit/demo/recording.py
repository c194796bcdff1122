"""What the store keeps of the demo: every episode, and pictures of those that were shown."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lanekit.demo.ppo import Ended
from lanekit.demo.stages import StageStep
from lanekit.slow.emit import Emitter

LEARNER, STAGE = "learner", "stage"
"""Agent ids: the environments that are learned in, and the one that is shown."""

FRAME_EVERY = 4
"""Steps of the stage between two recorded pictures."""

LARGEST = 320
"""Pixels of a recorded picture's longer side, at most."""


class Recording:
    """Tells the slow lane; a picture's pixels are stored as they are, so there is a limit."""

    def __init__(self, telemetry: Emitter | None, room: int) -> None:
        """Tell `telemetry`, if there is one, with at most `room` bytes of pixels."""
        self._telemetry = telemetry
        self._room = 0 if telemetry is None else room
        self._learned = 0
        self._episode = self._step = 0
        self._return = 0.0

    @property
    def has_room(self) -> bool:
        """Whether pictures are still recorded."""
        return self._room > 0

    def learned(self, ended: Ended) -> None:
        """Tell of an episode that was learned from."""
        if self._telemetry is not None:
            self._telemetry.episode(
                self._learned,
                episode_return=ended.episode_return,
                length=ended.length,
                agent_id=LEARNER,
            )
        self._learned += 1

    def shown(self, step: StageStep, image: NDArray[np.uint8]) -> None:
        """Tell of a step of the stage, now and then with its picture."""
        over = step.terminated or step.truncated
        self._return += step.reward
        if self._telemetry is not None:
            self._telemetry.step(
                self._episode,
                self._step,
                observation=step.observation,
                action=step.action,
                reward=step.reward,
                terminated=step.terminated,
                truncated=step.truncated,
                frame=self._picture(image) if over or self._step % FRAME_EVERY == 0 else None,
                agent_id=STAGE,
            )
            if over:
                self._telemetry.episode(
                    self._episode,
                    episode_return=self._return,
                    length=self._step + 1,
                    terminated=step.terminated,
                    truncated=step.truncated,
                    agent_id=STAGE,
                )
        self._step += 1
        if over:
            self._episode += 1
            self._step, self._return = 0, 0.0

    def _picture(self, image: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
        if not self.has_room:
            return None
        every = -(-max(image.shape[:2]) // LARGEST)
        small = image[::every, ::every]
        self._room -= small.size
        return small
