"""The humanoid: stand, or walk."""

from __future__ import annotations

from typing import ClassVar

import mujoco
import numpy as np

from lanekit.engine.dice import Dice, Ids
from lanekit.engine.tasks.task import Array, Rows, StateArrays, Task, position_names, velocity_names
from lanekit.errors import ModelError

_COST_OF_CONTROL = 0.05
_FALLEN = 0.65  # of the initial height
_FASTEST = 20.0


class HumanoidStand(Task):
    """Points for an upright torso at its height, less speed and effort."""

    name = "humanoid-stand"
    frame_skip = 3
    episode_steps = 1000
    wanted_speed: ClassVar[float] = 0.0
    """Metres per second forward that are rewarded most."""

    def __init__(self, model: mujoco.MjModel) -> None:
        """Take a model whose first joint is free."""
        super().__init__(model)
        if int(model.jnt_type[0]) != int(mujoco.mjtJoint.mjJNT_FREE):
            raise ModelError(
                f"task {self.name!r} needs a model whose first joint is a <freejoint>; "
                "task 'free' takes any model"
            )
        self._height = float(model.qpos0[2])
        self._seconds = self.frame_skip * model.opt.timestep
        self._before = np.zeros(0)

    @property
    def observation_names(self) -> list[str]:
        """All but where on the ground it is."""
        return position_names(self.model)[2:] + velocity_names(self.model)

    def begin(self, state: StateArrays, ids: Ids, dice: Dice) -> None:
        """Begin with small differences in all joints."""
        state.qpos[ids, 7:] += dice.between(ids, -0.01, 0.01, state.qpos.shape[1] - 7)
        state.qvel[ids] += dice.between(ids, -0.01, 0.01, state.qvel.shape[1])

    def remember(self, state: StateArrays, rows: Rows) -> None:
        """Keep the position along the way."""
        self._before = state.qpos[rows, 0].copy()

    def observe(self, state: StateArrays, rows: Rows, out: Array) -> None:
        """Write the positions but the first two, and the velocities."""
        split = self.model.nq - 2
        out[:, :split] = state.qpos[rows, 2:]
        np.clip(state.qvel[rows], -_FASTEST, _FASTEST, out=out[:, split:], casting="same_kind")

    def judge(self, state: StateArrays, rows: Rows, rewards: Array, terminated: Array) -> None:
        """Reward height, uprightness and the wanted speed; end where it has fallen."""
        positions, controls = state.qpos[rows], state.ctrl[rows]
        height = positions[:, 2] / self._height
        np.less(height, _FALLEN, out=terminated)
        # The third component of the torso's own z axis: 1 upright, 0 lying, -1 on the head.
        upright = 1.0 - 2.0 * (positions[:, 4] ** 2 + positions[:, 5] ** 2)
        speed = (positions[:, 0] - self._before) / self._seconds
        pace = np.exp(-2.0 * (speed - self.wanted_speed) ** 2)
        effort = np.einsum("ij,ij->i", controls, controls)
        standing = np.minimum(height, 1.0) + upright
        rewards[:] = (standing + 2.0 * pace) * ~terminated - _COST_OF_CONTROL * effort


class HumanoidWalk(HumanoidStand):
    """The same at walking speed."""

    name = "humanoid-walk"
    wanted_speed = 1.2
