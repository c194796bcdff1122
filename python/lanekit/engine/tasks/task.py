"""What a task is: one for all environments, written for arrays of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import mujoco
import numpy as np
import numpy.typing as npt

from lanekit.engine.dice import Dice, Ids, Numbers
from lanekit.engine.model_file import name_of, names_of
from lanekit.errors import ModelError

Rows = slice | Ids
"""Some environments: a range, whose arrays are views, or a list, whose arrays are copies."""
Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class StateArrays:
    """The state of all environments, one row for each. Views of what MuJoCo itself steps."""

    qpos: Numbers
    qvel: Numbers
    act: Numbers
    ctrl: Numbers
    time: Numbers
    sensordata: Numbers | None
    """Only for tasks that say so with `reads_sensors`."""


class Task:
    """What is observed, what is rewarded, and when an episode ends.

    All methods work on many environments at once. `out` arrays are often the lane's own memory:
    fill them, do not keep them.
    """

    name: ClassVar[str]
    frame_skip: ClassVar[int] = 1
    """Steps of physics for each step of the lane."""
    episode_steps: ClassVar[int] = 0
    """Steps after which an episode is truncated; 0: none."""
    reads_sensors: ClassVar[bool] = False
    """Whether `sensordata` is needed; it costs another pass over positions and velocities."""

    def __init__(self, model: mujoco.MjModel) -> None:
        """Check that the model is one that this task can be done with."""
        self.model = model

    @property
    def observation_names(self) -> list[str]:
        """What each number of an observation is; by default all positions and velocities."""
        return position_names(self.model) + velocity_names(self.model)

    def begin(self, state: StateArrays, ids: Ids, dice: Dice) -> None:
        """Vary the initial state of episodes that begin now; the model's own is set already."""

    def remember(self, state: StateArrays, rows: Rows) -> None:
        """Keep what the reward needs of the state before a step."""

    def observe(self, state: StateArrays, rows: Rows, out: Array) -> None:
        """Write observations."""
        nq = self.model.nq
        out[:, :nq] = state.qpos[rows]
        out[:, nq:] = state.qvel[rows]

    def judge(self, state: StateArrays, rows: Rows, rewards: Array, terminated: Array) -> None:
        """Write rewards, and whether episodes have ended for good."""
        raise NotImplementedError

    def need_joints(self, *names: str) -> None:
        """Refuse a model without these joints."""
        have = names_of(self.model, mujoco.mjtObj.mjOBJ_JOINT, self.model.njnt)
        if missing := [name for name in names if name not in have]:
            raise ModelError(
                f"task {self.name!r} needs joints that the model lacks: {', '.join(missing)}; "
                "task 'free' takes any model"
            )


_POSITION_PARTS = {
    mujoco.mjtJoint.mjJNT_FREE: ("x", "y", "z", "qw", "qx", "qy", "qz"),
    mujoco.mjtJoint.mjJNT_BALL: ("qw", "qx", "qy", "qz"),
}
_VELOCITY_PARTS = {
    mujoco.mjtJoint.mjJNT_FREE: ("vx", "vy", "vz", "wx", "wy", "wz"),
    mujoco.mjtJoint.mjJNT_BALL: ("wx", "wy", "wz"),
}


def position_names(model: mujoco.MjModel) -> list[str]:
    """Return a name for each number of qpos."""
    return [f"qpos/{name}" for name in _joint_parts(model, _POSITION_PARTS)]


def velocity_names(model: mujoco.MjModel) -> list[str]:
    """Return a name for each number of qvel."""
    return [f"qvel/{name}" for name in _joint_parts(model, _VELOCITY_PARTS)]


def _joint_parts(model: mujoco.MjModel, parts: dict[Any, tuple[str, ...]]) -> list[str]:
    names = []
    for joint, kind in enumerate(model.jnt_type):
        name = name_of(model, mujoco.mjtObj.mjOBJ_JOINT, joint)
        of_kind = parts.get(mujoco.mjtJoint(kind))
        names += [f"{name}.{part}" for part in of_kind] if of_kind else [name]
    return names
