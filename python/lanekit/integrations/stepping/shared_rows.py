"""The arrays of a lane in a process that is neither of its ends: a worker of its server."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lanekit.segments import segment_path
from lanekit.step import StepLaneConfig, StepServer

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class LanePlace:
    """Where the arrays of a server's lane are, to be sent to another process."""

    segment: str
    config: StepLaneConfig
    offsets: Mapping[str, int]

    @classmethod
    def of(cls, server: StepServer) -> LanePlace:
        """Return where this server's are."""
        return cls(server.segment, server.config, dict(server.offsets))


class SharedRows:
    """Views of the same memory that the lane's two ends use.

    Whose turn it is, this process learns from the server, which asks for one thing at a time.
    """

    def __init__(self, place: LanePlace) -> None:
        """Map the segment."""
        config = place.config
        descriptor = os.open(segment_path(place.segment), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            self._memory = mmap.mmap(descriptor, config.size)
        finally:
            os.close(descriptor)
        self._offsets = place.offsets
        envs = config.num_envs
        observations = (envs, config.obs_size)
        self.obs = self._view("obs", config.obs_dtype, observations)
        self.actions = self._view("actions", config.act_dtype, (envs, config.act_size))
        self.rewards = self._view("rewards", config.reward_dtype, (envs,))
        self.dones = self._view("dones", np.bool_, (envs,))
        self.truncateds = self._view("truncateds", np.bool_, (envs,))
        self.resets = self._view("resets", np.uint8, (envs,))
        self.seeds = self._view("seeds", np.uint64, (envs,))
        self.final_obs: Array | None = None
        if config.final_obs:
            self.final_obs = self._view("final_obs", config.obs_dtype, observations)
        self.infos: Mapping[str, Array] = {}
        if config.infos:
            rows = self._view("infos", np.float64, (len(config.infos), envs))
            self.infos = dict(zip(config.infos, rows, strict=True))
        self.images: Array | None = None
        if config.image is not None:
            self.images = self._view("images", np.uint8, (envs, *config.image))

    def _view(self, name: str, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> Array:
        view: Array = np.ndarray(shape, dtype, self._memory, self._offsets[name])
        return view
