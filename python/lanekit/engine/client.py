"""The trainer's side of an engine: steps in shared memory, a typed method for each command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lanekit._core import WaitStrategy
from lanekit.command import (
    Agent,
    Camera,
    CommandClient,
    CommandStream,
    Debug,
    Mujoco,
    Scene,
    Telemetry,
    Viewport,
)
from lanekit.command import messages as m
from lanekit.engine.contract import SimulationContract
from lanekit.engine.contract_message import message_of
from lanekit.step import StepClient, StepLaneConfig, StepResult

Array = npt.NDArray[Any]
_SEED_RANGE = 2**64


class EngineClient:
    """Steps an engine, and asks it for everything else.

    >>> with EngineClient("humanoid") as client:                        # doctest: +SKIP
    ...     client.reset(contract=SimulationContract(friction=(0.5, 1.5)))
    ...     obs, rewards, dones, truncateds = client.step(actions)

    Steps and resets are for one thread; commands may come from any.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        timeout: float | None = 10.0,
        wait: WaitStrategy = "hybrid",
    ) -> None:
        """Take the trainer's place; without a name ``LUCKY_SHM_NAME`` gives it.

        `timeout` is how many seconds to wait for the engine to appear, and for the answer of each
        command; None: for ever.
        """
        self.lane = StepClient.attach(name, timeout=timeout, wait=wait)
        """The step lane: arrays, `send` and `recv`."""
        try:
            self.commands = CommandClient(self.lane.commands, timeout=timeout)
            """The command lane, for methods that are not in this class."""
        except BaseException:
            self.lane.close()
            raise
        self.last_reset: m.ResetAgentResponse | None = None
        """What the engine said to the last reset with a contract."""

    # --- steps -----------------------------------------------------------------------------------

    def step(
        self, actions: npt.ArrayLike | None = None, timeout: float | None = None
    ) -> StepResult:
        """Step all environments and return views of what came: obs, rewards, dones, truncateds."""
        return self.lane.step(actions, timeout)

    def reset(
        self,
        env_ids: Sequence[int] | Array | None = None,
        *,
        seed: int | None = None,
        contract: SimulationContract | None = None,
        timeout: float | None = None,
    ) -> Array:
        """Reset some environments, all by default, and return a view of all observations.

        With a contract they keep to it from now on, also when an episode ends; what each of them
        got is in :attr:`last_reset`.
        """
        if contract is None:
            return self.lane.reset(env_ids, seed=seed, timeout=timeout)
        self.last_reset = self.reset_agent(contract, env_ids, seed=seed)
        return self.lane.obs

    @property
    def obs(self) -> Array:
        """[num_envs, obs_size]: the newest observations, in the shared memory itself."""
        return self.lane.obs

    @property
    def images(self) -> Array | None:
        """[num_envs, height, width, 3], if the engine was started with images."""
        return self.lane.images

    @property
    def config(self) -> StepLaneConfig:
        """The lane's shape."""
        return self.lane.config

    @property
    def num_envs(self) -> int:
        """How many environments there are."""
        return self.lane.config.num_envs

    # --- Agent -----------------------------------------------------------------------------------

    def schema(self) -> m.AgentSchema:
        """Return names, sizes, types and limits of observations and actions."""
        found = self.commands.call(Agent.GetAgentSchema).schema
        assert found is not None
        return found

    def reset_agent(
        self,
        contract: SimulationContract | m.SimulationContract | None = None,
        env_ids: Sequence[int] | Array | None = None,
        *,
        seed: int | None = None,
    ) -> m.ResetAgentResponse:
        """Reset environments over the command lane; returns what they got of the contract.

        The observations are in the lane when this returns. Not while a step is under way.
        """
        said = message_of(contract) if isinstance(contract, SimulationContract) else contract
        if seed is not None and not 0 <= seed < _SEED_RANGE:
            raise ValueError(f"a seed is from 0 to 2**64 - 1, not {seed}")
        ids = np.zeros(0, np.uint32) if env_ids is None else _env_ids(env_ids, self.num_envs)
        if env_ids is not None and not len(ids):
            raise ValueError("no environment is named; without env_ids all are reset")
        request = m.ResetAgentRequest(
            simulation_contract=said, env_ids=ids, seed=seed or 0, seeded=seed is not None
        )
        return self.commands.call(Agent.ResetAgent, request)

    def set_action_group(
        self,
        actions: npt.ArrayLike,
        action_indices: Sequence[int] = (),
        env_ids: Sequence[int] | Array = (),
        *,
        group: str = "",
    ) -> m.SetActionGroupResponse:
        """Set some actions for the next step, whatever is sent for them."""
        request = m.SetActionGroupRequest(
            group_name=group,
            actions=np.asarray(actions, np.float32),
            action_indices=np.asarray(action_indices, np.uint32),
            env_ids=_env_ids(env_ids, self.num_envs),
        )
        return self.commands.call(Agent.SetActionGroup, request)

    def report_progress(self, progress: m.ReportProgressRequest) -> bool:
        """Tell the engine how far the run is."""
        return self.commands.call(Agent.ReportProgress, progress).accepted

    def validate_task(self, contract: m.TaskContract) -> m.ValidateTaskContractResponse:
        """Ask whether the engine does a task as it is wanted."""
        request = m.ValidateTaskContractRequest(contract)
        return self.commands.call(Agent.ValidateTaskContract, request)

    # --- Mujoco ----------------------------------------------------------------------------------

    def joint_state(self, env: int = 0) -> m.JointState:
        """Return an environment's positions and velocities."""
        request = m.GetJointStateRequest(env_id=env)
        found = self.commands.call(Mujoco.GetJointState, request).state
        assert found is not None
        return found

    def stream_joint_state(
        self, env: int = 0, fps: int = 0
    ) -> CommandStream[m.GetJointStateResponse]:
        """Return them again and again; iterate over it, or close it."""
        request = m.StreamJointStateRequest(target_fps=fps, env_id=env)
        return self.commands.stream(Mujoco.StreamJointState, request)

    def mujoco_info(self) -> m.GetMujocoInfoResponse:
        """Return the model's sizes and names."""
        return self.commands.call(Mujoco.GetMujocoInfo)

    def model_info(self) -> m.GetModelInfoResponse:
        """Return all joints and actuators with their limits."""
        return self.commands.call(Mujoco.GetModelInfo)

    def send_control(self, controls: npt.ArrayLike, env: int = 0) -> None:
        """Set what an environment is controlled with while the engine steps by itself."""
        values = np.asarray(controls, np.float32)
        self.commands.call(Mujoco.SendControl, m.SendControlRequest(controls=values, env_id=env))

    def full_state(self, env: int = 0) -> m.GetFullStateResponse:
        """Return positions, velocities, controls and time of an environment."""
        return self.commands.call(Mujoco.GetFullState, m.GetFullStateRequest(env_id=env))

    def set_qpos(self, qpos: npt.ArrayLike, indices: Sequence[int] = (), env: int = 0) -> int:
        """Set positions of an environment, all or some; returns how many were set."""
        request = m.SetQposRequest(
            qpos=np.asarray(qpos, np.float32), indices=np.asarray(indices, np.uint32), env_id=env
        )
        return self.commands.call(Mujoco.SetQpos, request).values_written

    def reset_scene(
        self,
        keyframe: str = "",
        env_ids: Sequence[int] | Array = (),
        *,
        seed: int | None = None,
    ) -> None:
        """Begin new episodes, from a keyframe of the model if one is named."""
        request = m.ResetSceneRequest(
            keyframe=keyframe,
            seed=seed or 0,
            seeded=seed is not None,
            env_ids=_env_ids(env_ids, self.num_envs),
        )
        self.commands.call(Mujoco.ResetScene, request)

    # --- Telemetry -------------------------------------------------------------------------------

    def telemetry_schema(self) -> m.TelemetrySchema:
        """Return the names of all signals."""
        found = self.commands.call(Telemetry.GetTelemetrySchema).schema
        assert found is not None
        return found

    def stream_telemetry(
        self, signals: Iterable[str] = (), env: int = 0, fps: int = 0
    ) -> CommandStream[m.TelemetryFrame]:
        """Return an environment's signals again and again, all by default."""
        request = m.StreamTelemetryRequest(target_fps=fps, env_id=env, signals=list(signals))
        return self.commands.stream(Telemetry.StreamTelemetry, request)

    # --- Scene -----------------------------------------------------------------------------------

    def scene_info(self) -> m.GetSceneInfoResponse:
        """Return what is simulated."""
        return self.commands.call(Scene.GetSceneInfo)

    def entities(
        self, env: int = 0, *, transforms: bool = True, components: bool = False
    ) -> Sequence[m.EntityInfo]:
        """Return all bodies of an environment."""
        request = m.ListEntitiesRequest(
            include_transforms=transforms, include_components=components, env_id=env
        )
        return self.commands.call(Scene.ListEntities, request).entities

    def entity(self, which: int | str, env: int = 0) -> m.EntityInfo:
        """Return one body by its number or its name."""
        number, name = (which, "") if isinstance(which, int) else (0, which)
        request = m.GetEntityRequest(id=number, name=name, env_id=env)
        found = self.commands.call(Scene.GetEntity, request).entity
        assert found is not None
        return found

    def set_entity_transform(
        self,
        which: int | str,
        position: tuple[float, float, float] | None = None,
        rotation: tuple[float, float, float, float] | None = None,
        env: int = 0,
    ) -> None:
        """Put a free body elsewhere; the rotation is a quaternion x, y, z, w."""
        number = which if isinstance(which, int) else self.entity(which, env).id
        transform = m.Transform(
            position=None if position is None else m.Vec3(*position),
            rotation=None if rotation is None else m.Quat(*rotation),
        )
        request = m.SetEntityTransformRequest(id=number, transform=transform, env_id=env)
        self.commands.call(Scene.SetEntityTransform, request)

    def set_simulation_mode(self, mode: m.SimulationMode, steps: int = 0) -> m.SimulationMode:
        """Run, pause, or keep to the clock; with PAUSED, let so many steps through."""
        request = m.SetSimulationModeRequest(mode=mode, steps=steps)
        return m.SimulationMode(self.commands.call(Scene.SetSimulationMode, request).current_mode)

    def simulation_mode(self) -> m.GetSimulationModeResponse:
        """Return the mode, and how fast simulated time goes."""
        return self.commands.call(Scene.GetSimulationMode)

    # --- Camera and viewport ---------------------------------------------------------------------

    def cameras(self) -> dict[str, int]:
        """Return the numbers of all cameras by name."""
        found = self.commands.call(Camera.ListCameras).cameras
        return {camera.name: camera.id for camera in found}

    def camera_config(self, camera: str = "") -> m.CameraConfig:
        """Return how a camera looks, by default the first."""
        request = m.GetCameraConfigRequest(name=camera)
        found = self.commands.call(Camera.GetCameraConfig, request).config
        assert found is not None
        return found

    def set_camera_config(self, config: m.CameraConfig) -> m.CameraConfig:
        """Change how a camera looks; returns how it is now."""
        request = m.SetCameraConfigRequest(config)
        found = self.commands.call(Camera.SetCameraConfig, request).config
        assert found is not None
        return found

    def stream_camera(
        self,
        camera: str = "",
        env_ids: Sequence[int] | Array = (),
        *,
        fps: int = 0,
        width: int = 0,
        height: int = 0,
        into_images: bool = False,
    ) -> CommandStream[m.ImageFrame]:
        """Return pictures again and again; :func:`pixels_of` makes arrays of them.

        With `into_images` they are written into :attr:`images` at the end of a step, and the stream
        tells when.
        """
        request = m.StreamCameraRequest(
            name=camera,
            target_fps=fps,
            width=width,
            height=height,
            env_ids=_env_ids(env_ids, self.num_envs),
            into_images=into_images,
        )
        return self.commands.stream(Camera.StreamCamera, request)

    def viewport_info(self) -> m.ViewportConfig:
        """Return what the viewport looks at."""
        found = self.commands.call(Viewport.GetViewportInfo).current_config
        assert found is not None
        return found

    def stream_viewport(
        self, camera: str = "", env: int = 0, *, fps: int = 0, width: int = 0, height: int = 0
    ) -> CommandStream[m.ImageFrame]:
        """Let the viewport look there, and return its pictures again and again."""
        request = m.StreamViewportRequest(
            target_fps=fps, width=width, height=height, env_id=env, camera_name=camera
        )
        return self.commands.stream(Viewport.StreamViewport, request)

    # --- Debug -----------------------------------------------------------------------------------

    def draw(
        self,
        *,
        lines: Sequence[m.DebugLine] = (),
        arrows: Sequence[m.DebugArrow] = (),
        spheres: Sequence[m.DebugSphere] = (),
        texts: Sequence[m.DebugText] = (),
        velocity_command: m.DebugVelocityCommand | None = None,
        clear: bool = False,
        env: int = 0,
    ) -> None:
        """Draw shapes into an environment's pictures; `clear` takes away those before."""
        request = m.DebugDrawRequest(
            lines=lines,
            arrows=arrows,
            velocity_command=velocity_command,
            clear_previous=clear,
            spheres=spheres,
            texts=texts,
            env_id=env,
        )
        self.commands.call(Debug.Draw, request)

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the engine to another trainer."""
        self.commands.close()
        self.lane.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def pixels_of(frame: m.ImageFrame) -> npt.NDArray[np.uint8]:
    """Return a frame that came in a message as [height, width, channels]."""
    shape = (frame.height, frame.width, frame.channels)
    if len(frame.data) != frame.height * frame.width * frame.channels:
        raise ValueError(
            f"a frame of {len(frame.data)} bytes is no picture of {shape}; those of into_images "
            "are in the lane"
        )
    return np.frombuffer(frame.data, np.uint8).reshape(shape)


def _env_ids(env_ids: Sequence[int] | Array, count: int) -> npt.NDArray[np.uint32]:
    ids = np.asarray(env_ids)
    if ids.dtype == np.bool_:
        ids = np.flatnonzero(ids)
    if ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= count):
        raise ValueError(f"environments are numbered from 0 to {count - 1}, got {env_ids!r}")
    return ids.astype(np.uint32).ravel()
