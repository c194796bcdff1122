"""The messages of the command lane.

Written by tools/generate_commands.sh from schema/command.fbs; changes belong there.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lanekit.command.flatbuffer import (
    Array,
    Blob,
    Enumerated,
    Field,
    Message,
    Number,
    Structure,
    StructValue,
    SubTable,
    Tables,
    Text,
    Texts,
    Truth,
    UnionOf,
)

__all__ = [
    "ActionTerm",
    "ActuatorDescriptor",
    "AgentSchema",
    "Bytes",
    "CameraConfig",
    "CameraInfo",
    "Color",
    "ContractFinding",
    "CustomRandomization",
    "DebugArrow",
    "DebugDrawRequest",
    "DebugDrawResponse",
    "DebugLine",
    "DebugSphere",
    "DebugText",
    "DebugVelocityCommand",
    "EntityInfo",
    "GetAgentSchemaRequest",
    "GetAgentSchemaResponse",
    "GetCameraConfigRequest",
    "GetCameraConfigResponse",
    "GetEntityRequest",
    "GetEntityResponse",
    "GetFullStateRequest",
    "GetFullStateResponse",
    "GetJointStateRequest",
    "GetJointStateResponse",
    "GetModelInfoRequest",
    "GetModelInfoResponse",
    "GetMujocoInfoRequest",
    "GetMujocoInfoResponse",
    "GetSceneInfoRequest",
    "GetSceneInfoResponse",
    "GetSimulationModeRequest",
    "GetSimulationModeResponse",
    "GetTelemetrySchemaRequest",
    "GetTelemetrySchemaResponse",
    "GetViewportInfoRequest",
    "GetViewportInfoResponse",
    "ImageFrame",
    "JointDescriptor",
    "JointState",
    "JointType",
    "ListCamerasRequest",
    "ListCamerasResponse",
    "ListEntitiesRequest",
    "ListEntitiesResponse",
    "ObservationTerm",
    "Param",
    "Quat",
    "Range",
    "ReportProgressRequest",
    "ReportProgressResponse",
    "ResetAgentRequest",
    "ResetAgentResponse",
    "ResetSceneRequest",
    "ResetSceneResponse",
    "RewardTerm",
    "SendControlRequest",
    "SendControlResponse",
    "SetActionGroupRequest",
    "SetActionGroupResponse",
    "SetCameraConfigRequest",
    "SetCameraConfigResponse",
    "SetEntityTransformRequest",
    "SetEntityTransformResponse",
    "SetQposRequest",
    "SetQposResponse",
    "SetSimulationModeRequest",
    "SetSimulationModeResponse",
    "SimulationContract",
    "SimulationMode",
    "StreamCameraRequest",
    "StreamJointStateRequest",
    "StreamTelemetryRequest",
    "StreamViewportRequest",
    "TaskContract",
    "TelemetryFrame",
    "TelemetrySchema",
    "TerminationTerm",
    "Transform",
    "ValidateTaskContractRequest",
    "ValidateTaskContractResponse",
    "Vec3",
    "ViewportConfig",
]

FILE_IDENTIFIER = b"LKC1"


def _empty(kind: type[Any]) -> Callable[[], npt.NDArray[Any]]:
    return lambda: np.zeros(0, kind)


class ErrorCode(enum.IntEnum):
    """Why there is no payload."""

    OK = 0
    #: Nobody handles this method.
    UNKNOWN_METHOD = 1
    #: The request was no message that this method takes.
    MALFORMED_REQUEST = 2
    #: The handler failed: error_type and error_message say how.
    HANDLER_FAILED = 3
    #: The request's deadline had passed before it was looked at.
    DEADLINE_PASSED = 4
    #: The answer is larger than the lane can carry.
    TOO_LARGE = 5


class JointType(enum.IntEnum):
    """How a joint moves."""

    FREE = 0
    BALL = 1
    SLIDE = 2
    HINGE = 3


class Kind(enum.IntEnum):
    """What a message is."""

    #: From the client: do this, or begin to stream this.
    REQUEST = 0
    #: From the server: the one answer to a request that is no stream.
    RESPONSE = 1
    #: From the server: the next item of a stream.
    STREAM_ITEM = 2
    #: From the server: no more items; with an error, because of it.
    STREAM_END = 3
    #: From the client: no more items are wanted.
    CANCEL = 4
    #: From the client: as many more items as credit says may be sent.
    CREDIT = 5


class SimulationMode(enum.IntEnum):
    """How simulated time follows the clock on the wall."""

    #: As fast as the clock.
    REALTIME = 0
    #: In fixed steps, whatever the clock says.
    DETERMINISTIC = 1
    #: As fast as the machine can.
    FAST = 2
    #: Not at all; but see SetSimulationModeRequest.steps.
    PAUSED = 3


@dataclass(frozen=True, slots=True)
class Color(StructValue):
    """Red, green, blue and opacity, each from 0 to 1."""

    r: float
    g: float
    b: float
    a: float
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<ffff")


@dataclass(frozen=True, slots=True)
class Quat(StructValue):
    """A rotation."""

    x: float
    y: float
    z: float
    w: float
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<ffff")


@dataclass(frozen=True, slots=True)
class Range(StructValue):
    """A closed interval to sample from."""

    min: float
    max: float
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<ff")


@dataclass(frozen=True, slots=True)
class Vec3(StructValue):
    """A point or direction, in metres unless said otherwise."""

    x: float
    y: float
    z: float
    FORMAT: ClassVar[struct.Struct] = struct.Struct("<fff")


@dataclass(frozen=True, slots=True, eq=False)
class Param(Message):
    """A named parameter, its value as text."""

    key: str = ""
    value: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("key", 0, Text()),
        Field("value", 1, Text()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ActionTerm(Message):
    """``ActionTerm`` of the schema."""

    type: str = ""
    joint_pattern: str = ""
    params: Sequence[Param] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("type", 0, Text()),
        Field("joint_pattern", 1, Text()),
        Field("params", 2, Tables(Param)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ActuatorDescriptor(Message):
    """``ActuatorDescriptor`` of the schema."""

    index: int = 0
    name: str = ""
    #: Absent: not limited.
    ctrl_range: Range | None = None
    #: -1: it drives no joint.
    target_joint_index: int = -1
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("index", 0, Number("I")),
        Field("name", 1, Text()),
        Field("ctrl_range", 2, Structure(Range)),
        Field("target_joint_index", 3, Number("i", -1)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class AgentSchema(Message):
    """What an agent observes and does. The sizes count, the names are for people."""

    agent_name: str = ""
    observation_names: Sequence[str] = ()
    action_names: Sequence[str] = ()
    observation_size: int = 0
    action_size: int = 0
    #: numpy's type strings, such as "<f4".
    observation_dtype: str = ""
    action_dtype: str = ""
    #: Infinite where there is no limit.
    observation_low: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    observation_high: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    action_low: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    action_high: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    num_envs: int = 0
    task_name: str = ""
    #: Simulated seconds of one step.
    step_seconds: float = 0.0
    #: Steps after which an episode is truncated. 0: none.
    episode_steps: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("agent_name", 0, Text()),
        Field("observation_names", 1, Texts()),
        Field("action_names", 2, Texts()),
        Field("observation_size", 3, Number("I")),
        Field("action_size", 4, Number("I")),
        Field("observation_dtype", 5, Text()),
        Field("action_dtype", 6, Text()),
        Field("observation_low", 7, Array("f")),
        Field("observation_high", 8, Array("f")),
        Field("action_low", 9, Array("f")),
        Field("action_high", 10, Array("f")),
        Field("num_envs", 11, Number("I")),
        Field("task_name", 12, Text()),
        Field("step_seconds", 13, Number("d")),
        Field("episode_steps", 14, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Bytes(Message):
    """Bytes that only the two ends understand: the payload of methods outside this schema."""

    data: bytes = b""
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("data", 0, Blob()),)


@dataclass(frozen=True, slots=True, eq=False)
class CameraConfig(Message):
    """``CameraConfig`` of the schema."""

    id: int = 0
    name: str = ""
    width: int = 0
    height: int = 0
    target_fps: int = 0
    #: Vertical.
    field_of_view_degrees: float = 0.0
    near_clip: float = 0.0
    far_clip: float = 0.0
    enabled: bool = True
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("id", 0, Number("Q")),
        Field("name", 1, Text()),
        Field("width", 2, Number("I")),
        Field("height", 3, Number("I")),
        Field("target_fps", 4, Number("I")),
        Field("field_of_view_degrees", 5, Number("f")),
        Field("near_clip", 6, Number("f")),
        Field("far_clip", 7, Number("f")),
        Field("enabled", 8, Truth(True)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class CameraInfo(Message):
    """``CameraInfo`` of the schema."""

    id: int = 0
    name: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("id", 0, Number("Q")),
        Field("name", 1, Text()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ContractFinding(Message):
    """``ContractFinding`` of the schema."""

    #: For example "rewards".
    component: str = ""
    term_name: str = ""
    message: str = ""
    suggestion: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("component", 0, Text()),
        Field("term_name", 1, Text()),
        Field("message", 2, Text()),
        Field("suggestion", 3, Text()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class CustomRandomization(Message):
    """``CustomRandomization`` of the schema."""

    name: str = ""
    range: Range | None = None
    target: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", 0, Text()),
        Field("range", 1, Structure(Range)),
        Field("target", 2, Text()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class DebugArrow(Message):
    """``DebugArrow`` of the schema."""

    origin: Vec3 | None = None
    #: Its length is the arrow's.
    direction: Vec3 | None = None
    color: Color | None = None
    scale: float = 1.0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("origin", 0, Structure(Vec3)),
        Field("direction", 1, Structure(Vec3)),
        Field("color", 2, Structure(Color)),
        Field("scale", 3, Number("f", 1.0)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class DebugLine(Message):
    """``DebugLine`` of the schema."""

    start: Vec3 | None = None
    end: Vec3 | None = None
    color: Color | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("start", 0, Structure(Vec3)),
        Field("end", 1, Structure(Vec3)),
        Field("color", 2, Structure(Color)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class DebugSphere(Message):
    """``DebugSphere`` of the schema."""

    center: Vec3 | None = None
    radius: float = 0.0
    color: Color | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("center", 0, Structure(Vec3)),
        Field("radius", 1, Number("f")),
        Field("color", 2, Structure(Color)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class DebugText(Message):
    """``DebugText`` of the schema."""

    position: Vec3 | None = None
    text: str = ""
    color: Color | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("position", 0, Structure(Vec3)),
        Field("text", 1, Text()),
        Field("color", 2, Structure(Color)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class DebugVelocityCommand(Message):
    """A commanded velocity to be shown at a robot."""

    origin: Vec3 | None = None
    lin_vel_x: float = 0.0
    lin_vel_y: float = 0.0
    ang_vel_z: float = 0.0
    scale: float = 1.0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("origin", 0, Structure(Vec3)),
        Field("lin_vel_x", 1, Number("f")),
        Field("lin_vel_y", 2, Number("f")),
        Field("ang_vel_z", 3, Number("f")),
        Field("scale", 4, Number("f", 1.0)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class DebugDrawRequest(Message):
    """Request of ``DebugDraw``."""

    lines: Sequence[DebugLine] = ()
    arrows: Sequence[DebugArrow] = ()
    velocity_command: DebugVelocityCommand | None = None
    clear_previous: bool = False
    spheres: Sequence[DebugSphere] = ()
    texts: Sequence[DebugText] = ()
    #: From 0: whose pictures they are drawn into.
    env_id: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("lines", 0, Tables(DebugLine)),
        Field("arrows", 1, Tables(DebugArrow)),
        Field("velocity_command", 2, SubTable(DebugVelocityCommand)),
        Field("clear_previous", 3, Truth()),
        Field("spheres", 4, Tables(DebugSphere)),
        Field("texts", 5, Tables(DebugText)),
        Field("env_id", 6, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class DebugDrawResponse(Message):
    """Answer to ``DebugDraw``."""

    success: bool = False
    message: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Transform(Message):
    """Where an entity is in the world."""

    position: Vec3 | None = None
    rotation: Quat | None = None
    scale: Vec3 | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("position", 0, Structure(Vec3)),
        Field("rotation", 1, Structure(Quat)),
        Field("scale", 2, Structure(Vec3)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class EntityInfo(Message):
    """``EntityInfo`` of the schema."""

    id: int = 0
    name: str = ""
    transform: Transform | None = None
    components: Sequence[str] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("id", 0, Number("Q")),
        Field("name", 1, Text()),
        Field("transform", 2, SubTable(Transform)),
        Field("components", 3, Texts()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetAgentSchemaRequest(Message):
    """Empty name: the default agent, here and in all requests that name an agent."""

    agent_name: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("agent_name", 0, Text()),)


@dataclass(frozen=True, slots=True, eq=False)
class GetAgentSchemaResponse(Message):
    """Answer to ``GetAgentSchema``."""

    schema: AgentSchema | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("schema", 0, SubTable(AgentSchema)),)


@dataclass(frozen=True, slots=True, eq=False)
class GetCameraConfigRequest(Message):
    """Request of ``GetCameraConfig``."""

    id: int = 0
    name: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("id", 0, Number("Q")),
        Field("name", 1, Text()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetCameraConfigResponse(Message):
    """Answer to ``GetCameraConfig``."""

    config: CameraConfig | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("config", 0, SubTable(CameraConfig)),)


@dataclass(frozen=True, slots=True, eq=False)
class GetEntityRequest(Message):
    """By id, or by name when the id is 0."""

    id: int = 0
    name: str = ""
    #: From 0.
    env_id: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("id", 0, Number("Q")),
        Field("name", 1, Text()),
        Field("env_id", 2, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetEntityResponse(Message):
    """Without an entity: there is none."""

    entity: EntityInfo | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("entity", 0, SubTable(EntityInfo)),)


@dataclass(frozen=True, slots=True, eq=False)
class GetFullStateRequest(Message):
    """Request of ``GetFullState``."""

    include_qpos: bool = True
    include_qvel: bool = True
    include_ctrl: bool = True
    #: From 0.
    env_id: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("include_qpos", 0, Truth(True)),
        Field("include_qvel", 1, Truth(True)),
        Field("include_ctrl", 2, Truth(True)),
        Field("env_id", 3, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetFullStateResponse(Message):
    """Answer to ``GetFullState``."""

    success: bool = False
    message: str = ""
    qpos: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    qvel: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    ctrl: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    #: Simulated seconds.
    time: float = 0.0
    frame_number: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
        Field("qpos", 2, Array("f")),
        Field("qvel", 3, Array("f")),
        Field("ctrl", 4, Array("f")),
        Field("time", 5, Number("d")),
        Field("frame_number", 6, Number("Q")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetJointStateRequest(Message):
    """Empty name: the default robot, here and in all requests that name a robot."""

    robot_name: str = ""
    #: From 0.
    env_id: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("robot_name", 0, Text()),
        Field("env_id", 1, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class JointState(Message):
    """``JointState`` of the schema."""

    positions: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    velocities: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("positions", 0, Array("f")),
        Field("velocities", 1, Array("f")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetJointStateResponse(Message):
    """Answer to ``GetJointState``."""

    success: bool = False
    message: str = ""
    state: JointState | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
        Field("state", 2, SubTable(JointState)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetModelInfoRequest(Message):
    """Request of ``GetModelInfo``."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class JointDescriptor(Message):
    """``JointDescriptor`` of the schema."""

    index: int = 0
    name: str = ""
    type: JointType = JointType.FREE
    qpos_adr: int = 0
    qvel_adr: int = 0
    #: Absent: not limited.
    range: Range | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("index", 0, Number("I")),
        Field("name", 1, Text()),
        Field("type", 2, Enumerated("B", JointType)),
        Field("qpos_adr", 3, Number("I")),
        Field("qvel_adr", 4, Number("I")),
        Field("range", 5, Structure(Range)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetModelInfoResponse(Message):
    """Answer to ``GetModelInfo``."""

    success: bool = False
    message: str = ""
    nq: int = 0
    nv: int = 0
    nu: int = 0
    joints: Sequence[JointDescriptor] = ()
    actuators: Sequence[ActuatorDescriptor] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
        Field("nq", 2, Number("I")),
        Field("nv", 3, Number("I")),
        Field("nu", 4, Number("I")),
        Field("joints", 5, Tables(JointDescriptor)),
        Field("actuators", 6, Tables(ActuatorDescriptor)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetMujocoInfoRequest(Message):
    """Request of ``GetMujocoInfo``."""

    robot_name: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("robot_name", 0, Text()),)


@dataclass(frozen=True, slots=True, eq=False)
class GetMujocoInfoResponse(Message):
    """Answer to ``GetMujocoInfo``."""

    success: bool = False
    message: str = ""
    nq: int = 0
    nv: int = 0
    nu: int = 0
    joint_names: Sequence[str] = ()
    actuator_names: Sequence[str] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
        Field("nq", 2, Number("I")),
        Field("nv", 3, Number("I")),
        Field("nu", 4, Number("I")),
        Field("joint_names", 5, Texts()),
        Field("actuator_names", 6, Texts()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetSceneInfoRequest(Message):
    """Request of ``GetSceneInfo``."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class GetSceneInfoResponse(Message):
    """Answer to ``GetSceneInfo``."""

    scene_name: str = ""
    scene_path: str = ""
    entity_count: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("scene_name", 0, Text()),
        Field("scene_path", 1, Text()),
        Field("entity_count", 2, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetSimulationModeRequest(Message):
    """Request of ``GetSimulationMode``."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class GetSimulationModeResponse(Message):
    """Answer to ``GetSimulationMode``."""

    mode: SimulationMode = SimulationMode.REALTIME
    #: Steps that are still to be made in the mode Paused.
    steps_left: int = 0
    #: Simulated seconds that have passed in each second of the last while.
    realtime_factor: float = 0.0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("mode", 0, Enumerated("B", SimulationMode)),
        Field("steps_left", 1, Number("I")),
        Field("realtime_factor", 2, Number("f")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetTelemetrySchemaRequest(Message):
    """Request of ``GetTelemetrySchema``."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TelemetrySchema(Message):
    """``TelemetrySchema`` of the schema."""

    observation_names: Sequence[str] = ()
    action_names: Sequence[str] = ()
    nq: int = 0
    nu: int = 0
    #: Everything that can be streamed: "qpos/hip", "sensor/gyro.0", "reward".
    signal_names: Sequence[str] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("observation_names", 0, Texts()),
        Field("action_names", 1, Texts()),
        Field("nq", 2, Number("I")),
        Field("nu", 3, Number("I")),
        Field("signal_names", 4, Texts()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetTelemetrySchemaResponse(Message):
    """Answer to ``GetTelemetrySchema``."""

    schema: TelemetrySchema | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("schema", 0, SubTable(TelemetrySchema)),)


@dataclass(frozen=True, slots=True, eq=False)
class GetViewportInfoRequest(Message):
    """Request of ``GetViewportInfo``."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ViewportConfig(Message):
    """``ViewportConfig`` of the schema."""

    viewport_name: str = ""
    streaming: bool = False
    fps: int = 0
    width: int = 0
    height: int = 0
    camera_name: str = ""
    env_id: int = 0
    #: The run that `lanekit view` shows; empty: the viewport is not on the fast lane.
    fast_lane_run: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("viewport_name", 0, Text()),
        Field("streaming", 1, Truth()),
        Field("fps", 2, Number("I")),
        Field("width", 3, Number("I")),
        Field("height", 4, Number("I")),
        Field("camera_name", 5, Text()),
        Field("env_id", 6, Number("I")),
        Field("fast_lane_run", 7, Text()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class GetViewportInfoResponse(Message):
    """Answer to ``GetViewportInfo``."""

    available_viewports: Sequence[str] = ()
    current_config: ViewportConfig | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("available_viewports", 0, Texts()),
        Field("current_config", 1, SubTable(ViewportConfig)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ImageFrame(Message):
    """An image. For the format "raw" the data are rows from the top, tightly packed."""

    data: bytes = b""
    width: int = 0
    height: int = 0
    channels: int = 0
    #: "raw", "jpeg" or "png".
    format: str = ""
    #: Wall-clock time.
    timestamp_ms: int = 0
    frame_number: int = 0
    env_id: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("data", 0, Blob()),
        Field("width", 1, Number("I")),
        Field("height", 2, Number("I")),
        Field("channels", 3, Number("I")),
        Field("format", 4, Text()),
        Field("timestamp_ms", 5, Number("Q")),
        Field("frame_number", 6, Number("I")),
        Field("env_id", 7, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ListCamerasRequest(Message):
    """Request of ``ListCameras``."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ListCamerasResponse(Message):
    """Answer to ``ListCameras``."""

    cameras: Sequence[CameraInfo] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("cameras", 0, Tables(CameraInfo)),)


@dataclass(frozen=True, slots=True, eq=False)
class ListEntitiesRequest(Message):
    """Request of ``ListEntities``."""

    include_transforms: bool = False
    include_components: bool = False
    #: From 0.
    env_id: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("include_transforms", 0, Truth()),
        Field("include_components", 1, Truth()),
        Field("env_id", 2, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ListEntitiesResponse(Message):
    """Answer to ``ListEntities``."""

    entities: Sequence[EntityInfo] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("entities", 0, Tables(EntityInfo)),)


@dataclass(frozen=True, slots=True, eq=False)
class ObservationTerm(Message):
    """``ObservationTerm`` of the schema."""

    name: str = ""
    group: str = ""
    params: Sequence[Param] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", 0, Text()),
        Field("group", 1, Text()),
        Field("params", 2, Tables(Param)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ReportProgressRequest(Message):
    """How far a run is, for an engine that shows it."""

    run_id: str = ""
    task_name: str = ""
    policy_name: str = ""
    #: For example "loading", "running", "complete".
    phase: str = ""
    #: From 1.
    current_episode: int = 0
    total_episodes: int = 0
    #: From 0, within the episode.
    current_step: int = 0
    max_steps: int = 0
    elapsed_s: float = 0.0
    status_text: str = ""
    finished: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("run_id", 0, Text()),
        Field("task_name", 1, Text()),
        Field("policy_name", 2, Text()),
        Field("phase", 3, Text()),
        Field("current_episode", 4, Number("i")),
        Field("total_episodes", 5, Number("i")),
        Field("current_step", 6, Number("i")),
        Field("max_steps", 7, Number("i")),
        Field("elapsed_s", 8, Number("f")),
        Field("status_text", 9, Text()),
        Field("finished", 10, Truth()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ReportProgressResponse(Message):
    """Answer to ``ReportProgress``."""

    accepted: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("accepted", 0, Truth()),)


@dataclass(frozen=True, slots=True, eq=False)
class SimulationContract(Message):
    """What a simulation varies from one episode to the next, and which commands it samples.

    A range or vector that is absent leaves the engine's default.
    """

    #: Standard deviation of the initial position.
    pose_position_noise: Vec3 | None = None
    #: Standard deviation of the initial orientation, in radians.
    pose_orientation_noise: float = 0.0
    joint_position_noise: float = 0.0
    joint_velocity_noise: float = 0.0
    #: Coefficient of surface friction.
    friction_range: Range | None = None
    #: Coefficient of restitution.
    restitution_range: Range | None = None
    #: Multiplier of body masses.
    mass_scale_range: Range | None = None
    #: Offset of the centre of mass, in metres.
    com_offset_range: Range | None = None
    #: Multiplier of motor strength.
    motor_strength_range: Range | None = None
    #: Offset of motor positions.
    motor_offset_range: Range | None = None
    #: Seconds between pushes.
    push_interval_range: Range | None = None
    #: Velocity of a push, in metres per second.
    push_velocity_range: Range | None = None
    terrain_type: str = ""
    terrain_difficulty: float = 0.0
    #: Commanded velocities that the engine samples and puts into the observation, in metres and
    #: radians per second.
    vel_command_x_range: Range | None = None
    vel_command_y_range: Range | None = None
    vel_command_yaw_range: Range | None = None
    #: Seconds between two samples of the command.
    vel_command_resampling_time_range: Range | None = None
    #: How often the command is to stand still, from 0 to 1.
    vel_command_standing_probability: float = 0.0
    #: Multiplier of gravity.
    gravity_scale_range: Range | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("pose_position_noise", 0, Structure(Vec3)),
        Field("pose_orientation_noise", 1, Number("f")),
        Field("joint_position_noise", 2, Number("f")),
        Field("joint_velocity_noise", 3, Number("f")),
        Field("friction_range", 4, Structure(Range)),
        Field("restitution_range", 5, Structure(Range)),
        Field("mass_scale_range", 6, Structure(Range)),
        Field("com_offset_range", 7, Structure(Range)),
        Field("motor_strength_range", 8, Structure(Range)),
        Field("motor_offset_range", 9, Structure(Range)),
        Field("push_interval_range", 10, Structure(Range)),
        Field("push_velocity_range", 11, Structure(Range)),
        Field("terrain_type", 12, Text()),
        Field("terrain_difficulty", 13, Number("f")),
        Field("vel_command_x_range", 14, Structure(Range)),
        Field("vel_command_y_range", 15, Structure(Range)),
        Field("vel_command_yaw_range", 16, Structure(Range)),
        Field("vel_command_resampling_time_range", 17, Structure(Range)),
        Field("vel_command_standing_probability", 18, Number("f")),
        Field("gravity_scale_range", 19, Structure(Range)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ResetAgentRequest(Message):
    """Without a contract the values of the last reset stay."""

    agent_name: str = ""
    simulation_contract: SimulationContract | None = None
    #: Which environments to reset; empty: all of the agent's.
    env_ids: npt.NDArray[np.uint32] = field(default_factory=_empty(np.uint32))
    #: For the engine's random numbers, if seeded is true.
    seed: int = 0
    seeded: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("agent_name", 0, Text()),
        Field("simulation_contract", 1, SubTable(SimulationContract)),
        Field("env_ids", 2, Array("I")),
        Field("seed", 3, Number("Q")),
        Field("seeded", 4, Truth()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ResetAgentResponse(Message):
    """Answer to ``ResetAgent``."""

    success: bool = False
    message: str = ""
    #: The contract that counts from now on.
    simulation_contract: SimulationContract | None = None
    #: Which environments were reset, and what each of them got of the contract's ranges.
    env_ids: npt.NDArray[np.uint32] = field(default_factory=_empty(np.uint32))
    friction: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    mass_scale: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    motor_strength: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    gravity_scale: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
        Field("simulation_contract", 2, SubTable(SimulationContract)),
        Field("env_ids", 3, Array("I")),
        Field("friction", 4, Array("f")),
        Field("mass_scale", 5, Array("f")),
        Field("motor_strength", 6, Array("f")),
        Field("gravity_scale", 7, Array("f")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ResetSceneRequest(Message):
    """Empty keyframe: the model's initial state."""

    keyframe: str = ""
    seed: int = 0
    seeded: bool = False
    #: Which environments; empty: all.
    env_ids: npt.NDArray[np.uint32] = field(default_factory=_empty(np.uint32))
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("keyframe", 0, Text()),
        Field("seed", 1, Number("Q")),
        Field("seeded", 2, Truth()),
        Field("env_ids", 3, Array("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ResetSceneResponse(Message):
    """Answer to ``ResetScene``."""

    success: bool = False
    message: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class RewardTerm(Message):
    """``RewardTerm`` of the schema."""

    name: str = ""
    weight: float = 0.0
    params: Sequence[Param] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", 0, Text()),
        Field("weight", 1, Number("f")),
        Field("params", 2, Tables(Param)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SendControlRequest(Message):
    """Request of ``SendControl``."""

    robot_name: str = ""
    controls: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    #: From 0. They count in modes in which the engine steps by itself; a trainer sends its own.
    env_id: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("robot_name", 0, Text()),
        Field("controls", 1, Array("f")),
        Field("env_id", 2, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SendControlResponse(Message):
    """Answer to ``SendControl``."""

    success: bool = False
    message: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SetActionGroupRequest(Message):
    """Some elements of the action vector, set ahead of the step that applies them."""

    agent_name: str = ""
    group_name: str = ""
    actions: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    #: Where in the action vector each of them belongs.
    action_indices: npt.NDArray[np.uint32] = field(default_factory=_empty(np.uint32))
    #: Which environments; empty: all.
    env_ids: npt.NDArray[np.uint32] = field(default_factory=_empty(np.uint32))
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("agent_name", 0, Text()),
        Field("group_name", 1, Text()),
        Field("actions", 2, Array("f")),
        Field("action_indices", 3, Array("I")),
        Field("env_ids", 4, Array("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SetActionGroupResponse(Message):
    """Answer to ``SetActionGroup``."""

    success: bool = False
    message: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SetCameraConfigRequest(Message):
    """Request of ``SetCameraConfig``."""

    config: CameraConfig | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("config", 0, SubTable(CameraConfig)),)


@dataclass(frozen=True, slots=True, eq=False)
class SetCameraConfigResponse(Message):
    """Answer to ``SetCameraConfig``."""

    success: bool = False
    message: str = ""
    #: As it is now: the engine may have chosen other values.
    config: CameraConfig | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
        Field("config", 2, SubTable(CameraConfig)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SetEntityTransformRequest(Message):
    """What is absent of the transform stays as it is."""

    id: int = 0
    transform: Transform | None = None
    #: From 0.
    env_id: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("id", 0, Number("Q")),
        Field("transform", 1, SubTable(Transform)),
        Field("env_id", 2, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SetEntityTransformResponse(Message):
    """Answer to ``SetEntityTransform``."""

    success: bool = False
    message: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SetQposRequest(Message):
    """All positions, or some of them: with indices, as many values as indices."""

    qpos: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    indices: npt.NDArray[np.uint32] = field(default_factory=_empty(np.uint32))
    #: Even where an agent is in charge.
    force: bool = False
    #: From 0.
    env_id: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("qpos", 0, Array("f")),
        Field("indices", 1, Array("I")),
        Field("force", 2, Truth()),
        Field("env_id", 3, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SetQposResponse(Message):
    """Answer to ``SetQpos``."""

    success: bool = False
    message: str = ""
    values_written: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
        Field("values_written", 2, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SetSimulationModeRequest(Message):
    """Request of ``SetSimulationMode``."""

    mode: SimulationMode = SimulationMode.REALTIME
    #: With the mode Paused: make so many steps, then stay.
    steps: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("mode", 0, Enumerated("B", SimulationMode)),
        Field("steps", 1, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SetSimulationModeResponse(Message):
    """Answer to ``SetSimulationMode``."""

    success: bool = False
    message: str = ""
    current_mode: SimulationMode = SimulationMode.REALTIME
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("success", 0, Truth()),
        Field("message", 1, Text()),
        Field("current_mode", 2, Enumerated("B", SimulationMode)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class StreamCameraRequest(Message):
    """A camera by id, or by name when the id is 0."""

    id: int = 0
    name: str = ""
    target_fps: int = 0
    #: In pixels; 0: the camera's own. The same for the height.
    width: int = 0
    height: int = 0
    #: "raw" or "jpeg"; empty: "raw".
    format: str = ""
    #: Which environments, one after the other in each round; empty: the first.
    env_ids: npt.NDArray[np.uint32] = field(default_factory=_empty(np.uint32))
    #: Write the pixels into the lane's image region, at each environment's place, and send frames
    #: without data. Width and height are then the region's.
    into_images: bool = False
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("id", 0, Number("Q")),
        Field("name", 1, Text()),
        Field("target_fps", 2, Number("I")),
        Field("width", 3, Number("I")),
        Field("height", 4, Number("I")),
        Field("format", 5, Text()),
        Field("env_ids", 6, Array("I")),
        Field("into_images", 7, Truth()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class StreamJointStateRequest(Message):
    """Request of ``StreamJointState``."""

    robot_name: str = ""
    #: The engine may send less often. 0: as often as it likes. The same for every target_fps.
    target_fps: int = 0
    #: From 0.
    env_id: int = 0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("robot_name", 0, Text()),
        Field("target_fps", 1, Number("I")),
        Field("env_id", 2, Number("I")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class StreamTelemetryRequest(Message):
    """Request of ``StreamTelemetry``."""

    target_fps: int = 0
    #: From 0.
    env_id: int = 0
    #: Names of the signals, as the schema has them; empty: all.
    signals: Sequence[str] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("target_fps", 0, Number("I")),
        Field("env_id", 1, Number("I")),
        Field("signals", 2, Texts()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class StreamViewportRequest(Message):
    """Request of ``StreamViewport``."""

    viewport_name: str = ""
    target_fps: int = 0
    width: int = 0
    height: int = 0
    format: str = ""
    #: From 0.
    env_id: int = 0
    #: Empty: the one that the viewport looks through already.
    camera_name: str = ""
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("viewport_name", 0, Text()),
        Field("target_fps", 1, Number("I")),
        Field("width", 2, Number("I")),
        Field("height", 3, Number("I")),
        Field("format", 4, Text()),
        Field("env_id", 5, Number("I")),
        Field("camera_name", 6, Text()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class TerminationTerm(Message):
    """``TerminationTerm`` of the schema."""

    name: str = ""
    is_timeout: bool = False
    params: Sequence[Param] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", 0, Text()),
        Field("is_timeout", 1, Truth()),
        Field("params", 2, Tables(Param)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class TaskContract(Message):
    """A whole task, as the trainer wants it."""

    task_id: str = ""
    robot: str = ""
    scene: str = ""
    required_observations: Sequence[ObservationTerm] = ()
    optional_observations: Sequence[ObservationTerm] = ()
    actions: Sequence[ActionTerm] = ()
    #: Rewards that the engine computes.
    engine_rewards: Sequence[RewardTerm] = ()
    #: Names of the rewards that the trainer computes itself.
    python_rewards: Sequence[str] = ()
    terminations: Sequence[TerminationTerm] = ()
    simulation: SimulationContract | None = None
    custom_randomizations: Sequence[CustomRandomization] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("task_id", 0, Text()),
        Field("robot", 1, Text()),
        Field("scene", 2, Text()),
        Field("required_observations", 3, Tables(ObservationTerm)),
        Field("optional_observations", 4, Tables(ObservationTerm)),
        Field("actions", 5, Tables(ActionTerm)),
        Field("engine_rewards", 6, Tables(RewardTerm)),
        Field("python_rewards", 7, Texts()),
        Field("terminations", 8, Tables(TerminationTerm)),
        Field("simulation", 9, SubTable(SimulationContract)),
        Field("custom_randomizations", 10, Tables(CustomRandomization)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class TelemetryFrame(Message):
    """``TelemetryFrame`` of the schema."""

    #: Wall-clock time.
    timestamp_ms: int = 0
    frame_number: int = 0
    task_index: int = 0
    observation_qpos: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    action_ctrl: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    #: One for each signal that was asked for, in that order.
    values: npt.NDArray[np.float32] = field(default_factory=_empty(np.float32))
    #: Simulated seconds.
    time: float = 0.0
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("timestamp_ms", 0, Number("Q")),
        Field("frame_number", 1, Number("I")),
        Field("task_index", 2, Number("I")),
        Field("observation_qpos", 3, Array("f")),
        Field("action_ctrl", 4, Array("f")),
        Field("values", 5, Array("f")),
        Field("time", 6, Number("d")),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ValidateTaskContractRequest(Message):
    """Request of ``ValidateTaskContract``."""

    contract: TaskContract | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (Field("contract", 0, SubTable(TaskContract)),)


@dataclass(frozen=True, slots=True, eq=False)
class ValidateTaskContractResponse(Message):
    """Answer to ``ValidateTaskContract``."""

    is_valid: bool = False
    errors: Sequence[ContractFinding] = ()
    warnings: Sequence[ContractFinding] = ()
    #: Optional observations that the engine has, and those that it has not.
    resolved_optionals: Sequence[str] = ()
    unresolved_optionals: Sequence[str] = ()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("is_valid", 0, Truth()),
        Field("errors", 1, Tables(ContractFinding)),
        Field("warnings", 2, Tables(ContractFinding)),
        Field("resolved_optionals", 3, Texts()),
        Field("unresolved_optionals", 4, Texts()),
    )


PAYLOADS: dict[int, type[Message]] = {
    1: Bytes,
    2: GetAgentSchemaRequest,
    3: GetAgentSchemaResponse,
    4: ResetAgentRequest,
    5: ResetAgentResponse,
    6: SetActionGroupRequest,
    7: SetActionGroupResponse,
    8: ReportProgressRequest,
    9: ReportProgressResponse,
    10: ValidateTaskContractRequest,
    11: ValidateTaskContractResponse,
    12: GetJointStateRequest,
    13: GetJointStateResponse,
    14: StreamJointStateRequest,
    15: GetMujocoInfoRequest,
    16: GetMujocoInfoResponse,
    17: SendControlRequest,
    18: SendControlResponse,
    19: GetModelInfoRequest,
    20: GetModelInfoResponse,
    21: GetFullStateRequest,
    22: GetFullStateResponse,
    23: SetQposRequest,
    24: SetQposResponse,
    25: ResetSceneRequest,
    26: ResetSceneResponse,
    27: GetTelemetrySchemaRequest,
    28: GetTelemetrySchemaResponse,
    29: StreamTelemetryRequest,
    30: TelemetryFrame,
    31: GetSceneInfoRequest,
    32: GetSceneInfoResponse,
    33: ListEntitiesRequest,
    34: ListEntitiesResponse,
    35: GetEntityRequest,
    36: GetEntityResponse,
    37: SetEntityTransformRequest,
    38: SetEntityTransformResponse,
    39: SetSimulationModeRequest,
    40: SetSimulationModeResponse,
    41: GetSimulationModeRequest,
    42: GetSimulationModeResponse,
    43: ListCamerasRequest,
    44: ListCamerasResponse,
    45: StreamCameraRequest,
    46: ImageFrame,
    47: GetCameraConfigRequest,
    48: GetCameraConfigResponse,
    49: SetCameraConfigRequest,
    50: SetCameraConfigResponse,
    51: GetViewportInfoRequest,
    52: GetViewportInfoResponse,
    53: StreamViewportRequest,
    54: DebugDrawRequest,
    55: DebugDrawResponse,
}


@dataclass(frozen=True, slots=True, eq=False)
class Envelope(Message):
    """One message: what it is, what it answers, and what it carries."""

    #: The client's own random number: answers to one that has gone are not taken for answers to its
    #: successor.
    session: int = 0
    #: The request's number within the session; answers carry the same.
    correlation_id: int = 0
    kind: Kind = Kind.REQUEST
    #: Service and method, as in "Agent.ResetAgent". In requests.
    method: str = ""
    #: In requests: not to be begun after this time of CLOCK_MONOTONIC. 0: no such time.
    deadline_ns: int = 0
    #: In a request for a stream: how many items may be sent before more credit comes. 0: no such
    #: limit, and items for which there is no room are left out. In a Credit message: how many more.
    credit: int = 0
    #: In a stream's item: how many items were left out before it.
    skipped: int = 0
    error_code: ErrorCode = ErrorCode.OK
    error_type: str = ""
    error_message: str = ""
    payload: Message | None = None
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("session", 0, Number("Q")),
        Field("correlation_id", 1, Number("Q")),
        Field("kind", 2, Enumerated("B", Kind)),
        Field("method", 3, Text()),
        Field("deadline_ns", 4, Number("Q")),
        Field("credit", 5, Number("I")),
        Field("skipped", 6, Number("I")),
        Field("error_code", 7, Enumerated("B", ErrorCode)),
        Field("error_type", 8, Text()),
        Field("error_message", 9, Text()),
        Field("payload", 11, UnionOf(PAYLOADS)),
    )
