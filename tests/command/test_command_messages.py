"""Messages as bytes: what is sent arrives, and what can not be sent is refused where it is made."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from made_messages import ALL, envelopes, full, quick

from lanekit.command import (
    METHODS,
    DebugArrow,
    DebugDrawRequest,
    GetEntityRequest,
    ImageFrame,
    JointState,
    Range,
    ResetAgentRequest,
    SetSimulationModeRequest,
    SimulationContract,
    SimulationMode,
    Vec3,
)
from lanekit.command import flatbuffer as fb
from lanekit.command import messages as m
from lanekit.command.envelope import pack, unpack


@given(envelopes)
@quick
def test_any_message_arrives_as_it_was_sent(envelope: m.Envelope) -> None:
    assert unpack(pack(envelope)) == envelope


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_field_of_every_message_travels(kind: type[fb.Message]) -> None:
    sent = full(kind)
    arrived = unpack(pack(m.Envelope(payload=sent))).payload
    assert arrived == sent
    for field in kind.FIELDS:
        assert not field.type.absent(getattr(arrived, field.name)), field.name
        changed = {f.name: getattr(sent, f.name) for f in kind.FIELDS if f is not field}
        assert kind(**changed) != sent  # and the comparison above would notice
    empty = unpack(pack(m.Envelope(payload=kind()))).payload
    assert empty == kind()


def test_the_schema_has_every_method_of_the_seven_services() -> None:
    expected = """
        Agent: GetAgentSchema ResetAgent SetActionGroup ReportProgress ValidateTaskContract
        Mujoco: GetJointState StreamJointState GetMujocoInfo SendControl GetModelInfo GetFullState
        Mujoco: SetQpos ResetScene
        Telemetry: GetTelemetrySchema StreamTelemetry
        Scene: GetSceneInfo ListEntities GetEntity SetEntityTransform SetSimulationMode
        Scene: GetSimulationMode
        Camera: ListCameras StreamCamera GetCameraConfig SetCameraConfig
        Viewport: GetViewportInfo StreamViewport
        Debug: Draw
    """
    names = set()
    for line in expected.split("\n"):
        service, _, methods = line.strip().partition(":")
        names |= {f"{service}.{method}" for method in methods.split()}
    assert set(METHODS) == names
    for method in METHODS.values():
        assert method.streams == method.name.partition(".")[2].startswith("Stream")
        assert {method.request, method.response} <= set(m.PAYLOADS.values())


def test_a_message_reads_as_what_it_holds() -> None:
    contract = SimulationContract(friction_range=Range(0.5, 1.25), terrain_type="hills")
    request = ResetAgentRequest("agent_0", contract, env_ids=np.array([1, 2]))
    assert request.simulation_contract == contract
    assert request.env_ids.dtype == np.uint32
    assert repr(contract.friction_range) == "Range(min=0.5, max=1.25)"
    assert SimulationContract(terrain_difficulty=0.1).terrain_difficulty == np.float32(0.1)
    with pytest.raises(AttributeError):
        request.agent_name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (lambda: GetEntityRequest(id=-1), ValueError, "GetEntityRequest.id must be from 0"),
        (lambda: GetEntityRequest(id=2**64), ValueError, "from 0 to 18446744073709551615"),
        (lambda: GetEntityRequest(id=1.5), TypeError, "GetEntityRequest.id is an integer"),
        (lambda: GetEntityRequest(id=True), TypeError, "is an integer, not bool"),
        (lambda: GetEntityRequest(name=b"x"), TypeError, "GetEntityRequest.name is a str"),
        (lambda: GetEntityRequest(name="\ud800"), ValueError, "UTF-8"),
        (lambda: ResetAgentRequest(seeded=1), TypeError, "seeded is True or False"),
        (lambda: ResetAgentRequest(env_ids=np.array([-1])), ValueError, "env_ids holds numbers"),
        (lambda: ResetAgentRequest(env_ids=np.array([0.5])), TypeError, "uint32, not float64"),
        (lambda: ResetAgentRequest(env_ids=np.zeros((2, 2), int)), ValueError, "one dimension"),
        (lambda: JointState(positions=np.array([1.0, 1e300])), ValueError, "too large for"),
        (lambda: ResetAgentRequest(simulation_contract=Range(0, 1)), TypeError, "SimulationCon"),
        (lambda: SimulationContract(friction_range=(0, 1)), TypeError, "a Range or None"),
        (lambda: SimulationContract(terrain_difficulty=1e300), ValueError, "can not hold 1e+300"),
        (lambda: SimulationContract(terrain_difficulty="1"), TypeError, "is a number, not str"),
        (lambda: Vec3(0, 0, 1e300), ValueError, "Vec3 can not hold"),
        (lambda: Vec3(0, 0, "1"), TypeError, "Vec3.z is a number"),
        (lambda: SetSimulationModeRequest(mode=7), ValueError, "REALTIME, DETERMINISTIC, FAST"),
        (lambda: DebugDrawRequest(arrows=[None]), TypeError, r"arrows[0] is a DebugArrow"),
        (lambda: DebugDrawRequest(arrows=DebugArrow()), TypeError, "arrows is a list"),
        (lambda: ImageFrame(data="x"), TypeError, "ImageFrame.data is bytes"),
        (lambda: m.Envelope(payload=Range(0, 1)), TypeError, "a message of the schema"),
    ],
)
def test_what_can_not_be_sent_is_refused_where_it_is_made(
    make: Any, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=re.escape(told)):
        make()


def test_arrays_and_buffers_of_other_types_are_taken_over() -> None:
    assert JointState(positions=np.array([1, 2])).positions.dtype == np.float32
    assert JointState(positions=[0.5]).positions.tolist() == [0.5]  # type: ignore[arg-type]
    source = np.zeros(3, np.float32)
    state = JointState(positions=source)
    source[:] = 1  # the message stays what it was
    assert state.positions.tolist() == [0, 0, 0]
    assert JointState(velocities=np.array([np.inf, -np.inf])).velocities.tolist() == [
        np.inf,
        -np.inf,
    ]
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert ImageFrame(data=pixels).data == bytes(range(6))  # type: ignore[arg-type]
    assert SetSimulationModeRequest(mode=2).mode is SimulationMode.FAST  # type: ignore[arg-type]
