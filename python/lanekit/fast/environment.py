"""How a launcher tells a worker what to stream: four environment variables.

The names are those that MOSAIC's workers know; older ones (``GYM_GUI_FASTLANE_*``) are understood
when the newer one is absent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Literal, cast

VideoMode = Literal["single", "grid", "off"]

_PREFIX = "MOSAIC_FASTLANE_"
_OLDER_PREFIX = "GYM_GUI_FASTLANE_"
_MODES = ("single", "grid", "off")
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off", "")


@dataclass(frozen=True)
class FastLaneEnvironment:
    """What the environment variables ask a worker for."""

    fastlane_only: bool = False
    """Skip slow-lane telemetry (``MOSAIC_FASTLANE_ONLY``)."""
    fastlane_slot: int = 0
    """Which vectorised environment feeds the writer (``MOSAIC_FASTLANE_SLOT``)."""
    video_mode: VideoMode = "single"
    """One environment, a grid of several, or no video (``MOSAIC_FASTLANE_VIDEO_MODE``)."""
    grid_limit: int = 4
    """Most environments in the grid (``MOSAIC_FASTLANE_GRID_LIMIT``)."""

    def __post_init__(self) -> None:
        if self.video_mode not in _MODES:
            raise ValueError(f"video_mode is one of {', '.join(_MODES)}, not {self.video_mode!r}")
        if self.fastlane_slot < 0:
            raise ValueError(f"fastlane_slot must not be negative, got {self.fastlane_slot}")
        if self.grid_limit < 1:
            raise ValueError(f"grid_limit must be at least 1, got {self.grid_limit}")


def apply_fastlane_environment(
    env: MutableMapping[str, Any],
    *,
    fastlane_only: bool,
    fastlane_slot: int,
    video_mode: str = "single",
    grid_limit: int = 4,
) -> MutableMapping[str, Any]:
    """Set the variables in `env`, a worker's environment to be, and return it."""
    settings = FastLaneEnvironment(
        fastlane_only=bool(fastlane_only),
        fastlane_slot=int(fastlane_slot),
        video_mode=_mode(video_mode, "video_mode"),
        grid_limit=int(grid_limit),
    )
    env[_PREFIX + "ONLY"] = "1" if settings.fastlane_only else "0"
    env[_PREFIX + "SLOT"] = str(settings.fastlane_slot)
    env[_PREFIX + "VIDEO_MODE"] = settings.video_mode
    env[_PREFIX + "GRID_LIMIT"] = str(settings.grid_limit)
    return env


def read_fastlane_environment(environ: Mapping[str, str] | None = None) -> FastLaneEnvironment:
    """Parse the variables of `environ`, by default this process's; absent ones keep defaults."""
    source = os.environ if environ is None else environ

    def value(name: str) -> tuple[str, str] | None:
        for prefix in (_PREFIX, _OLDER_PREFIX):
            if prefix + name in source:
                return prefix + name, source[prefix + name].strip()
        return None

    settings: dict[str, Any] = {}
    if (only := value("ONLY")) is not None:
        settings["fastlane_only"] = _flag(*only)
    if (slot := value("SLOT")) is not None:
        settings["fastlane_slot"] = _number(*slot, least=0)
    if (mode := value("VIDEO_MODE")) is not None:
        settings["video_mode"] = _mode(mode[1], mode[0])
    if (limit := value("GRID_LIMIT")) is not None:
        settings["grid_limit"] = _number(*limit, least=1)
    return FastLaneEnvironment(**settings)


def _flag(name: str, text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(f"{name} must be 1 or 0, not {text!r}")


def _number(name: str, text: str, *, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {text!r}")
    return number


def _mode(text: str, name: str) -> VideoMode:
    mode = str(text).lower()
    if mode not in _MODES:
        raise ValueError(f"{name} must be one of {', '.join(_MODES)}, not {text!r}")
    return cast(VideoMode, mode)
