"""The arrays of a step lane: numpy views of the shared memory itself."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from lanekit._core import CData, address_of, ffi, shared_array
from lanekit.step.config import StepLaneConfig

Array = npt.NDArray[Any]

_HEADER_SIZE = 4096


class StepRegions:
    """Views of one lane's regions. The mapping stays as long as any of them does."""

    def __init__(
        self, lend: Callable[[CData, CData], int], what: str, config: StepLaneConfig
    ) -> None:
        """Make the views; `lend(segment, regions)` is the core's call for one end."""
        found = ffi.new("struct lk_step_regions *")

        def lend_all(segment: CData, address: CData) -> int:
            status = lend(segment, found)
            address[0] = found.obs  # the first region, right behind the header
            return status

        self._bytes = shared_array(lend_all, what, (config.size - _HEADER_SIZE,), writable=True)
        self.base = address_of(found.obs) - _HEADER_SIZE
        """The address of the segment's first byte in this process."""
        self._offsets: dict[str, int] = {}
        envs = config.num_envs
        flag = np.dtype(np.bool_)
        self.obs = self._view("obs", found.obs, config.obs_dtype, (envs, config.obs_size))
        self.actions = self._view(
            "actions", found.actions, config.act_dtype, (envs, config.act_size)
        )
        self.rewards = self._view("rewards", found.rewards, config.reward_dtype, (envs,))
        self.dones = self._view("dones", found.dones, flag, (envs,))
        self.truncateds = self._view("truncateds", found.truncateds, flag, (envs,))
        self.resets = self._view("resets", found.resets, np.uint8, (envs,))
        self.seeds = self._view("seeds", found.seeds, np.uint64, (envs,))
        self.final_obs: Array | None = None
        if config.final_obs:
            self.final_obs = self._view(
                "final_obs", found.final_obs, config.obs_dtype, (envs, config.obs_size)
            )
        self.infos: MappingProxyType[str, Array] = MappingProxyType({})
        if config.infos:
            rows = self._view("infos", found.infos, np.float64, (len(config.infos), envs))
            self.infos = MappingProxyType(dict(zip(config.infos, rows, strict=True)))
        self.images: Array | None = None
        if config.image is not None:
            self.images = self._view("images", found.images, np.uint8, (envs, *config.image))
        self.offsets = MappingProxyType(self._offsets)
        """Where each region is from the segment's first byte on."""

    def _view(
        self, name: str, pointer: CData, dtype: npt.DTypeLike, shape: tuple[int, ...]
    ) -> Array:
        offset = address_of(pointer) - self.base
        self._offsets[name] = offset
        begin = offset - _HEADER_SIZE
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self._bytes[begin : begin + size].view(dtype).reshape(shape)
