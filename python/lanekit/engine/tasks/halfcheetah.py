"""The half cheetah: forward, as fast as it can."""

from __future__ import annotations

from lanekit.engine.tasks.planar import PlanarTask, effort
from lanekit.engine.tasks.task import Array, Rows, StateArrays

_COST_OF_CONTROL = 0.1


class HalfCheetah(PlanarTask):
    """Metres per second forward, less the effort. It can not fail, only be slow."""

    name = "halfcheetah"
    frame_skip = 5
    episode_steps = 500

    def judge(self, state: StateArrays, rows: Rows, rewards: Array, terminated: Array) -> None:
        """Reward the way that was made."""
        rewards[:] = self.speed(state, rows) - _COST_OF_CONTROL * effort(state, rows)
        terminated[:] = False
