"""What reaches the process that draws through shared memory is checked, and never executed."""

from __future__ import annotations

import math
import os
import pickle
import random
import struct
import subprocess
import sys
import tracemalloc
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import worlds

import lanekit
from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneReader, FastLaneWriter
from lanekit.integrations import FastLaneTelemetryWrapper, FastLaneWarning
from lanekit.integrations.shadow import state_codec
from lanekit.integrations.shadow.atari import ATARI
from lanekit.integrations.shadow.mujoco_physics import MUJOCO
from lanekit.integrations.shadow.state_codec import decode_state, encode_state
from lanekit.integrations.showing.helper_process import HelperProcess
from lanekit.integrations.showing.lanes import State, StateLane, slot_lane_of, state_lane_of
from lanekit.integrations.showing.painter import ShadowPlan, plan_shadow, render_request
from lanekit.integrations.showing.spec_file import SpecFile, digest_of, read_spec
from patience import patience, until

Named = namedtuple("Named", "x y")

STATES: list[Any] = [
    *(None, True, False, 0, -1, 255, 2**63, -(2**200), 1.5, math.inf, -0.0),
    *("", "pôle 🚲", b"", bytes(range(256))),
    *(np.float32(1.5), np.float64(-0.1), np.int8(-3), np.uint64(2**63), np.bool_(True)),
    *(np.complex64(1 + 2j), np.longdouble(0.25), np.float16(2), np.str_("left"), np.bytes_(b"up")),
    *(np.arange(6.0).reshape(2, 3), np.zeros(0, np.int32), np.zeros((3, 0, 2)), np.array(3)),
    *(np.array([True, False]), np.arange(4, dtype=">i4"), np.array([1 + 1j]), np.ones(2, ">f8")),
    *(np.array([["FFH", "G"]]), np.array([b"S", b"HG"]), np.asfortranarray(np.eye(3, 2))),
    np.arange(10)[::2],
    *((), [], {}, (1, [2.0, ("three", None)], {"four": np.arange(4), 5: {"six": b"6"}})),
    {"qpos": np.arange(3.0), "time": 0.25, "done": False, "goal": None, "names": ["a", "b"]},
]


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, in type, data type and shape too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray | np.generic):
        alike = one.dtype == other.dtype and np.shape(one) == np.shape(other)
        return alike and one.tobytes() == other.tobytes()
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


@pytest.mark.parametrize("state", STATES, ids=lambda state: f"{type(state).__name__}-{state!r:.20}")
def test_a_state_arrives_as_it_was(state: Any) -> None:
    assert same(decode_state(encode_state(state)), state)


def test_all_kinds_of_states_go_in_one() -> None:
    assert same(decode_state(encode_state(STATES)), STATES)
    assert decode_state(encode_state(bytearray(b"ab"))) == b"ab"
    assert decode_state(encode_state(memoryview(b"abcd")[::2])) == b"ac"


def test_arrays_arrive_read_only() -> None:
    for array in decode_state(encode_state([np.arange(3.0), np.zeros(0)])):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth - 1):
        inner = [inner]
    return inner


def endless() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    ("state", "keyword"),
    [
        (object(), "object"),
        (np.array([object()]), "dtype object"),
        (np.array([(1, 2.0)], "i4,f8"), "dtype"),
        (np.datetime64("2020-01-01"), "dtype"),
        (np.void(b"123"), "dtype"),
        (np.ma.masked_array([1, 2], [True, False]), "MaskedArray"),
        (Named(1, 2), "Named"),
        (OrderedDict(a=1), "OrderedDict"),
        ({1, 2}, "set"),
        (1 + 2j, "complex"),
        ([{"a": lambda: 0}], "function"),
        ({(1, 2): 3}, "key of type tuple"),
        ({True: 3}, "key of type bool"),
    ],
)
def test_what_has_no_form_in_a_message_is_refused(state: Any, keyword: str) -> None:
    with pytest.raises(TypeError, match=keyword):
        encode_state(state)


@pytest.mark.parametrize(
    ("state", "keyword"),
    [
        (nested(state_codec.MAX_DEPTH + 1), "nested"),
        (endless(), "nested"),
        ([0] * state_codec.MAX_VALUES, "values"),
        (dict.fromkeys(range(state_codec.MAX_KEYS + 1)), "keys"),
        ({"k" * state_codec.MAX_KEY: 0}, "key"),
        (2**512, "integer"),
        (np.broadcast_to(np.uint8(0), (state_codec.MAX_BYTES + 1,)), "bytes"),
        (bytes(state_codec.MAX_BYTES + 1), "bytes"),
        ("\ud800", "surrogates"),
        (np.zeros((1,) * 40), "dimensions"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_state_that_is_too_large_is_refused(state: Any, keyword: str) -> None:
    with pytest.raises(ValueError, match=keyword):
        encode_state(state)


def test_a_state_of_the_largest_depth_and_count_arrives() -> None:
    for state in (nested(state_codec.MAX_DEPTH), [0] * (state_codec.MAX_VALUES - 1)):
        assert decode_state(encode_state(state)) == state


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def array_head(dtype: bytes, *shape: int) -> bytes:
    sides = b"".join(map(u32, shape))
    return b"a" + bytes([len(dtype)]) + dtype + bytes([len(shape)]) + sides


ABSURD = 2**32 - 1


@pytest.mark.parametrize(
    ("message", "keyword"),
    [
        (b"", "cut off"),
        (b"?", "tag"),
        (b"NN", "follow"),
        (b"d1234", "cut off"),
        (b"i\0", "integer"),
        (b"i\xff" + bytes(255), "integer"),
        (b"s" + u32(ABSURD), "cut off"),
        (b"s" + u32(2) + b"\xff\xfe", "utf-8"),
        (b"b" + u32(9) + b"1234", "cut off"),
        (b"l" + u32(ABSURD), "items"),
        (b"t" + u32(5) + b"NN", "items"),
        (b"m" + u32(ABSURD), "items"),
        (b"m" + u32(2000) + bytes(4000), "keys"),
        (b"m" + u32(1) + b"NN", "keys"),
        (b"m" + u32(2) + 2 * (b"s" + u32(1) + b"aN"), "twice"),
        (b"m" + u32(1) + b"s" + u32(300) + 300 * b"a" + b"N", "key"),
        (b"l" + u32(70_000) + 70_000 * b"N", "items"),
        ((b"l" + u32(60_000) + 59_999 * b"N") + (b"l" + u32(9_000) + 9_000 * b"N"), "values"),
        (1000 * (b"l" + u32(1)) + b"N", "nested"),
        (array_head(b"|O", 1) + bytes(8), "dtype"),
        (array_head(b"O", 1) + bytes(8), "dtype"),
        (array_head(b"V8", 1) + bytes(8), "dtype"),
        (array_head(b"<M8[ns]", 1) + bytes(8), "dtype"),
        (array_head(b"f8,f8", 1) + bytes(16), "dtype"),
        (array_head(b"<U9999", 1) + bytes(4 * 9999), "dtype"),
        (array_head(b"|S0", 1), "dtype"),
        (array_head(b"<f8" * 20, 1), "dtype"),
        (array_head(b"<f8", 2) + bytes(15), "cut off"),
        (array_head(b"<f8", ABSURD, ABSURD, ABSURD, ABSURD), "shape"),
        (array_head(b"<f8", 0, ABSURD, ABSURD), "shape"),
        (array_head(b"<f8", *[1] * 200) + bytes(8), "dimensions"),
        (array_head(b"|b1", 2) + b"\1\2", "boolean"),
        (array_head(b"<U1", 1) + u32(0x110000), "character"),
        (b"g\3<f8" + bytes(7), "cut off"),
        (pickle.dumps([1, 2, 3]), "tag"),
    ],
)
def test_bytes_that_are_no_state_are_one_clear_error(message: bytes, keyword: str) -> None:
    with pytest.raises(ValueError, match=keyword):
        decode_state(message)


def test_no_bytes_whatever_do_more_than_fail_to_be_a_state() -> None:
    """Random bytes, and states with bytes changed, cut out, put in, or cut off."""
    chance = random.Random(20)
    seeds = [encode_state(state) for state in STATES] + [encode_state(STATES)] * 20
    tags = b"NTFidsbagtlm\x00\x01\x7f\xff"
    decoded = refused = 0
    tracemalloc.start()
    try:
        for number in range(15_000):
            if number % 3 == 0:
                message = bytearray(chance.choices(tags, k=chance.randrange(200)))
            elif number % 3 == 1:
                message = bytearray(chance.randbytes(chance.randrange(200)))
            else:
                message = bytearray(chance.choice(seeds))
            for _ in range(chance.randrange(1, 5)):
                at = chance.randrange(len(message) + 1)
                change = chance.randrange(4)
                if change == 0:
                    message[at : at + 1] = bytes([chance.randrange(256)])
                elif change == 1:
                    message[at : at + 4] = u32(chance.choice([0, 1, 2**16, 2**31, ABSURD]))
                elif change == 2:
                    message[at : at + chance.randrange(8)] = b""
                else:
                    message[at:at] = chance.randbytes(chance.randrange(8))
            try:
                found = decode_state(bytes(message))
            except ValueError:
                refused += 1
            else:
                decoded += 1
                if len(message) < 200:
                    repr(found)  # each part can be looked at
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded > 100
    assert refused > 5_000
    assert peak < 8 << 20


# --- the process that draws ----------------------------------------------------------------------


class Hostile:
    """Makes a directory when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.mark),)


def counter_plan() -> ShadowPlan:
    plan = plan_shadow(gymnasium.make("Counter-v0"))
    assert isinstance(plan, ShadowPlan)
    return plan


@contextmanager
def raw_lane(run_id: str, message: bytes) -> Iterator[None]:
    """A lane with one pixel, and this beside it."""
    config = FastLaneConfig(1, 1, 1, "GRAY", capacity=4, metadata_size=max(1, len(message)))
    with FastLaneWriter.create(run_id, config) as writer:
        writer.publish(np.zeros((1, 1, 1), np.uint8), metadata=message)
        yield


def last_words_of_the_helper(run_id: str, sources: list[str], stages: list[bytes]) -> str:
    """Let a process draw for somebody who watches, until it gives up; return why it did."""
    request = render_request(run_id, sources, stages, max_hz=60.0, capacity=2)
    helper = HelperProcess(request)
    try:
        with FastLaneReader.attach(run_id, timeout=patience()) as reader:

            def ended() -> bool:
                reader.latest_frame()
                return not helper.alive

            until(ended, "the end of the process that draws")
        return helper.last_words
    finally:
        helper.stop()


def former_message(mark: Path) -> bytes:
    """What carried a spec once: magic, sizes, step, episode, a pickle, a state."""
    stage = pickle.dumps(Hostile(mark))
    return struct.pack("<4sIIQQ", b"LKST", len(stage), 0, 1, 0) + stage


def message_with(state: bytes, digest: bytes, pid: int = 0, descriptor: int = -1) -> bytes:
    return struct.pack("<4s16siiQQ", b"LKS2", digest, pid, descriptor, 1, 0) + state


@pytest.mark.parametrize("kind", ["former", "bare", "state", "unknown spec", "short", "empty"])
def test_a_pickle_in_a_state_lane_is_not_run(run_id: str, kind: str, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    stage = counter_plan().stage
    evil = pickle.dumps(Hostile(mark))
    message = {
        "former": former_message(mark),
        "bare": evil,
        "state": message_with(evil, digest_of(stage)),
        "unknown spec": message_with(encode_state(evil), digest_of(evil)),
        "short": message_with(evil, digest_of(stage))[:20],
        "empty": b"",
    }[kind]
    lane = state_lane_of(run_id)
    with raw_lane(lane, message):
        words = last_words_of_the_helper(run_id, [lane], [stage])
    assert not mark.exists()
    assert "SegmentCorrupt" in words
    assert lane in words


def memory_file(name: str, content: bytes) -> int:
    descriptor = os.memfd_create(name)
    os.write(descriptor, content)
    return descriptor


@pytest.mark.parametrize("kind", ["file", "memory", "unsealed", "directory", "standard input"])
def test_a_state_cannot_have_any_file_taken_for_a_spec(
    run_id: str, kind: str, tmp_path: Path
) -> None:
    mark, file = tmp_path / "ran", tmp_path / "file"
    evil = pickle.dumps(Hostile(mark))
    file.write_bytes(evil)
    descriptor = {
        "file": lambda: os.open(file, os.O_RDONLY),
        "memory": lambda: memory_file("somebody's", evil),
        "unsealed": lambda: memory_file("lanekit-env-spec", evil),
        "directory": lambda: os.open(tmp_path, os.O_RDONLY),
        "standard input": lambda: os.dup(0),
    }[kind]()
    lane = slot_lane_of(run_id, 1)
    try:
        message = message_with(encode_state(b""), digest_of(evil), os.getpid(), descriptor)
        with raw_lane(lane, message):
            words = last_words_of_the_helper(run_id, [slot_lane_of(run_id, 0), lane], [])
    finally:
        os.close(descriptor)
    assert not mark.exists()
    assert "SegmentCorrupt" in words


def test_what_a_killed_process_left_in_a_lane_of_a_grid_is_passed_over(run_id: str) -> None:
    stage = counter_plan().stage
    lanes = [slot_lane_of(run_id, slot) for slot in range(2)]
    code = (
        "import os, sys, numpy, lanekit\n"
        "config = lanekit.FastLaneConfig(1, 1, 1, 'GRAY', capacity=4, metadata_size=99)\n"
        "writer = lanekit.FastLaneWriter.create(sys.argv[1], config)\n"
        "writer.publish(numpy.zeros((1, 1, 1), numpy.uint8), metadata=b'LKST and the rest')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, lanes[1]], check=False)
    with closing(StateLane(lanes[0], digest_of(stage))) as states:
        request = render_request(run_id, lanes, [stage], max_hz=60.0, capacity=2)
        helper = HelperProcess(request)
        try:
            with FastLaneReader.attach(run_id, timeout=patience()) as reader:

                def shown() -> bool:
                    state = encode_state(worlds.CounterState().get_state(worlds.Counter()))
                    states.publish(State(1, 0, state), FastLaneMetrics())
                    assert helper.alive, helper.last_words
                    return reader.latest_frame() is not None

                until(shown, "a frame of the environment that is there")
        finally:
            helper.stop()
    lanekit.reclaim_segment(lanekit.segment_name("frame", lanes[1]))


# --- specs of other processes --------------------------------------------------------------------


def test_a_spec_is_read_by_another_process_and_gone_with_its_own() -> None:
    spec = os.urandom(100_000)
    code = (
        "import sys; from lanekit.integrations.showing.spec_file import *\n"
        "pid, descriptor, digest = sys.argv[1:]\n"
        "read = lambda pid: read_spec(int(pid), int(descriptor), bytes.fromhex(digest))\n"
        "sys.stdout.buffer.write(read(pid))\n"
        "assert read(2**22 + 1) is None\n"
    )
    file = SpecFile(spec)
    command = [sys.executable, "-c", code, str(file.pid), str(file.descriptor)]
    done = subprocess.run([*command, digest_of(spec).hex()], capture_output=True, check=True)
    assert done.stdout == spec
    with pytest.raises(lanekit.SegmentCorrupt, match="belongs to"):
        read_spec(file.pid, file.descriptor, digest_of(b"another"))
    file.close()
    file.close()
    assert read_spec(file.pid, file.descriptor, digest_of(spec)) is None


def test_a_spec_is_gone_with_what_holds_it() -> None:
    """No warning about it either: after a fork nobody closes what the parent had open."""
    file = SpecFile(b"spec")
    descriptor = file.descriptor
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_spec_does_not_change_once_it_is_there() -> None:
    with closing(SpecFile(b"spec")) as file:
        again = os.open(f"/proc/self/fd/{file.descriptor}", os.O_RDWR)
        try:
            with pytest.raises(PermissionError):
                os.write(again, b"evil")
            with pytest.raises(PermissionError):
                os.truncate(again, 0)
        finally:
            os.close(again)
        assert read_spec(file.pid, file.descriptor, digest_of(b"spec")) == b"spec"


def test_a_spec_for_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.geteuid()
    with closing(SpecFile(b"spec")) as file:
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        with pytest.raises(lanekit.SegmentPermissionDenied, match=f"user {mine}"):
            read_spec(file.pid, file.descriptor, digest_of(b"spec"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_spec_of_another_user_is_refused() -> None:
    code = (
        "import fcntl, os, sys; os.setresuid(65534, 65534, 65534)\n"
        "descriptor = os.memfd_create('lanekit-env-spec', os.MFD_ALLOW_SEALING)\n"
        "os.write(descriptor, b'spec')\n"
        "fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, 15)\n"
        "print(descriptor, flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as other:
        assert other.stdout is not None
        descriptor = int(other.stdout.readline())
        with pytest.raises(lanekit.SegmentPermissionDenied, match="65534"):
            read_spec(other.pid, descriptor, digest_of(b"spec"))
        other.communicate()


# --- in the training process ---------------------------------------------------------------------


def test_a_state_that_cannot_be_sent_is_told_once_and_drawn_here(run_id: str) -> None:
    env = FastLaneTelemetryWrapper(gymnasium.make("Opaque-v0"), run_id, rendering="shadow")
    env.reset()
    env.step(0)
    with FastLaneReader.attach(state_lane_of(run_id)):
        with pytest.warns(FastLaneWarning, match="a worlds.Opaque") as told:
            until(lambda: bool(env.step(0) and env.publisher._warned), "the warning")
    assert len(told) == 1
    env.step(0)
    with FastLaneReader.attach(run_id) as reader:
        until(lambda: bool(env.step(0) and reader.latest_frame()), "a frame drawn here")
    assert env.publisher.rendering == "in-process"
    env.close()


@pytest.mark.parametrize("slot", [0, 1])
def test_a_tile_whose_state_cannot_be_sent_is_drawn_into_its_own_lane(
    run_id: str, slot: int
) -> None:
    made = gymnasium.make("Opaque-v0")
    env = FastLaneTelemetryWrapper(
        made, run_id, rendering="shadow", video_mode="grid", slot=slot, grid_limit=2
    )
    env.reset()
    env.step(0)
    with FastLaneReader.attach(slot_lane_of(run_id, slot)) as tile:
        with pytest.warns(FastLaneWarning, match="a worlds.Opaque") as told:
            until(lambda: bool(env.step(0) and env.publisher._warned), "the warning")
        assert len(told) == 1
        env.step(0)

        def drawn_here() -> bool:
            env.step(0)
            frame = tile.latest_frame()
            return frame is not None and frame.array.shape[:2] == worlds.SIZE

        until(drawn_here, "a frame drawn here")
    if slot == 0:  # which has the grid put together, as before
        with FastLaneReader.attach(run_id) as reader:
            until(lambda: bool(env.step(0) and reader.latest_frame()), "a frame of the grid")
    assert env.publisher.rendering == "in-process"
    env.close()


# --- what adapters are given ---------------------------------------------------------------------


ROPE = """
<mujoco><worldbody><site name="top"/>
  <body pos="0 0 1"><joint/><geom size=".1"/><site name="bottom"/></body>
</worldbody><tendon><spatial><site site="top"/><site site="bottom"/></spatial></tendon></mujoco>
"""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("ten_wrapadr", value) for value in (-1, 3, 2**31 - 1)],
        *[("ten_wrapnum", value) for value in (-1, 5, 2**31 - 1)],
    ],
)
def test_a_mujoco_state_does_not_lead_outside_of_the_tendons_points(field: str, value: int) -> None:
    mujoco = pytest.importorskip("mujoco", reason="needs mujoco")

    class Hanging:
        def __init__(self) -> None:
            self.model = mujoco.MjModel.from_xml_string(ROPE)
            self.data = mujoco.MjData(self.model)
            mujoco.mj_forward(self.model, self.data)

    env, copy = Hanging(), Hanging()
    state = decode_state(encode_state(MUJOCO.get_state(env)))
    MUJOCO.set_state(copy, state)
    getattr(env.data, field)[:] = value
    with pytest.raises(ValueError, match="tendons"):
        MUJOCO.set_state(copy, decode_state(encode_state(MUJOCO.get_state(env))))
    assert getattr(copy.data, field)[0] != value


def test_an_atari_screen_with_other_colours_than_256_is_refused() -> None:
    screen, table = np.zeros((210, 160), np.uint8), np.zeros((256, 3), np.uint8)

    class Game:
        ale: Any = None

    ATARI.set_state(Game(), (screen, table))
    for wrong in ((screen, table[:, :2]), (screen, table.astype(float)), (screen[0], table)):
        with pytest.raises(ValueError, match="uint8"):
            ATARI.set_state(Game(), wrong)
