"""Pictures straight from a pygame surface's own memory.

Environments that draw with pygame turn their surface into an array by a transposing copy, which
takes several times as long as the drawing. The surface holds the very same pixels as BGRX, a format
that lanes carry. So: have the environment draw, but not copy, and take the surface's memory.

Environments draw and then ask their ``render_mode`` what to do with the surface: show it, copy it,
or, for any other mode, leave it there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from lanekit.integrations.showing.frames import Frame, UnusableRender

# Class that defines render(): the attribute that holds the finished picture. Each was compared with
# what its render() returns. Pendulum is not here: it copies in every mode but "human".
_SURFACES: dict[tuple[str, str], str] = {
    ("gymnasium.envs.classic_control.cartpole", "CartPoleEnv"): "screen",
    ("gymnasium.envs.classic_control.mountain_car", "MountainCarEnv"): "screen",
    ("gymnasium.envs.classic_control.continuous_mountain_car", "Continuous_MountainCarEnv"): (
        "screen"
    ),
    ("gymnasium.envs.classic_control.acrobot", "AcrobotEnv"): "screen",
    ("gymnasium.envs.box2d.lunar_lander", "LunarLander"): "surf",
}
_BGRX_MASKS = (0xFF0000, 0xFF00, 0xFF)
_LEAVE_IT_THERE = "surface"


def tame_sdl() -> None:
    """Keep pygame from printing, and from taking SIGTERM over, when it is first used."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")


def surface_painter(bare: Any) -> Callable[[], Frame] | None:
    """Return what draws an unwrapped environment without the copy; None if that is not known."""
    definer = next((c for c in type(bare).__mro__ if "render" in vars(c)), type(bare))
    attribute = _SURFACES.get((definer.__module__, definer.__qualname__))
    if attribute is None or sys.byteorder != "little" or bare.render_mode != "rgb_array":
        return None

    def paint() -> Frame:
        mode = bare.render_mode
        bare.render_mode = _LEAVE_IT_THERE
        try:
            bare.render()
        finally:
            bare.render_mode = mode
        return _frame_of(getattr(bare, attribute))

    return paint


def _frame_of(surface: Any) -> Frame:
    """Return a copy of a surface's memory.

    Not the memory itself: an array over it keeps the surface locked, and whether the lock goes with
    the array depends on the version of pygame.
    """
    if surface is None:
        raise UnusableRender("the environment has drawn nothing; call reset() first")
    if surface.get_bytesize() != 4 or surface.get_masks()[:3] != _BGRX_MASKS:
        raise UnusableRender(
            f"the surface has {surface.get_bytesize()} bytes per pixel and the masks "
            f"{surface.get_masks()}; expected BGRX"
        )
    width, height = surface.get_size()
    if surface.get_pitch() != 4 * width:
        raise UnusableRender(f"the surface's rows are {surface.get_pitch()} bytes apart")
    memory = np.frombuffer(surface.get_buffer().raw, np.uint8)
    return Frame(memory.reshape(height, width, 4), "BGRX")
