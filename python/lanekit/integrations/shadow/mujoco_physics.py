"""MuJoCo environments: where everything is, as the simulation last computed it.

Positions of bodies and geoms are sent, not only the joints they follow from: after a step the
joints are one sub-step ahead of them, and it is the positions that get drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_FIELDS = (
    "qpos",
    "qvel",
    "act",
    "ctrl",
    "mocap_pos",
    "mocap_quat",
    "xpos",
    "xquat",
    "xmat",
    "xipos",
    "ximat",
    "xanchor",
    "xaxis",
    "geom_xpos",
    "geom_xmat",
    "site_xpos",
    "site_xmat",
    "cam_xpos",
    "cam_xmat",
    "light_xpos",
    "light_xdir",
    "subtree_com",
    "ten_length",
    "ten_wrapadr",
    "ten_wrapnum",
    "wrap_obj",
    "wrap_xpos",
)


class MujocoState:
    """Takes and sets the fields of ``data`` that a scene is made from."""

    def get_state(self, env: Any) -> tuple[Any, ...]:
        """Return the time and all fields."""
        data = env.data
        return (data.time, *[getattr(data, name) for name in _FIELDS])

    def set_state(self, env: Any, state: tuple[Any, ...]) -> None:
        """Set all fields."""
        time, *values = state
        fields = dict(zip(_FIELDS, values, strict=True))
        _check_tendons(fields, env.data)
        env.data.time = float(time)
        for name, value in fields.items():
            getattr(env.data, name)[:] = value


def _check_tendons(fields: dict[str, Any], data: Any) -> None:
    """Refuse places in the wrap arrays that do not exist: MuJoCo looks there without asking."""
    begin = np.asarray(fields["ten_wrapadr"], np.int64)
    count = np.asarray(fields["ten_wrapnum"], np.int64)
    if begin.shape != count.shape:
        raise ValueError(f"tendons of shape {begin.shape} and {count.shape} do not fit")
    inside = (begin >= 0) & (count >= 0) & (begin <= data.wrap_xpos.size // 3 - count)
    if not inside.all():
        raise ValueError(
            f"tendons at {begin.tolist()} of {count.tolist()} points; "
            f"there are {data.wrap_xpos.size // 3}"
        )


MUJOCO = MujocoState()
