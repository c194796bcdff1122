"""MuJoCo environments: where everything is, as the simulation last computed it.

Positions of bodies and geoms are sent, not only the joints they follow from: after a step the
joints are one sub-step ahead of them, and it is the positions that get drawn.
"""

from __future__ import annotations

from typing import Any

from lanekit.integrations.shadow import arrays

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

    def get_state(self, env: Any) -> bytes:
        """Return all fields."""
        data = env.data
        return arrays.pack([data.time, *(getattr(data, name) for name in _FIELDS)])

    def set_state(self, env: Any, state: bytes) -> None:
        """Set all fields."""
        time, *fields = arrays.unpack(state)
        assert time is not None
        env.data.time = float(time)
        for name, value in zip(_FIELDS, fields, strict=True):
            getattr(env.data, name)[:] = value


MUJOCO = MujocoState()
