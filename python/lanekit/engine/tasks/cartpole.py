"""The pole on the cart: keep it up."""

from __future__ import annotations

import mujoco
import numpy as np

from lanekit.engine.dice import Dice, Ids
from lanekit.engine.tasks.task import Array, Rows, StateArrays, Task

_FALLEN = 0.35  # radians from upright
_OFF = 2.2  # metres from the middle


class Cartpole(Task):
    """One point for each step that the pole is up and the cart on the rail."""

    name = "cartpole"
    frame_skip = 2
    episode_steps = 500

    def __init__(self, model: mujoco.MjModel) -> None:
        """Take a model with the two joints."""
        super().__init__(model)
        self.need_joints("slide", "hinge")
        self._slide = int(model.joint("slide").qposadr[0])
        self._hinge = int(model.joint("hinge").qposadr[0])

    def begin(self, state: StateArrays, ids: Ids, dice: Dice) -> None:
        """Begin a little off the balance."""
        state.qpos[ids] += dice.between(ids, -0.05, 0.05, state.qpos.shape[1])
        state.qvel[ids] += dice.between(ids, -0.05, 0.05, state.qvel.shape[1])

    def judge(self, state: StateArrays, rows: Rows, rewards: Array, terminated: Array) -> None:
        """Reward every step; end where the pole has fallen or the cart is off."""
        slide, hinge = state.qpos[rows, self._slide], state.qpos[rows, self._hinge]
        np.greater(np.abs(hinge), _FALLEN, out=terminated)
        terminated |= np.abs(slide) > _OFF
        rewards[:] = ~terminated
