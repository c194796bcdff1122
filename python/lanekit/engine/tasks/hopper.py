"""The one-legged hopper: forward, without falling."""

from __future__ import annotations

import mujoco
import numpy as np

from lanekit.engine.dice import Dice, Ids
from lanekit.engine.tasks.task import Array, Rows, StateArrays, Task, position_names, velocity_names

_ALIVE = 1.0
_COST_OF_CONTROL = 0.1
_LOWEST = -0.45  # metres below the initial height
_MOST_PITCH = 0.5  # radians
_FASTEST = 10.0


class Hopper(Task):
    """Metres per second forward, a point for being up, less the effort."""

    name = "hopper"
    frame_skip = 4
    episode_steps = 500

    def __init__(self, model: mujoco.MjModel) -> None:
        """Take a model whose root moves in a plane."""
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

    def judge(self, state: StateArrays, rows: Rows, rewards: Array, terminated: Array) -> None:
        """Reward the way that was made; end where it has fallen."""
        positions, controls = state.qpos[rows], state.ctrl[rows]
        np.less(positions[:, self._z], _LOWEST, out=terminated)
        terminated |= np.abs(positions[:, self._pitch]) > _MOST_PITCH
        speed = (positions[:, self._x] - self._before) / self._seconds
        effort = np.einsum("ij,ij->i", controls, controls)
        rewards[:] = speed + _ALIVE * ~terminated - _COST_OF_CONTROL * effort
