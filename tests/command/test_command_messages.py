"""Messages as bytes: what is sent arrives, FlatBuffers' tools agree, nothing else gets in."""

from __future__ import annotations

import importlib
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_messages import ALL, envelopes, full

from lanekit import LanekitError, MalformedMessage
from lanekit.command import (
    METHODS,
    Bytes,
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
from lanekit.command.envelope import BadPayload, pack, unpack

quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


# --- what is sent arrives -------------------------------------------------------------------------


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


# --- FlatBuffers' own tools agree -----------------------------------------------------------------


@pytest.fixture(scope="module")
def flatc() -> Path:
    """FlatBuffers' compiler, installed if this machine lets us."""
    root = Path(__file__).resolve().parent.parent.parent
    command = [str(root / "tools" / "generate_commands.sh"), "--flatc"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        pytest.skip(f"no flatc here: {done.stderr.strip()}")
    return Path(done.stdout.strip())


@pytest.mark.once
@pytest.mark.usefixtures("flatc")
def test_the_classes_are_what_the_schema_says(root: Path, tmp_path: Path) -> None:
    command = [str(root / "tools" / "generate_commands.sh"), str(tmp_path)]
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run(command, check=True, timeout=120, env=environment)
    made = sorted(tmp_path.iterdir())
    assert [file.name for file in made] == ["messages.py", "methods.py"]
    for file in made:
        kept = root / "python" / "lanekit" / "command" / file.name
        assert kept.read_text() == file.read_text(), "stale: run tools/generate_commands.sh"


@pytest.fixture
def generated(flatc: Path, root: Path, tmp_path: Path) -> Iterator[Any]:
    """What flatc itself generates for Python."""
    pytest.importorskip("flatbuffers")
    schema = root / "python" / "lanekit" / "command" / "schema" / "command.fbs"
    subprocess.run([flatc, "--python", "-o", tmp_path, schema], check=True, timeout=60)
    (tmp_path / "lanekit").rename(tmp_path / "independent")  # not in our own package's way
    for path in (tmp_path / "independent").rglob("*.py"):
        text = path.read_text().replace("from lanekit.command.", "from independent.command.")
        path.write_text(text)
    sys.path.insert(0, str(tmp_path))
    yield lambda name: getattr(importlib.import_module(f"independent.command.{name}"), name)
    sys.path.remove(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("independent")]:
        del sys.modules[name]


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def read_with(generated: Any, table: Any, message: fb.Message) -> None:
    """Compare a message with what FlatBuffers' runtime reads."""
    for field in type(message).FIELDS:
        expected = getattr(message, field.name)
        getter = getattr(table, camel(field.name), None)
        assert getter is not None, field.name
        if field.type.absent(expected) and not isinstance(field.type, fb.Number):
            continue
        if isinstance(field.type, fb.Tables):
            assert getattr(table, f"{camel(field.name)}Length")() == len(expected)
            for i, one in enumerate(expected):
                read_with(generated, getter(i), one)
        elif isinstance(field.type, fb.SubTable):
            read_with(generated, getter(), expected)
        elif isinstance(field.type, fb.Texts):
            count = getattr(table, f"{camel(field.name)}Length")()
            assert [getter(i).decode() for i in range(count)] == list(expected)
        elif isinstance(field.type, fb.Structure):
            found = getter()
            for name in type(expected).__slots__:
                assert getattr(found, camel(name))() == getattr(expected, name)
        elif isinstance(field.type, fb.Array | fb.Blob):
            found = getattr(table, f"{camel(field.name)}AsNumpy")()
            assert found.tolist() == list(expected)
        elif isinstance(field.type, fb.Text):
            assert getter().decode() == expected
        else:
            assert getter() == expected, field.name


@pytest.mark.once
def test_flatbuffers_own_runtime_reads_what_we_write(generated: Any) -> None:
    for number, kind in m.PAYLOADS.items():
        sent = full(kind)
        data = pack(m.Envelope(session=5, correlation_id=2**60, method="A.B", payload=sent))
        envelope = generated("Envelope").GetRootAs(data, 0)
        assert generated("Envelope").EnvelopeBufferHasIdentifier(data, 0)
        assert (envelope.Session(), envelope.CorrelationId()) == (5, 2**60)
        assert envelope.Method() == b"A.B"
        assert envelope.PayloadType() == number
        table = generated(kind.__name__)()
        table.Init(envelope.Payload().Bytes, envelope.Payload().Pos)
        read_with(generated, table, sent)


@pytest.mark.once
def test_we_read_what_flatbuffers_own_builder_writes(generated: Any) -> None:
    import flatbuffers

    def module(name: str) -> Any:
        return importlib.import_module(f"independent.command.{name}")

    builder = flatbuffers.Builder(0)
    terrain = builder.CreateString("hills")
    contract = module("SimulationContract")
    vec, span = module("Vec3"), module("Range")
    contract.Start(builder)
    contract.AddTerrainType(builder, terrain)
    contract.AddPosePositionNoise(builder, vec.CreateVec3(builder, 1, 2, 3))
    contract.AddFrictionRange(builder, span.CreateRange(builder, 0.5, 1.5))
    contract.AddVelCommandStandingProbability(builder, 0.25)
    made = contract.End(builder)
    name = builder.CreateString("agent_0")
    ids = builder.CreateNumpyVector(np.array([3, 1, 2], np.uint32))
    reset = module("ResetAgentRequest")
    reset.Start(builder)
    reset.AddAgentName(builder, name)
    reset.AddSimulationContract(builder, made)
    reset.AddEnvIds(builder, ids)
    reset.AddSeed(builder, 2**63)
    reset.AddSeeded(builder, True)
    payload = reset.End(builder)
    method = builder.CreateString("Agent.ResetAgent")
    envelope = module("Envelope")
    envelope.Start(builder)
    envelope.AddSession(builder, 9)
    envelope.AddMethod(builder, method)
    envelope.AddPayloadType(builder, 4)
    envelope.AddPayload(builder, payload)
    builder.Finish(envelope.End(builder), file_identifier=b"LKC1")
    arrived = unpack(bytes(builder.Output()))
    assert arrived == m.Envelope(
        session=9,
        method="Agent.ResetAgent",
        payload=ResetAgentRequest(
            "agent_0",
            SimulationContract(
                pose_position_noise=Vec3(1, 2, 3),
                friction_range=Range(0.5, 1.5),
                terrain_type="hills",
                vel_command_standing_probability=0.25,
            ),
            env_ids=np.array([3, 1, 2]),
            seed=2**63,
            seeded=True,
        ),
    )


def as_json(value: Any) -> Any:
    """A message as flatc writes it: fields that are not there left out."""
    if isinstance(value, fb.Message):
        return {
            field.name: as_json(getattr(value, field.name))
            for field in value.FIELDS
            if not field.type.absent(getattr(value, field.name))
        }
    if isinstance(value, fb.StructValue):
        return {name: getattr(value, name) for name in type(value).__slots__}
    if isinstance(value, bytes):
        return list(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [as_json(item) for item in value] if isinstance(value, tuple) else value


@pytest.mark.once
def test_flatc_turns_our_bytes_to_json_and_back(flatc: Path, root: Path, tmp_path: Path) -> None:
    schema = root / "python" / "lanekit" / "command" / "schema" / "command.fbs"
    sent = {kind.__name__: full(kind) for kind in ALL}
    for name, message in sent.items():
        (tmp_path / f"{name}.lkc").write_bytes(pack(m.Envelope(session=7, payload=message)))
    files = [f"{name}.lkc" for name in sent]
    options = ["--json", "--strict-json", "--raw-binary"]
    command = [flatc, *options, schema, "--", *files]
    subprocess.run(command, check=True, timeout=60, cwd=tmp_path)
    made = [f"{name}.json" for name in sent]
    for name, message in sent.items():
        found = json.loads((tmp_path / f"{name}.json").read_text())
        assert found["payload_type"] == name
        # Enumerations are named there.
        expected = as_json(message)
        for field in message.FIELDS:
            if isinstance(field.type, fb.Enumerated):
                expected[field.name] = getattr(message, field.name).name.capitalize()
        assert close_to(found["payload"], expected), name
    (tmp_path / "back").mkdir()
    command = [flatc, "--binary", "-o", "back", schema, *made]
    subprocess.run(command, check=True, timeout=60, cwd=tmp_path)
    for name, message in sent.items():
        data = (tmp_path / "back" / f"{name}.lkc").read_bytes()
        assert unpack(data) == m.Envelope(session=7, payload=message)


def close_to(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close_to(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close_to, one, other))
    if isinstance(one, str) and isinstance(other, int | str):
        return str(other) == one or one.isalpha()  # an enumeration within a list's element
    return bool(one == other) or math.isclose(one, other, rel_tol=1e-6)


# --- and nothing else gets in ---------------------------------------------------------------------


def take(data: bytes) -> m.Envelope | None:
    """Read bytes that may be anything: a message, or the one kind of error."""
    try:
        return unpack(data)
    except MalformedMessage as error:
        told = str(error)
    assert told.startswith("malformed message: ")
    return None


SAMPLES = [pack(m.Envelope(session=1, correlation_id=2, method="x", payload=full(k))) for k in ALL]


@given(st.binary(max_size=200))
@quick
def test_random_bytes_are_refused(data: bytes) -> None:
    assert take(data) is None
    assert take(data[:4] + b"LKC1" + data[4:]) is None or len(data) > 8


@pytest.mark.parametrize("sample", SAMPLES, ids=[k.__name__ for k in ALL])
def test_a_message_cut_short_anywhere_is_refused_or_still_whole(sample: bytes) -> None:
    whole = unpack(sample)
    for size in range(len(sample)):
        found = take(sample[:size])
        # Bytes at the end may be padding, and nothing else may be missing.
        assert found is None or (found == whole and not any(sample[size:]))


@given(st.sampled_from(SAMPLES), st.data())
@quick
def test_flipped_bytes_are_refused_or_read_within_the_message(
    sample: bytes, data: st.DataObject
) -> None:
    changed = bytearray(sample)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(sample) - 1))] = data.draw(st.integers(0, 255))
    take(bytes(changed))


def test_every_word_of_a_message_may_be_anything() -> None:
    numbers = random.Random(20)
    words = [
        0,
        1,
        2,
        3,
        4,
        7,
        8,
        0x7F,
        0xFF,
        0xFFFF,
        0x7FFFFFFF,
        0x80000000,
        0xFFFFFFFC,
        0xFFFFFFFF,
    ]
    refused = 0
    for sample in SAMPLES[::4]:
        for at in range(0, len(sample) - 3, 2):
            for word in numbers.sample(words, 4):
                changed = bytearray(sample)
                struct.pack_into("<I", changed, at, word)
                refused += take(bytes(changed)) is None
    assert refused > 500


def test_a_bad_payload_does_not_hide_who_sent_it() -> None:
    data = bytearray(pack(m.Envelope(session=1, correlation_id=77, payload=full(Bytes))))
    position = data.index(bytes(range(3, 8))) - 4  # the length of the bytes
    struct.pack_into("<I", data, position, 10**6)
    with pytest.raises(BadPayload, match=r"Bytes.data claims 1000000 elements") as told:
        unpack(bytes(data))
    assert told.value.envelope.correlation_id == 77
    assert told.value.envelope.payload is None


def table(vtable: list[int], fields: bytes) -> bytes:
    """A message whose root is one table: identifier, vtable, table."""
    sizes = struct.pack(f"<{2 + len(vtable)}H", 4 + 2 * len(vtable), 4 + len(fields), *vtable)
    sizes += bytes(-len(sizes) % 4)
    at = 8 + len(sizes)
    return struct.pack("<I4s", at, b"LKC1") + sizes + struct.pack("<i", at - 8) + fields


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "leaves the message"),
        (bytes(8), "identifier"),
        (b"\0\0\0\0LKC1", "offset 0 at byte 0, which leads nowhere"),
        (b"\xff\0\0\0LKC1", "offset 255"),
        (b"\x06\0\0\0LKC1\0\0\0\0", "not aligned to 4"),
        (b"\x08\0\0\0LKC1\x10\0\0\0", "vtable of Envelope is at byte -8"),
        (b"\x08\0\0\0LKC1\xf0\xff\xff\xff", "leaves the message"),
        (b"\x08\0\0\0LKC1\0\0\0\0", "has the sizes 0 and 0"),
        (b"\x08\0\0\0LKC1\xfc\xff\xff\xff\xc8\0\x04\0", "the vtable of Envelope at byte 12 leaves"),
        (table([4], b""), r"session is at byte 4 of a table of 4 bytes"),
        (table([3], bytes(8)), "session is at byte 3"),
        (table([4], bytes(8)), "aligned to 8"),
        (table([0, 0, 4], b"\x09\0\0\0"), "has the value 9, which is no Kind"),
        (table([0, 0, 0, 4], b"\x04\0\0\0"), "Envelope.method at byte"),
        (table([0, 0, 0, 4], b"\x04\0\0\0\x05\0\0\0abcde"), "leaves the message"),
        (table([0, 0, 0, 4], b"\x04\0\0\0\x02\0\0\0abcd"), "without a zero"),
        (table([0, 0, 0, 4], b"\x04\0\0\0\x02\0\0\0a\xff\0\0"), "not UTF-8"),
        (table([0] * 10 + [4], b"\x01\0\0\0"), "a type and no value"),
        (table([0] * 11 + [4], b"\x04\0\0\0"), "a type and no value"),
        (table([0] * 10 + [4, 8], b"\xc8\0\0\0\x04\0\0\0"), "type 200, which this lanekit"),
    ],
)
def test_each_kind_of_damage_is_named(data: bytes, told: str) -> None:
    with pytest.raises(MalformedMessage, match=told):
        unpack(data)
    assert issubclass(MalformedMessage, LanekitError)


def test_a_message_that_unfolds_without_end_is_given_up() -> None:
    # Lists whose elements are all the same list: few bytes, and a million tables to visit.
    count = 2000
    term = table([0, 0, 4], b"\x04\0\0\0")  # a term with a list of parameters
    parameters = struct.pack("<I", count)
    start = len(term) + 4
    parameter = start + 4 * count + 8
    for i in range(count):
        parameters += struct.pack("<I", parameter - (start + 4 * i))
    bottom = struct.pack("<HHHH", 4, 4, 0, 0) + struct.pack("<i", 8)
    inner = term + parameters + bottom
    found = fb.decode(inner, m.ObservationTerm, b"LKC1")
    assert len(found.params) == count  # once is fine
    # Now a contract with a list of `count` such terms, all of them this one.
    head = table([0, 0, 0, 4], b"\x04\0\0\0")
    listed = struct.pack("<I", count)
    start = len(head) + 4
    body = start + 4 * count
    body += -body % 8
    target = body + struct.unpack_from("<I", inner)[0]
    for i in range(count):
        listed += struct.pack("<I", target - (start + 4 * i))
    outer = (head + listed).ljust(body, b"\0") + inner
    with pytest.raises(MalformedMessage, match="refers to the same bytes too often"):
        fb.decode(outer, m.TaskContract, b"LKC1")


@pytest.fixture(scope="module")
def own_verifier(flatc: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that asks FlatBuffers' own verifier, which C++ has and Python has not."""
    headers = [Path("/usr/include"), flatc.parent / "root" / "usr" / "include"]
    found = [path for path in headers if (path / "flatbuffers" / "flatbuffers.h").exists()]
    if not found or shutil.which("c++") is None:
        pytest.skip("no FlatBuffers headers, or no C++ compiler here")
    here, made = Path(__file__).parent, tmp_path_factory.mktemp("verifier")
    schema = here.parent.parent / "python" / "lanekit" / "command" / "schema" / "command.fbs"
    subprocess.run([flatc, "--cpp", "-o", made, schema], check=True, timeout=60)
    source, program = here / "compare_verifier.cpp", made / "compare_verifier"
    command = ["c++", "-std=c++17", "-O1", f"-I{found[0]}", f"-I{made}", source, "-o", program]
    subprocess.run(command, check=True, timeout=240)
    return program


@pytest.mark.once
def test_what_we_let_in_flatbuffers_own_verifier_lets_in(
    own_verifier: Path, tmp_path: Path
) -> None:
    numbers = random.Random(7)
    messages = list(SAMPLES)
    for _ in range(30000):
        changed = bytearray(numbers.choice(SAMPLES))
        for _ in range(numbers.choice([1, 1, 1, 2, 3])):
            at = numbers.randrange(len(changed))
            changed[at] = numbers.choice([0, 1, 2, 4, 8, 16, 0x7F, 0x80, 0xFF, changed[at] ^ 1])
        if numbers.random() < 0.1:
            del changed[numbers.randrange(len(changed)) :]
        messages.append(bytes(changed))
    with (tmp_path / "messages").open("wb") as file:
        for message in messages:
            file.write(struct.pack("<I", len(message)) + message)
    command = [own_verifier, tmp_path / "messages"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    theirs = [mark == "1" for mark in done.stdout]
    ours = [take(message) is not None for message in messages]
    assert len(theirs) == len(ours)
    assert all(theirs[: len(SAMPLES)])  # all that we write
    assert all(ours[: len(SAMPLES)])
    assert not [n for n, (our, their) in enumerate(zip(ours, theirs, strict=True)) if our > their]
    # And we are not simply stricter about everything: texts and enumerations make the difference.
    assert sum(ours) > 0.8 * sum(theirs)
    assert sum(theirs) < len(theirs)
