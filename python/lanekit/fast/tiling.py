"""Many environments in one picture: a near-square grid of their frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def tile_grid(count: int) -> tuple[int, int]:
    """Return (rows, columns) of the near-square grid that holds `count` tiles."""
    if count < 1:
        raise ValueError("a grid needs at least one frame")
    rows = math.isqrt(count - 1) + 1
    return rows, math.ceil(count / rows)


def tile_shape(count: int, frame_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the shape of the picture that tiles `count` frames of shape (height, width, channels).

    This is the geometry a writer needs for :func:`tile_frames_into`.
    """
    height, width, channels = _three(frame_shape)
    rows, columns = tile_grid(count)
    return rows * height, columns * width, channels


def tile_frames(frames: Sequence[npt.NDArray[np.uint8]]) -> npt.NDArray[np.uint8]:
    """Compose equally sized frames into one picture, row by row; places left over are black."""
    if len(frames) == 0:
        raise ValueError("a grid needs at least one frame")
    out = np.empty(tile_shape(len(frames), np.shape(frames[0])), dtype=np.uint8)
    tile_frames_into(frames, out)
    return out


def tile_frames_into(frames: Sequence[npt.NDArray[np.uint8]], out: npt.NDArray[np.uint8]) -> None:
    """Compose frames into `out`, e.g. a slot lent by ``writer.reserve()``: one copy of each frame.

    >>> with writer.reserve() as slot:                    # doctest: +SKIP
    ...     tile_frames_into([env.render() for env in envs], slot)
    """
    if len(frames) == 0:
        raise ValueError("a grid needs at least one frame")
    first: tuple[int, ...] = np.shape(frames[0])
    expected = tile_shape(len(frames), first)
    if out.shape != expected:
        raise ValueError(
            f"{len(frames)} frames of shape {first} make a picture of shape {expected}, "
            f"but the target has shape {out.shape}"
        )
    for index, frame in enumerate(frames):
        _check_tile(index, frame, first)
    height, width, channels = _three(first)
    rows, columns = tile_grid(len(frames))
    for index in range(rows * columns):
        row, column = divmod(index, columns)
        place = out[row * height : (row + 1) * height, column * width : (column + 1) * width]
        place[...] = (
            np.reshape(frames[index], (height, width, channels)) if index < len(frames) else 0
        )


def _three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) == 2:  # gray frames may come without a channel axis
        return shape[0], shape[1], 1
    if len(shape) == 3:
        return shape[0], shape[1], shape[2]
    raise ValueError(f"a frame has shape (height, width, channels), not {shape}")


def _check_tile(index: int, frame: Any, first: tuple[int, ...]) -> None:
    if np.shape(frame) != first:
        raise ValueError(
            f"all tiles must have one size: frame {index} has shape {np.shape(frame)}, frame 0 has "
            f"{first}"
        )
    dtype = getattr(frame, "dtype", None)
    if dtype != np.uint8:
        raise TypeError(f"tiles are uint8 arrays; frame {index} is {dtype or type(frame).__name__}")
