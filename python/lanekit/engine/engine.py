"""The engine: a simulation served over step and command lanes."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from lanekit._core import WaitStrategy
from lanekit.command import CommandServer
from lanekit.engine.description import FINAL, info_rows, lane_description
from lanekit.engine.drawing import Drawing
from lanekit.engine.drawing_threads import DrawingThreads
from lanekit.engine.pace import Mode, Pace
from lanekit.engine.pictures import PictureMaker, Quality, check_size
from lanekit.engine.services import (
    AgentService,
    CameraService,
    DebugService,
    MujocoService,
    SceneService,
    TelemetryService,
    ViewportService,
)
from lanekit.engine.simulation import INFOS, StepArrays, VectorSimulation, silence_warnings
from lanekit.engine.viewport import Viewport
from lanekit.errors import PeerLost
from lanekit.step import StepExchange, StepLaneConfig, StepServer

_logger = logging.getLogger(__name__)

# A command waits at most so long for an engine that waits for actions; the shorter time counts
# while commands keep coming.
_TURN = 0.002
_BRISK_TURN = 0.0002
_BRISK_FOR = 0.1
_COMMANDS_AT_ONCE = 32


class Engine:
    """Serves a model's environments to a trainer, and answers its commands between two steps.

    >>> with Engine("humanoid", "humanoid", 1024) as engine:            # doctest: +SKIP
    ...     engine.serve()
    """

    def __init__(
        self,
        name: str | None,
        model: str | Path,
        num_envs: int,
        *,
        task: str | None = None,
        seed: int = 0,
        threads: int | None = None,
        episode_steps: int | None = None,
        image: tuple[int, int] | None = None,
        pipelined: bool = False,
        mode: Mode = Mode.DETERMINISTIC,
        view: str | None = None,
        view_size: tuple[int, int] = (480, 360),
        view_camera: str = "",
        view_fps: float = 30.0,
        quality: Quality = "plain",
        wait: WaitStrategy = "hybrid",
    ) -> None:
        """Load the model and create the lane.

        image: width and height of one picture per environment in the lane's image region.
        pipelined: whether the environments are stepped in two halves by turns.
        view: the run under which `lanekit view` shows the viewport.
        """
        silence_warnings()
        self.simulation = simulation = VectorSimulation(
            model, num_envs, task=task, seed=seed, threads=threads, episode_steps=episode_steps
        )
        self.drawing = Drawing()
        self.pictures = PictureMaker(simulation, self.drawing, quality)
        self._drawing_threads = DrawingThreads(self.pictures, simulation.threads)
        if image is not None:
            check_size(*image)
        if view_camera:
            self.pictures.camera(name=view_camera)  # before anything is created that has to go
        config = StepLaneConfig(
            num_envs,
            simulation.obs_size,
            simulation.act_size,
            image=None if image is None else (image[1], image[0], 3),
            final_obs=True,
            infos=info_rows(),
            description=lane_description(simulation),
            pipelined=pipelined,
        )
        self.lane = lane = StepServer.create(name, config, wait=wait)
        try:
            self._out = StepArrays(
                lane.obs, lane.rewards, lane.dones, lane.truncateds, lane.final_obs, lane.infos
            )
            # Without a trainer nobody reads the lane, but one may come at any moment: what the
            # engine does by itself stays out of it.
            self._own = StepArrays.allocate(num_envs, simulation.obs_size)
            self._controls = np.zeros((num_envs, simulation.act_size), np.float32)
            simulation.reset(self._out)
            self.pace = Pace(simulation.step_seconds, mode)
            self.viewport = Viewport(
                simulation,
                self.pictures,
                self._drawing_threads,
                self._out,
                run=view,
                width=view_size[0],
                height=view_size[1],
                camera=view_camera,
                fps=view_fps,
            )
            self._cameras = CameraService(
                simulation, self.pictures, self._drawing_threads, lane.images
            )
            self.agent = AgentService(simulation, self._out)
            self.commands = CommandServer(lane.commands)
            for service in (
                self.agent,
                MujocoService(simulation, self._out, self._controls),
                TelemetryService(simulation, self._out),
                SceneService(simulation, self.pace),
                self._cameras,
                ViewportService(self.viewport, self._drawing_threads),
                DebugService(simulation, self.drawing),
            ):
                for method, handler in service.handlers().items():
                    self.commands.register(method, handler)
        except BaseException:
            lane.close()
            raise
        self._brisk_until = 0.0
        self._held: StepExchange | None = None  # a step that has to wait for its time
        self._stopping = False
        self._closed = False

    # --- serving ---------------------------------------------------------------------------------

    def serve(self) -> None:
        """Serve until :meth:`stop`."""
        try:
            while not self._stopping:
                self.turn()
        except Exception as error:
            self.lane.fail(f"the engine failed: {type(error).__name__}: {error}")
            raise

    def turn(self) -> bool:
        """Serve one step, if one comes soon, and what commands have come; whether it stepped."""
        stepped = False
        exchange = self._held or self._wait()
        self._held = None
        if exchange is not None:
            if exchange.request == "step" and not self._may_step:
                self._held = exchange
                time.sleep(min(_TURN, self.pace.seconds_until_due or _TURN))
            else:
                self._answer(exchange)
                stepped = True
        elif self.pace.by_itself and self.pace.may_step and not self._trainer_attached:
            self._step_alone()
            stepped = True
        if self.commands.pump(_COMMANDS_AT_ONCE):
            self._brisk_until = time.monotonic() + _BRISK_FOR
        self.viewport.publish_if_due()
        return stepped

    def stop(self) -> None:
        """Let :meth:`serve` return; safe in a signal handler."""
        self._stopping = True

    def close(self) -> None:
        """End the lanes."""
        if not self._closed:
            self._closed = True
            self.viewport.close()
            self.lane.close()
            self._drawing_threads.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- steps -----------------------------------------------------------------------------------

    @property
    def _trainer_attached(self) -> bool:
        return self.lane.state.client_pid != 0

    @property
    def _may_step(self) -> bool:
        """Whether a step that a trainer has asked for may be made now."""
        # What a dead trainer left is completed even in a pause: its successor waits for that.
        return self.pace.may_step or not self.lane.state.client_alive

    def _wait(self) -> StepExchange | None:
        patience = _BRISK_TURN if time.monotonic() < self._brisk_until else _TURN
        if self.pace.by_itself and not self._trainer_attached:
            patience = min(patience, self.pace.seconds_until_due)
        try:
            return self.lane.wait_actions(patience)
        except PeerLost as error:
            _logger.warning("%s", error)
            return None

    def _answer(self, exchange: StepExchange) -> None:
        lane, simulation = self.lane, self.simulation
        envs = exchange.envs
        if exchange.request == "step":
            simulation.step(lane.actions, self._out, envs, lane.resets, lane.seeds)
            self._note_finals(envs)
            self.pace.stepped()
        else:
            simulation.reset_flagged(self._out, envs, lane.resets, lane.seeds)
        if self._cameras.writing_images:
            self._cameras.write_images()
        lane.commit()

    def _note_finals(self, envs: slice) -> None:
        """Say in the infos which episodes have ended, in the way that Gymnasium has for it."""
        infos = self._out.infos
        over = self._out.dones[envs] | self._out.truncateds[envs]
        for name in INFOS:
            infos[f"_{FINAL}{name}"][envs] = over
            infos[f"{FINAL}{name}"][envs] = infos[name][envs]

    def _step_alone(self) -> None:
        self.simulation.step(self._controls, self._own)
        self.pace.stepped()
