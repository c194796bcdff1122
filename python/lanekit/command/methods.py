"""The services of the command lane and their methods.

Written by tools/generate_commands.sh from schema/command.fbs; changes belong there.
"""

from __future__ import annotations

from typing import Any, Final

from lanekit.command import messages as m
from lanekit.command.method import Method


class Agent:
    """An agent: what it observes, how it is reset."""

    #: Names and sizes of what the agent observes and does.
    GetAgentSchema = Method(
        "Agent.GetAgentSchema",
        m.GetAgentSchemaRequest,
        m.GetAgentSchemaResponse,
    )
    #: Tell the engine how far the run is.
    ReportProgress = Method(
        "Agent.ReportProgress",
        m.ReportProgressRequest,
        m.ReportProgressResponse,
    )
    #: Reset an agent, with other randomisation if wanted.
    ResetAgent = Method(
        "Agent.ResetAgent",
        m.ResetAgentRequest,
        m.ResetAgentResponse,
    )
    #: Set some actions ahead of the step that applies them.
    SetActionGroup = Method(
        "Agent.SetActionGroup",
        m.SetActionGroupRequest,
        m.SetActionGroupResponse,
    )
    #: Ask whether the engine can do a task.
    ValidateTaskContract = Method(
        "Agent.ValidateTaskContract",
        m.ValidateTaskContractRequest,
        m.ValidateTaskContractResponse,
    )


class Camera:
    """Cameras of the scene."""

    #: How a camera is set up.
    GetCameraConfig = Method(
        "Camera.GetCameraConfig",
        m.GetCameraConfigRequest,
        m.GetCameraConfigResponse,
    )
    #: Which cameras there are.
    ListCameras = Method(
        "Camera.ListCameras",
        m.ListCamerasRequest,
        m.ListCamerasResponse,
    )
    #: Set a camera up.
    SetCameraConfig = Method(
        "Camera.SetCameraConfig",
        m.SetCameraConfigRequest,
        m.SetCameraConfigResponse,
    )
    #: A camera's images.
    StreamCamera = Method(
        "Camera.StreamCamera",
        m.StreamCameraRequest,
        m.ImageFrame,
        streams=True,
    )


class Debug:
    """Lines and arrows in the picture."""

    #: Draw for one frame.
    Draw = Method(
        "Debug.Draw",
        m.DebugDrawRequest,
        m.DebugDrawResponse,
    )


class Mujoco:
    """The physics: joints, actuators, state."""

    #: The whole state.
    GetFullState = Method(
        "Mujoco.GetFullState",
        m.GetFullStateRequest,
        m.GetFullStateResponse,
    )
    #: Positions and velocities of a robot's joints.
    GetJointState = Method(
        "Mujoco.GetJointState",
        m.GetJointStateRequest,
        m.GetJointStateResponse,
    )
    #: All joints and actuators of the model, with their limits.
    GetModelInfo = Method(
        "Mujoco.GetModelInfo",
        m.GetModelInfoRequest,
        m.GetModelInfoResponse,
    )
    #: Sizes and names of a robot's joints and actuators.
    GetMujocoInfo = Method(
        "Mujoco.GetMujocoInfo",
        m.GetMujocoInfoRequest,
        m.GetMujocoInfoResponse,
    )
    #: Put everything back to the beginning.
    ResetScene = Method(
        "Mujoco.ResetScene",
        m.ResetSceneRequest,
        m.ResetSceneResponse,
    )
    #: Set a robot's actuators.
    SendControl = Method(
        "Mujoco.SendControl",
        m.SendControlRequest,
        m.SendControlResponse,
    )
    #: Set positions.
    SetQpos = Method(
        "Mujoco.SetQpos",
        m.SetQposRequest,
        m.SetQposResponse,
    )
    #: The same, again and again.
    StreamJointState = Method(
        "Mujoco.StreamJointState",
        m.StreamJointStateRequest,
        m.GetJointStateResponse,
        streams=True,
    )


class Scene:
    """What is in the world, and how its time runs."""

    #: One entity.
    GetEntity = Method(
        "Scene.GetEntity",
        m.GetEntityRequest,
        m.GetEntityResponse,
    )
    #: The scene's name and size.
    GetSceneInfo = Method(
        "Scene.GetSceneInfo",
        m.GetSceneInfoRequest,
        m.GetSceneInfoResponse,
    )
    #: How simulated time runs.
    GetSimulationMode = Method(
        "Scene.GetSimulationMode",
        m.GetSimulationModeRequest,
        m.GetSimulationModeResponse,
    )
    #: All entities.
    ListEntities = Method(
        "Scene.ListEntities",
        m.ListEntitiesRequest,
        m.ListEntitiesResponse,
    )
    #: Move an entity.
    SetEntityTransform = Method(
        "Scene.SetEntityTransform",
        m.SetEntityTransformRequest,
        m.SetEntityTransformResponse,
    )
    #: Choose how simulated time runs.
    SetSimulationMode = Method(
        "Scene.SetSimulationMode",
        m.SetSimulationModeRequest,
        m.SetSimulationModeResponse,
    )


class Telemetry:
    """Numbers to plot."""

    #: Names and sizes of what the frames hold.
    GetTelemetrySchema = Method(
        "Telemetry.GetTelemetrySchema",
        m.GetTelemetrySchemaRequest,
        m.GetTelemetrySchemaResponse,
    )
    #: State and control, again and again.
    StreamTelemetry = Method(
        "Telemetry.StreamTelemetry",
        m.StreamTelemetryRequest,
        m.TelemetryFrame,
        streams=True,
    )


class Viewport:
    """The engine's own windows."""

    #: Which viewports there are.
    GetViewportInfo = Method(
        "Viewport.GetViewportInfo",
        m.GetViewportInfoRequest,
        m.GetViewportInfoResponse,
    )
    #: A viewport's images.
    StreamViewport = Method(
        "Viewport.StreamViewport",
        m.StreamViewportRequest,
        m.ImageFrame,
        streams=True,
    )


METHODS: Final[dict[str, Method[Any, Any]]] = {
    method.name: method
    for method in (
        Agent.GetAgentSchema,
        Agent.ReportProgress,
        Agent.ResetAgent,
        Agent.SetActionGroup,
        Agent.ValidateTaskContract,
        Camera.GetCameraConfig,
        Camera.ListCameras,
        Camera.SetCameraConfig,
        Camera.StreamCamera,
        Debug.Draw,
        Mujoco.GetFullState,
        Mujoco.GetJointState,
        Mujoco.GetModelInfo,
        Mujoco.GetMujocoInfo,
        Mujoco.ResetScene,
        Mujoco.SendControl,
        Mujoco.SetQpos,
        Mujoco.StreamJointState,
        Scene.GetEntity,
        Scene.GetSceneInfo,
        Scene.GetSimulationMode,
        Scene.ListEntities,
        Scene.SetEntityTransform,
        Scene.SetSimulationMode,
        Telemetry.GetTelemetrySchema,
        Telemetry.StreamTelemetry,
        Viewport.GetViewportInfo,
        Viewport.StreamViewport,
    )
}
