"""What a step lane carries: how many environments, which arrays, of which type."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from lanekit import errors
from lanekit._core import CData, check, ffi, lib
from lanekit.segments import encode_run_id
from lanekit.step.exchange import StepState, state_of

StepMode = Literal["training", "inference"]
GpuMode = Literal["none", "cuda-ipc", "vulkan-external"]

NAME_VARIABLE = "LUCKY_SHM_NAME"
"""The environment variable that names the lane where no name is given."""

DEFAULT_COMMAND_RING = 512 * 1024
_MODES: dict[str, int] = {"training": lib.LK_STEP_TRAINING, "inference": lib.LK_STEP_INFERENCE}
_GPU_MODES: dict[str, int] = {
    "none": lib.LK_GPU_NONE,
    "cuda-ipc": lib.LK_GPU_CUDA_IPC,
    "vulkan-external": lib.LK_GPU_VULKAN_EXTERNAL,
}
_HANDLE_BYTES = 64
INFO_NAME_BYTES = 64
# Numbers only: a type that holds pointers would carry one process's addresses to another.
_KINDS = "biufc"
_DTYPE = re.compile(r"[<>|][biufc][0-9]{1,2}")
_UINT32_MAX = 2**32 - 1


@dataclass(frozen=True)
class StepGpu:
    """Where an engine keeps its observations on a GPU. Carried for the client, not used here."""

    obs_mode: GpuMode = "none"
    obs_handle: bytes = bytes(_HANDLE_BYTES)
    device_id: int = 0

    def __post_init__(self) -> None:
        if self.obs_mode not in get_args(GpuMode):
            raise ValueError(f"obs_mode is one of {', '.join(_GPU_MODES)}, not {self.obs_mode!r}")
        if len(self.obs_handle) != _HANDLE_BYTES:
            raise ValueError(f"obs_handle has 64 bytes, not {len(self.obs_handle)}")
        _check_count("device_id", self.device_id, least=0)


@dataclass(frozen=True)
class StepLaneConfig:
    """The shape of a step lane."""

    num_envs: int
    obs_size: int
    """Items of one environment's observation."""
    act_size: int
    mode: StepMode = "training"
    obs_dtype: npt.DTypeLike = np.float32
    act_dtype: npt.DTypeLike = np.float32
    reward_dtype: npt.DTypeLike = np.float32
    image: tuple[int, int, int] | None = None
    """Height, width and channels of one image of bytes per environment."""
    final_obs: bool = False
    """Whether there is room for the last observations of episodes that ended."""
    infos: tuple[str, ...] = ()
    """Names of numbers that each environment reports beside its reward."""
    description: str = field(default="", repr=False)
    """Text for the client, such as the spaces."""
    pipelined: bool = False
    """Whether the environments are stepped in two halves by turns."""
    command_ring: int = DEFAULT_COMMAND_RING
    """Bytes of each of the two command rings; 0: none."""
    gpu: StepGpu | None = None

    def __post_init__(self) -> None:
        for name in ("num_envs", "obs_size", "act_size"):
            _check_count(name, getattr(self, name), least=1)
        _check_count("command_ring", self.command_ring, least=0)
        if self.mode not in get_args(StepMode):
            raise ValueError(f"mode is 'training' or 'inference', not {self.mode!r}")
        for name in ("obs_dtype", "act_dtype", "reward_dtype"):
            object.__setattr__(self, name, _checked_dtype(name, getattr(self, name)))
        if self.reward_dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"reward_dtype is float32 or float64, not {self.reward_dtype}")
        if isinstance(self.infos, str):
            raise TypeError(f"infos are several names: ({self.infos!r},) is one")
        object.__setattr__(self, "infos", tuple(self.infos))
        _check_info_names(self.infos)
        if self.image is not None:
            object.__setattr__(self, "image", _checked_image(self.image))
        if self.pipelined and self.num_envs < 2:
            raise ValueError("a pipelined lane has two halves: it needs num_envs of 2 or more")

    @property
    def size(self) -> int:
        """Bytes that the lane takes in shared memory."""
        config, _, _ = self.to_c()
        return check(lib.lk_step_segment_size(config), f"a step lane of {self}")

    def to_c(self) -> tuple[CData, bytes, bytes]:
        """Return the core's structure, the names of the infos, and the description."""
        description = self.description.encode()
        height, width, channels = self.image or (0, 0, 0)
        obs, act = np.dtype(self.obs_dtype), np.dtype(self.act_dtype)
        gpu = self.gpu or StepGpu()
        config = ffi.new(
            "struct lk_step_config *",
            {
                "mode": _MODES[self.mode],
                "halves": 2 if self.pipelined else 1,
                "num_envs": self.num_envs,
                "obs_size": self.obs_size,
                "act_size": self.act_size,
                "obs_item_size": obs.itemsize,
                "act_item_size": act.itemsize,
                "reward_size": np.dtype(self.reward_dtype).itemsize,
                "obs_dtype": obs.str.encode(),
                "act_dtype": act.str.encode(),
                "final_obs": int(self.final_obs),
                "info_count": len(self.infos),
                "description_size": len(description),
                "image_height": height,
                "image_width": width,
                "image_channels": channels,
                "command_ring_size": self.command_ring,
                "gpu_available": int(self.gpu is not None),
                "gpu_obs_mode": _GPU_MODES[gpu.obs_mode],
                "gpu_obs_handle": list(gpu.obs_handle),
                "gpu_device_id": gpu.device_id,
            },
        )
        names = b"".join(name.encode().ljust(INFO_NAME_BYTES, b"\0") for name in self.infos)
        return config, names, description


def config_from_c(found: CData, info_names: bytes, description: bytes, what: str) -> StepLaneConfig:
    """Return the configuration that a lane was made with; its texts come from another process."""
    try:
        image = (found.image_height, found.image_width, found.image_channels)
        names = [
            info_names[i : i + INFO_NAME_BYTES].split(b"\0", 1)[0].decode()
            for i in range(0, len(info_names), INFO_NAME_BYTES)
        ]
        gpu_mode = next(mode for mode, code in _GPU_MODES.items() if code == found.gpu_obs_mode)
        config = StepLaneConfig(
            num_envs=found.num_envs,
            obs_size=found.obs_size,
            act_size=found.act_size,
            mode=next(mode for mode in get_args(StepMode) if _MODES[mode] == found.mode),
            obs_dtype=_dtype_from_c(found.obs_dtype, found.obs_item_size),
            act_dtype=_dtype_from_c(found.act_dtype, found.act_item_size),
            reward_dtype=np.float32 if found.reward_size == 4 else np.float64,
            image=image if any(image) else None,
            final_obs=bool(found.final_obs),
            infos=tuple(names),
            description=description.decode(),
            pipelined=found.halves == 2,
            command_ring=found.command_ring_size,
            gpu=StepGpu(gpu_mode, bytes(found.gpu_obs_handle), found.gpu_device_id)  # type: ignore[arg-type]
            if found.gpu_available
            else None,
        )
    except (ValueError, TypeError, StopIteration) as error:
        raise errors.BadSegmentGeometry(
            f"{what}: its header makes no sense ({error}). Restart the server"
        ) from error
    return config


def _dtype_from_c(text: CData, item_size: int) -> np.dtype[Any]:
    """Read a type string without handing numpy more than it can mean here."""
    found = ffi.string(text).decode("ascii")
    if not _DTYPE.fullmatch(found):
        raise ValueError(f"{found!r} is no type of numbers")
    dtype = np.dtype(found)
    if dtype.itemsize != item_size:
        raise ValueError(f"{found} does not have {item_size} bytes")
    return dtype


def lane_name(name: str | None) -> tuple[str, bytes]:
    """Return the name of a lane, from the environment if none is given, and its bytes."""
    if name is None:
        name = os.environ.get(NAME_VARIABLE)
        if not name:
            raise ValueError(f"no name of a step lane: pass one, or set {NAME_VARIABLE}")
    return name, encode_run_id(name)


class StepLaneOptions(TypedDict, total=False):
    """The fields of :class:`StepLaneConfig` that have a default, as arguments by name."""

    mode: StepMode
    obs_dtype: npt.DTypeLike
    act_dtype: npt.DTypeLike
    reward_dtype: npt.DTypeLike
    image: tuple[int, int, int] | None
    final_obs: bool
    infos: tuple[str, ...]
    description: str
    pipelined: bool
    command_ring: int
    gpu: StepGpu | None


@dataclass(frozen=True)
class StepLaneStatus:
    """What can be seen of a step lane from outside."""

    num_envs: int
    obs_size: int
    act_size: int
    obs_dtype: str
    act_dtype: str
    pipelined: bool
    exchange_bytes: int
    """What the observations and actions of one exchange take."""
    state: StepState


def inspect_steps(segment: str) -> StepLaneStatus:
    """Look at a step lane by its segment's name without joining it."""
    config, state = ffi.new("struct lk_step_config *"), ffi.new("struct lk_step_state *")
    check(lib.lk_step_inspect(os.fsencode(segment), config, state), f"segment {segment}")
    return StepLaneStatus(
        num_envs=config.num_envs,
        obs_size=config.obs_size,
        act_size=config.act_size,
        obs_dtype=ffi.string(config.obs_dtype).decode("ascii", "replace"),
        act_dtype=ffi.string(config.act_dtype).decode("ascii", "replace"),
        pipelined=config.halves == 2,
        exchange_bytes=config.num_envs
        * (config.obs_size * config.obs_item_size + config.act_size * config.act_item_size)
        // config.halves,
        state=state_of(state),
    )


def _check_count(name: str, value: Any, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is a whole number, not {type(value).__name__}")
    if not least <= value <= _UINT32_MAX:
        raise ValueError(f"{name} must be between {least} and {_UINT32_MAX}, not {value}")


def _checked_dtype(name: str, value: npt.DTypeLike) -> np.dtype[Any]:
    try:
        dtype = np.dtype(value)
    except TypeError:
        raise TypeError(
            f"{name}: {value!r} is no type that numpy knows; one is 'float32', or np.float32"
        ) from None
    if dtype.kind not in _KINDS or dtype.itemsize > 16 or not dtype.isnative:
        raise ValueError(
            f"{name}: a step lane carries plain numbers in this machine's byte order, not "
            f"{dtype.str!r}"
        )
    return dtype


def _check_info_names(names: tuple[str, ...]) -> None:
    if len(set(names)) != len(names):
        raise ValueError(f"two infos have the same name: {', '.join(names)}")
    for name in names:
        if not name or "\0" in name or len(name.encode()) >= INFO_NAME_BYTES:
            raise ValueError(f"the name of an info has 1 to 63 bytes, not {name!r}")


def _checked_image(image: Any) -> tuple[int, int, int]:
    shape = tuple(image)
    if len(shape) != 3:
        raise ValueError(f"image is (height, width, channels), not {image!r}")
    for name, value in zip(("height", "width", "channels"), shape, strict=True):
        _check_count(f"image {name}", value, least=1)
    return shape
