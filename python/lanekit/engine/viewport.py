"""The viewport: one environment as one camera sees it, for people; also on the fast lane."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, wait

from lanekit.engine.drawing_threads import DrawingThreads
from lanekit.engine.pictures import CameraSettings, PictureMaker, Pixels, Sight, check_size
from lanekit.engine.simulation import StepArrays, VectorSimulation
from lanekit.errors import EngineError
from lanekit.fast import FastLaneConfig, FastLaneMetrics, FastLaneWriter

_logger = logging.getLogger(__name__)

_RING = 8
_RATE_WINDOW = 1.0
# After a picture that could not be drawn, this long until the next try.
_PATIENCE = 1.0

MAIN = "main"
"""The viewport that every engine has."""


class Viewport:
    """What is looked at, and the run under which `lanekit view` shows it."""

    def __init__(
        self,
        simulation: VectorSimulation,
        pictures: PictureMaker,
        drawing: DrawingThreads,
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
        self._drawing = drawing
        self._out = out
        check_size(width, height)
        self.camera = pictures.camera(name=camera).name
        self.env = 0
        self.width, self.height, self.fps = width, height, fps
        self.run = run or ""
        self._due = 0.0
        self._writer: FastLaneWriter | None = None
        self._made: Future[int] | None = None
        """The picture that is being drawn. Until it is published, the writer is its."""
        self._said = ""
        self._rate_since, self._rate_steps, self._rate = time.monotonic(), simulation.steps, 0.0
        if run is not None:
            config = FastLaneConfig(width=width, height=height, capacity=_RING)
            self._writer = FastLaneWriter.create(run, config)

    @property
    def watched(self) -> bool:
        """Whether a viewer is there."""
        if self._made is not None and not self._made.done():
            return True
        return self._writer is not None and self._writer.watched

    @property
    def settings(self) -> CameraSettings:
        """The camera that is looked through."""
        return self._pictures.camera(name=self.camera)

    def turn_to(self, env: int, camera: str) -> None:
        """Look elsewhere; an empty camera stays as it is."""
        self.env = self._simulation.checked_env(env)
        if camera:
            self.camera = self._pictures.camera(name=camera).name

    def look(self, width: int, height: int) -> Sight:
        """Return what is to be drawn."""
        return self._pictures.look(self.env, self.settings, width, height)

    def publish_if_due(self) -> bool:
        """Let a picture be drawn for the fast lane, if somebody watches and it is time."""
        now = time.monotonic()
        if self._writer is None or now < self._due:
            return False
        if self._made is not None:
            if not self._made.done():
                return False
            error, self._made = self._made.exception(), None
            if error is not None:
                self._excuse(error, now)
                return False
            self._said = ""
        self._due = max(self._due + 1.0 / self.fps, now)
        if not self._writer.watched:
            return False
        try:
            sight = self.look(self.width, self.height)
        except EngineError as error:
            self._excuse(error, now)
            return False
        writer, metrics = self._writer, self._metrics(now)

        def publish(pixels: Pixels) -> int:
            return writer.publish(pixels, metrics=metrics)

        self._made = self._drawing.begin(sight, publish)
        return True

    def _excuse(self, error: BaseException, now: float) -> None:
        """Say once why nothing is seen now; those who train need no pictures."""
        self._due = now + _PATIENCE
        if str(error) != self._said:
            self._said = str(error)
            _logger.warning("the viewport shows nothing: %s", error)

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
        if self._made is not None:
            wait([self._made])
        if self._writer is not None:
            self._writer.unlink()
            self._writer.close()
