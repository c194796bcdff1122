"""What a step lane carries: every type of number, images, names and text, and what it refuses."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lanekit import StepClient, StepGpu, StepLaneConfig, StepServer
from patience import patience

NUMBERS = ["uint8", "int8", "int32", "int64", "uint64", "float16", "float32", "float64"]
DTYPES = [*NUMBERS, "bool", "complex64", "complex128"]


def values(dtype: npt.DTypeLike, shape: tuple[int, ...], seed: int) -> npt.NDArray[Any]:
    """Any bit pattern that the type has, except that a bool is 0 or 1."""
    chance = np.random.default_rng(seed)
    if np.dtype(dtype) == np.bool_:
        return chance.integers(0, 2, shape).astype(np.bool_)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return chance.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_of_number_arrives_bit_for_bit(lane: str, dtype: str) -> None:
    config = StepLaneConfig(6, 5, 3, obs_dtype=dtype, act_dtype=dtype, final_obs=True)
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        assert (client.config, client.obs.dtype) == (config, np.dtype(dtype))
        for seed in range(5):
            actions, obs = values(dtype, (6, 3), seed), values(dtype, (6, 5), seed + 100)
            client.send(actions)
            assert server.wait_actions(patience()) is not None
            assert server.actions.tobytes() == actions.tobytes()
            server.obs[:] = obs
            assert server.final_obs is not None
            server.final_obs[:] = obs[::-1]
            server.commit()
            assert client.recv(patience()).obs.tobytes() == obs.tobytes()
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
            assert server.wait_actions(patience()) is not None
            server.images[:] = frames
            server.commit()
            client.recv(patience())
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
