"""Keeps what environments are made with from printing, writing files and opening screens."""

from __future__ import annotations

import ctypes.util
import functools
import logging
import os
import sys

from lanekit.integrations.showing.surfaces import tame_sdl

_log = logging.getLogger(__name__)


@functools.cache
def _has_egl() -> bool:
    return ctypes.util.find_library("EGL") is not None


def quiet_engines() -> None:
    """Do it now; to be called before an environment is imported, and again before it is made."""
    tame_sdl()
    # Nobody else in a viewer uses SDL, and it must not look for a screen from a thread.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    # MuJoCo would open a window to draw in, which only the main thread may do.
    if _has_egl():
        os.environ.setdefault("MUJOCO_GL", "egl")
    # And it writes its warnings into a file in whatever directory this is, unless asked not to.
    mujoco = sys.modules.get("mujoco")
    # Another thread may be in the middle of importing it, and will be here again itself.
    warned = getattr(mujoco, "get_mju_user_warning", None)
    if mujoco is not None and warned is not None and warned() is None:
        mujoco.set_mju_user_warning(_log.debug)
