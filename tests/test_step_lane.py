"""The step lane between two ends of one process: what each call promises, what lies where.

With both ends in one process an exchange is send, wait_actions, commit, recv, in this order, and
nothing waits. What needs two processes is in the other test_step_*.py.
"""

from __future__ import annotations

import os
import re
import struct
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lanekit
from lanekit import StepClient, StepGpu, StepLaneConfig, StepServer, segment_name
from lanekit.segments import segment_path
from lanekit.step import inspect_steps

NUMBERS = ["uint8", "int8", "int32", "int64", "uint64", "float16", "float32", "float64"]
DTYPES = [*NUMBERS, "bool", "complex64", "complex128"]


@pytest.fixture
def lane() -> Iterator[str]:
    """A name that nobody else uses. The test must not leave its segment behind."""
    name = f"step-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    yield name
    path = segment_path(segment_name("step", name))
    left = path.exists()
    path.unlink(missing_ok=True)
    assert not left, f"the test left {path} behind"


def exchange(server: StepServer, client: StepClient) -> lanekit.StepExchange:
    """Let the server complete what the client has sent; it copies the actions' first column."""
    asked = server.wait_actions(60)
    assert asked is not None
    envs = asked.envs
    server.obs[envs] = server.actions[envs, :1].astype(server.obs.dtype)
    server.commit()
    return asked


def values(dtype: npt.DTypeLike, shape: tuple[int, ...], seed: int) -> npt.NDArray[Any]:
    """Any bit pattern that the type has, except that a bool is 0 or 1."""
    chance = np.random.default_rng(seed)
    if np.dtype(dtype) == np.bool_:
        return chance.integers(0, 2, shape).astype(np.bool_)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return chance.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)


# --- where everything lies ------------------------------------------------------------------------


class HeaderFromThePage:
    """Reads a step segment with nothing but the offsets that docs/layout.md lists."""

    def __init__(self, name: str) -> None:
        root = Path(__file__).resolve().parent.parent
        page = (root / "docs" / "layout.md").read_text(encoding="utf-8")
        sections = re.split(r"^## ", page, flags=re.MULTILINE)
        section = next(each for each in sections if each.startswith("Step lane"))
        row = re.compile(r"^\| (\d+) \| (\d+|\d+ × \d+) \| `(\w+)`", re.MULTILINE)
        self.fields = {field: (int(at), size) for at, size, field in row.findall(section)}
        self.data = segment_path(segment_name("step", name)).read_bytes()

    def __getitem__(self, field: str) -> int:
        offset, size = self.fields[field]
        return int.from_bytes(self.data[offset : offset + int(size)], "little")

    def bytes_of(self, field: str) -> bytes:
        offset, size = self.fields[field]
        return self.data[offset : offset + int(size)]

    def array(self, field: str, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        count = int(np.prod(shape))
        return np.frombuffer(self.data, dtype, count, self[field]).reshape(shape)


def test_the_offsets_in_the_file_are_those_of_the_page(lane: str) -> None:
    config = StepLaneConfig(
        *(5, 3, 2),
        mode="inference",
        obs_dtype=np.float64,
        act_dtype=np.int64,
        reward_dtype=np.float64,
        image=(4, 6, 3),
        final_obs=True,
        infos=("speed", "height"),
        description="what it is",
        pipelined=True,
        command_ring=8192,
        gpu=StepGpu("cuda-ipc", bytes(range(64)), 3),
    )
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        for n in range(2):
            half = client.actions[client.next_envs]
            half[:] = np.arange(half.size).reshape(half.shape) + 100 * (n + 1)
            client.resets[n], client.seeds[n] = 2, 77 + n
            client.send()
        first = server.wait_actions(60)
        assert first is not None
        server.obs[:] = np.arange(15).reshape(5, 3)
        assert server.final_obs is not None
        assert server.images is not None
        server.final_obs[:] = -server.obs
        server.images[:] = np.arange(360, dtype=np.uint16).reshape(5, 4, 6, 3).astype(np.uint8)
        server.rewards[:] = [1, 2, 3, 4, 5]
        server.dones[:], server.truncateds[:] = [1, 0, 1, 0, 1], [0, 1, 0, 1, 0]
        server.infos["height"][:] = [9, 8, 7, 6, 5]
        server.commit()

        found = HeaderFromThePage(lane)
        assert struct.unpack_from("<IHHI", found.data) == (0x4C524243, 1, 1, 4096)
        expected = {
            "mode": 1,
            "halves": 2,
            "gpu_available": 1,
            "gpu_obs_mode": 1,
            "gpu_device_id": 3,
            "num_envs": 5,
            "obs_size": 3,
            "act_size": 2,
            "obs_item_size": 8,
            "act_item_size": 8,
            "image_width": 6,
            "image_height": 4,
            "image_channels": 3,
            "reward_size": 8,
            "info_count": 2,
            "description_size": 10,
            "cmd_ring_size": 8192,
            "action_seq": 2,
            "frame_seq": 1,
            "failure_size": 0,
        }
        assert {field: found[field] for field in expected} == expected
        assert found.bytes_of("obs_dtype") == b"<f8\0\0\0\0\0"
        assert found.bytes_of("act_dtype") == b"<i8\0\0\0\0\0"
        assert found.bytes_of("gpu_obs_handle") == bytes(range(64))
        assert found["client"] >> 32 == os.getpid()
        assert np.array_equal(found.array("obs_offset", "<f8", (5, 3)), server.obs)
        assert np.array_equal(found.array("final_obs_offset", "<f8", (5, 3)), -server.obs)
        actions = found.array("act_offset", "<i8", (5, 2))
        assert actions.ravel().tolist() == [100, 101, 102, 103, 104, 105, 200, 201, 202, 203]
        assert found.array("rewards_offset", "<f8", (5,)).tolist() == [1, 2, 3, 4, 5]
        assert found.array("dones_offset", "u1", (5,)).tolist() == [1, 0, 1, 0, 1]
        assert found.array("truncateds_offset", "u1", (5,)).tolist() == [0, 1, 0, 1, 0]
        assert found.array("resets_offset", "u1", (5,)).tolist() == [0, 0, 0, 0, 0]  # committed
        assert found.array("seeds_offset", "<u8", (5,)).tolist() == [77, 78, 0, 0, 0]
        assert found.array("infos_offset", "<f8", (2, 5))[1].tolist() == [9, 8, 7, 6, 5]
        names = found.array("info_names_offset", "S64", (2,)).tolist()
        assert names == [b"speed", b"height"]
        assert found.array("description_offset", "S10", (1,)).tolist() == [b"what it is"]
        images = found.array("image_offset", "u1", (5, 4, 6, 3))
        assert np.array_equal(images, server.images)
        assert len(found.data) == found["image_offset"] + -(-360 // 64) * 64
        regions = [field for field in found.fields if field.endswith("_offset")]
        assert len(regions) == 14
        assert all(found[field] % 64 == 0 and found[field] >= 4096 for field in regions)
        ring = 128 + 8192
        assert found["cmd_c2s_offset"] == found["cmd_s2c_offset"] + ring
        assert found["image_offset"] == found["cmd_c2s_offset"] + ring


def test_what_a_lane_leaves_out_has_offset_0_and_takes_no_room(lane: str) -> None:
    config = StepLaneConfig(3, 2, 1, command_ring=0)
    with StepServer.create(lane, config) as server:
        found = HeaderFromThePage(lane)
        for field in ("final_obs", "infos", "info_names", "description", "cmd_s2c", "image"):
            assert found[f"{field}_offset"] == 0, field
        assert len(found.data) == config.size == 4096 + 6 * 64 + 64
        assert (server.images, server.final_obs, dict(server.infos)) == (None, None, {})


def test_both_ends_see_the_shared_memory_itself(lane: str) -> None:
    config = StepLaneConfig(7, 5, 3, image=(4, 4, 3), final_obs=True, infos=("speed",))
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        found = HeaderFromThePage(lane)
        offsets = {"obs": "obs", "actions": "act", "images": "image"}
        for end in (server, client):
            for region, offset in end.offsets.items():
                array = end.infos["speed"] if region == "infos" else getattr(end, region)
                assert offset == found[f"{offsets.get(region, region)}_offset"], region
                assert array.ctypes.data == end.base + offset, region
            path = str(segment_path(server.segment))
            mappings = Path("/proc/self/maps").read_text().splitlines()
            begins = [int(line.split("-")[0], 16) for line in mappings if path in line]
            assert end.base in begins, "the arrays lie in no mapping of the segment"
        assert server.base != client.base  # two mappings of one memory
        server.obs[6, 4] = 42
        assert client.obs[6, 4] == 42
        client.actions[:] = 5
        result = client.send()
        asked = server.wait_actions(60)
        assert asked is not None
        assert (server.actions == 5).all()
        server.commit()
        came = client.recv(60)
        assert came.obs.ctypes.data == client.base + client.offsets["obs"]
        assert result.number == asked.number == 1


def test_views_outlive_the_handles_and_the_segment(lane: str) -> None:
    with StepServer.create(lane, 4, 2, 1) as server, StepClient.attach(lane) as client:
        theirs, ours = server.obs, client.obs
        theirs[:] = 3
    del server, client
    assert (ours == 3).all()
    ours[:] = 4
    assert (theirs == 4).all()


# --- exchanges ------------------------------------------------------------------------------------


def test_an_exchange_carries_everything_both_ways(lane: str) -> None:
    with StepServer.create(lane, 6, 3, 2) as server, StepClient.attach(lane) as client:
        for n in range(1, 200):
            actions = np.full((6, 2), n, np.float32)
            sent = client.send(actions)
            asked = server.wait_actions(60)
            assert asked == sent == (n, "step", 0, slice(0, 6))
            assert np.array_equal(server.actions, actions)
            server.obs[:], server.rewards[:] = 2 * n, -n
            server.dones[:], server.truncateds[:] = n % 2 == 0, n % 3 == 0
            server.commit()
            obs, rewards, dones, truncateds = client.recv(60)
            assert (obs == 2 * n).all()
            assert (rewards == -n).all()
            assert (dones == (n % 2 == 0)).all()
            assert (truncateds == (n % 3 == 0)).all()
            assert client.state == server.state
            assert (client.state.sent, client.state.completed) == (n, n)
        assert (dones.dtype, truncateds.dtype) == (np.bool_, np.bool_)


def test_reset_flags_and_seeds_arrive_and_are_cleared(lane: str) -> None:
    asked: list[tuple[str, list[int], list[int]]] = []
    with StepServer.create(lane, 4, 2, 1) as server, StepClient.attach(lane) as client:

        def reset(*arguments: Any, **options: Any) -> npt.NDArray[Any]:
            """Send a reset whose answer is there already when the client looks for it."""
            with pytest.raises(lanekit.WaitTimeout):
                client.reset(*arguments, **options, timeout=0)
            exchange = server.wait_actions(60)
            assert exchange is not None
            seeds = server.seeds[server.resets == 2].tolist()
            asked.append((exchange.request, server.resets.tolist(), seeds))
            server.obs[server.resets != 0] = 7
            server.commit()
            return client.recv(60).obs

        assert (reset() == 7).all()
        reset(seed=10)
        reset([2, 0], seed=[5, 2**64 - 1])
        reset(np.array([False, True, False, True]))
        reset([3, 1], seed=[None, 8])
        reset([])
        assert asked == [
            ("reset", [1, 1, 1, 1], []),
            ("reset", [2, 2, 2, 2], [10, 11, 12, 13]),
            ("reset", [2, 0, 2, 0], [2**64 - 1, 5]),
            ("reset", [0, 1, 0, 1], []),
            ("reset", [0, 2, 0, 1], [8]),
            ("reset", [0, 0, 0, 0], []),
        ]
        client.resets[1] = 1  # with a step: the flagged are reset, the others stepped
        client.send(np.zeros((4, 1), np.float32))
        exchange = server.wait_actions(60)
        assert exchange is not None
        assert (exchange.request, server.resets.tolist()) == ("step", [0, 1, 0, 0])
        server.commit()
        assert client.resets.tolist() == [0, 0, 0, 0]
        client.recv(60)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        ([[4]], {}, ValueError, "from 0 to 3"),
        ([[-1]], {}, ValueError, "from 0 to 3"),
        ([[0.5]], {}, TypeError, "whole numbers or a mask"),
        ([[True, False]], {}, ValueError, "4 entries"),
        ([[0, 1]], {"seed": [1]}, ValueError, "2 environments are reset, but 1 seeds"),
        ([[0, 1]], {"seed": [1, -1]}, ValueError, "from 0 to 2"),
        ([[0, 1]], {"seed": [1, 2**64]}, ValueError, "from 0 to 2"),
        ([[0, 1]], {"seed": 2**64 - 1}, ValueError, "from 0 to 2"),
    ],
)
def test_a_reset_that_is_refused_flags_nothing(
    lane: str, arguments: Any, options: Any, error: type[Exception], says: str
) -> None:
    with StepServer.create(lane, 4, 2, 1) as server, StepClient.attach(lane) as client:
        with pytest.raises(error, match=says):
            client.reset(*arguments, **options)
        assert server.resets.tolist() == [0, 0, 0, 0]
        assert client.state.sent == 0


def test_halves_take_turns_and_each_is_stepped_once(lane: str) -> None:
    config = StepLaneConfig(5, 1, 1, obs_dtype=np.int64, act_dtype=np.int64, pipelined=True)
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        assert client.next_envs == slice(0, 3)
        client.send(np.full((3, 1), 1))
        for n in range(2, 100):
            half = slice(0, 3) if n % 2 else slice(3, 5)
            assert client.next_envs == half
            sent = client.send(np.full((half.stop - half.start, 1), n))
            assert sent == (n, "step", (n - 1) % 2, half)
            asked = exchange(server, client)  # the half before, while ours waits
            assert asked.number == n - 1
            assert (client.recv(60).obs == n - 1).all()
            assert client.under_way == 1
        # The server has seen nothing of the half that is under way.
        before = server.obs[half].copy()
        assert (before == n - 2).all()


def test_a_pipelined_lane_can_also_be_stepped_whole(lane: str) -> None:
    config = StepLaneConfig(5, 1, 1, obs_dtype=np.int64, act_dtype=np.int64, pipelined=True)
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        for n in range(1, 20):
            with pytest.raises(lanekit.WaitTimeout):
                client.step(np.full((5, 1), n), timeout=0)
            assert client.under_way == 2
            exchange(server, client)
            exchange(server, client)
            client.recv(60)
            assert (client.recv(60).obs == n).all()
            assert (client.obs == n).all()
            assert server.state.completed == 2 * n


def test_calls_out_of_turn_are_refused_and_say_what_to_do(lane: str) -> None:
    with StepServer.create(lane, 2, 1, 1) as server, StepClient.attach(lane) as client:
        with pytest.raises(lanekit.OutOfTurn, match=r"call send\(\) first"):
            client.recv(0)
        with pytest.raises(lanekit.OutOfTurn, match="nothing to commit"):
            server.commit()
        client.send()
        for call in (client.send, client.step, client.reset):
            with pytest.raises(lanekit.OutOfTurn, match=r"recv\(\) its results first"):
                call()
        assert server.wait_actions(60) is not None
        with pytest.raises(lanekit.OutOfTurn, match=r"call commit\(\) first"):
            server.wait_actions(0)
        server.commit()
        client.recv(60)
        assert server.wait_actions(0) is None
        assert (server.state.sent, server.state.completed) == (1, 1)


@pytest.mark.parametrize("pipelined", [False, True])
def test_actions_under_way_are_not_overwritten_by_a_call_that_is_refused(
    lane: str, pipelined: bool
) -> None:
    """Else the engine could step a mix of two batches."""
    with (
        StepServer.create(lane, 4, 1, 1, pipelined=pipelined) as server,
        StepClient.attach(lane) as client,
    ):
        with pytest.raises(lanekit.WaitTimeout):
            client.step(np.full((4, 1), 1, np.float32), timeout=0)
        two = np.full((4, 1), 2, np.float32)
        with pytest.raises(lanekit.OutOfTurn):
            client.step(two)
        with pytest.raises(lanekit.OutOfTurn):
            client.send(two[client.next_envs])
        assert (server.actions == 1).all()
        assert client.under_way == (2 if pipelined else 1)
        if pipelined:  # one half is free again: a whole step still is not possible
            exchange(server, client)
            client.recv(60)
            with pytest.raises(lanekit.OutOfTurn):
                client.step(two)
            assert (server.actions == 1).all()
            assert client.under_way == 1


def test_actions_of_another_shape_or_kind_are_refused_before_anything_is_sent(lane: str) -> None:
    with (
        StepServer.create(lane, 4, 1, 2, act_dtype=np.int32) as server,
        StepClient.attach(lane) as client,
    ):
        with pytest.raises(ValueError, match=re.escape("(4, 2) are expected, got (3, 2)")):
            client.step(np.zeros((3, 2), np.int32))
        with pytest.raises(TypeError, match="int32, which float64 does not fit"):
            client.step(np.zeros((4, 2)))
        assert client.state.sent == 0
        client.send(np.arange(8, dtype=np.int64).tolist())  # as many: takes the lane's shape
        assert server.actions.ravel().tolist() == list(range(8))


# --- what is carried ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_of_number_arrives_bit_for_bit(lane: str, dtype: str) -> None:
    config = StepLaneConfig(6, 5, 3, obs_dtype=dtype, act_dtype=dtype, final_obs=True)
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        assert (client.config, client.obs.dtype) == (config, np.dtype(dtype))
        for seed in range(5):
            actions, obs = values(dtype, (6, 3), seed), values(dtype, (6, 5), seed + 100)
            client.send(actions)
            assert server.wait_actions(60) is not None
            assert server.actions.tobytes() == actions.tobytes()
            server.obs[:] = obs
            assert server.final_obs is not None
            server.final_obs[:] = obs[::-1]
            server.commit()
            assert client.recv(60).obs.tobytes() == obs.tobytes()
            assert client.final_obs is not None
            assert client.final_obs.tobytes() == obs[::-1].tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rewards_keep_their_precision(lane: str, dtype: str) -> None:
    with StepServer.create(lane, 3, 1, 1, reward_dtype=dtype) as server:
        with StepClient.attach(lane) as client:
            server.rewards[:] = [1 / 3, 1e-30, np.pi]
            assert client.rewards.dtype == np.dtype(dtype)
            assert np.array_equal(client.rewards, np.array([1 / 3, 1e-30, np.pi], dtype))


@pytest.mark.parametrize(
    ("what", "options", "says"),
    [
        ("an object", {"obs_dtype": object}, "plain numbers"),
        ("a text", {"act_dtype": "U4"}, "plain numbers"),
        ("a time", {"obs_dtype": "M8[s]"}, "plain numbers"),
        ("a record", {"obs_dtype": [("a", "f4")]}, "plain numbers"),
        ("a foreign byte order", {"obs_dtype": ">f4"}, "byte order"),
        ("a reward that is no float", {"reward_dtype": "i4"}, "float32 or float64"),
        ("a mode", {"mode": "sleeping"}, "'training' or 'inference'"),
        ("an image of two sides", {"image": (4, 4)}, "height, width, channels"),
        ("an image of no side", {"image": (0, 4, 3)}, "image height"),
        ("the same info twice", {"infos": ("a", "a")}, "same name"),
        ("an info without a name", {"infos": ("",)}, "1 to 63 bytes"),
        ("an info with a long name", {"infos": ("x" * 64,)}, "1 to 63 bytes"),
        ("no environment", {"num_envs": 0}, "num_envs must be between"),
        ("one environment in two halves", {"num_envs": 1, "pipelined": True}, "2 or more"),
        ("a negative ring", {"command_ring": -1}, "command_ring must be between"),
    ],
)
def test_a_lane_that_can_not_be_is_refused(what: str, options: Any, says: str) -> None:
    shape = {"num_envs": 4, "obs_size": 2, "act_size": 1, **options}
    with pytest.raises(ValueError, match=says):
        StepLaneConfig(**shape)


@pytest.mark.parametrize(
    "options",
    [
        {"num_envs": 2**25},
        {"obs_size": 2**25},
        {"image": (2**17, 1, 1)},
        {"image": (8, 8, 17)},
        {"command_ring": 100},
        {"infos": tuple(f"info {i}" for i in range(1025))},
    ],
)
def test_a_shape_beyond_the_limits_is_refused_by_create(lane: str, options: Any) -> None:
    shape = {"num_envs": 4, "obs_size": 2, "act_size": 1, **options}
    with pytest.raises(ValueError, match="no lane can have this shape"):
        StepServer.create(lane, StepLaneConfig(**shape))


def test_images_arrive_pixel_for_pixel(lane: str) -> None:
    config = StepLaneConfig(9, 1, 1, image=(48, 64, 3))
    chance = np.random.default_rng(3)
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        assert server.images is not None
        assert client.images is not None
        assert client.images.shape == (9, 48, 64, 3)
        for _ in range(20):
            frames = chance.integers(0, 256, (9, 48, 64, 3), np.uint8)
            client.send()
            assert server.wait_actions(60) is not None
            server.images[:] = frames
            server.commit()
            client.recv(60)
            assert np.array_equal(client.images, frames)
        assert client.images.ctypes.data == client.base + client.offsets["images"]


def test_named_numbers_and_text_reach_the_client(lane: str) -> None:
    config = StepLaneConfig(3, 1, 1, infos=("größe", "x" * 63), description="∀ any text\0 at all")
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        assert client.config.infos == ("größe", "x" * 63)
        assert client.config.description == "∀ any text\0 at all"
        server.infos["größe"][:] = [1, 2, np.nan]
        server.infos["x" * 63][:] = [1 / 3, -0.0, np.inf]
        for name in config.infos:
            assert client.infos[name].tobytes() == server.infos[name].tobytes()
        assert list(client.infos) == list(config.infos)


@pytest.mark.parametrize("mode", ["none", "cuda-ipc", "vulkan-external"])
def test_where_an_engine_keeps_its_observations_on_a_gpu_can_be_said(lane: str, mode: Any) -> None:
    gpu = StepGpu(mode, os.urandom(64), 2**32 - 1)
    with StepServer.create(lane, 2, 1, 1, gpu=gpu), StepClient.attach(lane) as client:
        assert client.config.gpu == gpu
    with StepServer.create(lane, 2, 1, 1), StepClient.attach(lane) as client:
        assert client.config.gpu is None
    with pytest.raises(ValueError, match="64 bytes"):
        StepGpu(mode, b"short")
    with pytest.raises(ValueError, match="one of none, cuda-ipc"):
        StepGpu("metal")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_other_libraries_take_the_arrays_over_without_a_copy(lane: str, dtype: str) -> None:
    """DLPack, which torch, JAX and CuPy speak; numpy's own consumer stands for them here."""
    config = StepLaneConfig(4, 3, 2, obs_dtype=dtype, act_dtype=dtype)
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        taken = np.from_dlpack(client.obs)
        assert taken.ctypes.data == client.base + client.offsets["obs"]
        server.obs[:] = 7
        assert (taken == 7).all()
        assert client.obs.__dlpack_device__() == (1, 0)  # the CPU
    del server, client
    assert (taken == 7).all()  # it holds the memory


# --- names and states -----------------------------------------------------------------------------


def test_the_environment_names_the_lane(lane: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCKY_SHM_NAME", lane)
    with StepServer.create(None, 2, 1, 1) as server, StepClient.attach() as client:
        assert server.name == client.name == lane
    monkeypatch.delenv("LUCKY_SHM_NAME")
    with pytest.raises(ValueError, match="LUCKY_SHM_NAME"):
        StepClient.attach()


def test_a_lane_can_be_looked_at_from_outside(lane: str) -> None:
    config = StepLaneConfig(4, 3, 2, obs_dtype=np.uint8, pipelined=True)
    with StepServer.create(lane, config) as server:
        found = inspect_steps(server.segment)
        assert (found.num_envs, found.obs_size, found.act_size) == (4, 3, 2)
        assert (found.obs_dtype, found.act_dtype, found.pipelined) == ("|u1", "<f4", True)
        assert found.state == lanekit.StepState(0, 0, 0, False)
        with StepClient.attach(lane) as client:
            client.send()
            assert inspect_steps(server.segment).state == lanekit.StepState(1, 0, os.getpid(), True)


def test_arrays_are_the_same_objects_every_time(lane: str) -> None:
    """So that a loop makes no garbage."""
    with StepServer.create(lane, 4, 3, 2) as server, StepClient.attach(lane) as client:
        for _ in range(2):
            with pytest.raises(lanekit.WaitTimeout):
                client.step(timeout=0)
            exchange(server, client)
            assert client.recv(60).obs.base is not None
        references = sys.getrefcount(client.obs)
        for _ in range(50):
            client.send()
            exchange(server, client)
            client.recv(60)
        assert sys.getrefcount(client.obs) <= references + 1


def test_no_command_ring_is_needed(lane: str) -> None:
    with StepServer.create(lane, 4, 3, 2, command_ring=0) as server:
        with StepClient.attach(lane) as client:
            client.send()
            exchange(server, client)
            client.recv(60)
        with StepClient.attach(lane) as client:
            assert client.state.completed == 1
