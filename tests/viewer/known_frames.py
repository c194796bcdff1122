"""Frames whose every pixel is known: four fields of colour, and a mark that moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lanekit import FastLaneConfig

RED, GREEN, BLUE, WHITE = (200, 16, 32), (24, 180, 40), (8, 48, 220), (250, 250, 250)


def config_of(width: int, height: int, pixel_format: str = "RGB") -> FastLaneConfig:
    channels = {"RGB": 3, "RGBA": 4, "BGRX": 4, "GRAY": 1}[pixel_format]
    return FastLaneConfig(width, height, channels, pixel_format, 8, 64)  # type: ignore[arg-type]


def known_rgb(width: int, height: int, number: int = 0) -> NDArray[np.uint8]:
    """Return frame `number` as (height, width, 3): a white pixel travels along the first line."""
    frame = np.zeros((height, width, 3), np.uint8)
    middle_y, middle_x = height // 2, width // 2
    frame[:middle_y, :middle_x] = RED
    frame[:middle_y, middle_x:] = GREEN
    frame[middle_y:, :middle_x] = BLUE
    frame[middle_y:, middle_x:] = WHITE
    frame[0, number % width] = WHITE
    return frame


def in_format(rgb: NDArray[np.uint8], pixel_format: str) -> NDArray[np.uint8]:
    """Return the frame as a worker publishes it."""
    if pixel_format == "GRAY":
        return np.ascontiguousarray(rgb[:, :, :1])
    if pixel_format == "RGB":
        return rgb
    out = np.zeros((*rgb.shape[:2], 4), np.uint8)  # transparent, if anybody looked at that
    out[:, :, :3] = rgb if pixel_format == "RGBA" else rgb[:, :, ::-1]
    return out


def as_shown(rgb: NDArray[np.uint8], pixel_format: str) -> NDArray[np.uint8]:
    """Return what of the frame can be seen."""
    return np.repeat(rgb[:, :, :1], 3, axis=2) if pixel_format == "GRAY" else rgb
