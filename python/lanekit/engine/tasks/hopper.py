"""The one-legged hopper: forward, without falling."""

from __future__ import annotations

import numpy as np

from lanekit.engine.tasks.planar import PlanarTask, effort
from lanekit.engine.tasks.task import Array, Rows, StateArrays

_ALIVE = 1.0
_COST_OF_CONTROL = 0.1
_LOWEST = -0.45  # metres below the initial height
_MOST_PITCH = 0.5  # radians


class Hopper(PlanarTask):
    """Metres per second forward, a point for being up, less the effort."""

    name = "hopper"
    frame_skip = 4
    episode_steps = 500

    def judge(self, state: StateArrays, rows: Rows, rewards: Array, terminated: Array) -> None:
        """Reward the way that was made; end where it has fallen."""
        positions = state.qpos[rows]
        np.less(positions[:, self._z], _LOWEST, out=terminated)
        terminated |= np.abs(positions[:, self._pitch]) > _MOST_PITCH
        cost = _COST_OF_CONTROL * effort(state, rows)
        rewards[:] = self.speed(state, rows) + _ALIVE * ~terminated - cost
