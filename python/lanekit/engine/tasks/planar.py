"""What runs along a track, in a plane."""

from __future__ import annotations

import mujoco
import numpy as np

from lanekit.engine.dice import Dice, Ids
from lanekit.engine.tasks.task import Array, Rows, StateArrays, Task, position_names, velocity_names

_FASTEST = 10.0


class PlanarTask(Task):
    """A model whose root moves in a plane, and is to move forward."""

    def __init__(self, model: mujoco.MjModel) -> None:
        """Take a model with the three joints of a root in a plane."""
        super().__init__(model)
        self.need_joints("root_x", "root_z", "root_pitch")
        self._x, self._z, self._pitch = (
            int(model.joint(name).qposadr[0]) for name in ("root_x", "root_z", "root_pitch")
        )
        # How far it has come is not for the policy to see: it would not generalise.
        self._seen = [place for place in range(model.nq) if place != self._x]
        self._seconds = self.frame_skip * model.opt.timestep
        self._before = np.zeros(0)

    @property
    def observation_names(self) -> list[str]:
        """All but the position along the track."""
        positions = position_names(self.model)
        return [positions[place] for place in self._seen] + velocity_names(self.model)

    def begin(self, state: StateArrays, ids: Ids, dice: Dice) -> None:
        """Begin with small differences in all joints."""
        state.qpos[ids] += dice.between(ids, -0.005, 0.005, state.qpos.shape[1])
        state.qvel[ids] += dice.between(ids, -0.005, 0.005, state.qvel.shape[1])

    def remember(self, state: StateArrays, rows: Rows) -> None:
        """Keep the position along the track."""
        self._before = state.qpos[rows, self._x].copy()

    def observe(self, state: StateArrays, rows: Rows, out: Array) -> None:
        """Write what is seen of the positions, and the velocities."""
        seen = len(self._seen)
        out[:, :seen] = state.qpos[rows][:, self._seen]
        np.clip(state.qvel[rows], -_FASTEST, _FASTEST, out=out[:, seen:], casting="same_kind")

    def speed(self, state: StateArrays, rows: Rows) -> Array:
        """Return the metres per second forward of the last step."""
        speed: Array = (state.qpos[rows, self._x] - self._before) / self._seconds
        return speed


def effort(state: StateArrays, rows: Rows) -> Array:
    """Return the sum of the squares of each environment's controls."""
    controls = state.ctrl[rows]
    squares: Array = np.einsum("ij,ij->i", controls, controls)
    return squares
