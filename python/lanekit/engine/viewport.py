"""The viewport: one environment as one camera sees it, for people; also on the fast lane."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from lanekit.engine.pictures import PictureMaker
from lanekit.engine.simulation import StepArrays, VectorSimulation
from lanekit.fast import FastLaneConfig, FastLaneMetrics, FastLaneWriter

_RING = 8
_RATE_WINDOW = 1.0

MAIN = "main"
"""The viewport that every engine has."""


class Viewport:
    """What is looked at, and the run under which `lanekit view` shows it."""

    def __init__(
        self,
        simulation: VectorSimulation,
        pictures: PictureMaker,
        out: StepArrays,
        *,
        run: str | None = None,
        width: int = 480,
        height: int = 360,
        fps: float = 30.0,
        camera: str = "",
    ) -> None:
        """Look at the first environment; `run` puts the pictures on the fast lane."""
        self._simulation = simulation
        self._pictures = pictures
        self._out = out
        self.camera = pictures.camera(name=camera).name
        self.env = 0
        self.width, self.height, self.fps = width, height, fps
        self.run = run or ""
        self._due = 0.0
        self._writer: FastLaneWriter | None = None
        self._rate_since, self._rate_steps, self._rate = time.monotonic(), simulation.steps, 0.0
        if run is not None:
            config = FastLaneConfig(width=width, height=height, capacity=_RING)
            self._writer = FastLaneWriter.create(run, config)

    @property
    def watched(self) -> bool:
        """Whether a viewer is there."""
        return self._writer is not None and self._writer.watched

    def look(self, env: int, camera: str) -> None:
        """Look elsewhere; an empty camera stays as it is."""
        self.env = self._simulation.checked_env(env)
        if camera:
            self.camera = self._pictures.camera(name=camera).name

    def picture(
        self, width: int, height: int, out: npt.NDArray[np.uint8] | None = None
    ) -> npt.NDArray[np.uint8]:
        """Return what is seen."""
        camera = self._pictures.camera(name=self.camera)
        return self._pictures.picture(self.env, camera, width, height, out)

    def publish_if_due(self) -> bool:
        """Put a picture on the fast lane, if somebody watches and it is time for the next."""
        now = time.monotonic()
        if self._writer is None or now < self._due:
            return False
        self._due = max(self._due + 1.0 / self.fps, now)
        if not self._writer.watched:
            return False
        pixels = self.picture(self.width, self.height)
        self._writer.publish(pixels, metrics=self._metrics(now))
        return True

    def _metrics(self, now: float) -> FastLaneMetrics:
        passed = now - self._rate_since
        if passed >= _RATE_WINDOW:
            steps = self._simulation.steps
            self._rate = (steps - self._rate_steps) * self._simulation.num_envs / passed
            self._rate_since, self._rate_steps = now, steps
        return FastLaneMetrics(
            last_reward=float(self._out.rewards[self.env]),
            rolling_return=float(self._simulation.episode_return[self.env]),
            step_rate_hz=self._rate,
        )

    def close(self) -> None:
        """Leave the fast lane."""
        if self._writer is not None:
            self._writer.unlink()
            self._writer.close()
