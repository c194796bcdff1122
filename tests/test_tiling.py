"""Grids of frames."""

from __future__ import annotations

import numpy as np
import pytest

from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter, tile_frames, tile_frames_into
from lanekit.fast import tile_grid, tile_shape


@pytest.mark.parametrize(
    ("count", "grid"),
    [(1, (1, 1)), (2, (2, 1)), (3, (2, 2)), (4, (2, 2)), (5, (3, 2)), (7, (3, 3)), (10, (4, 3))],
)
def test_the_grid_is_near_square(count: int, grid: tuple[int, int]) -> None:
    assert tile_grid(count) == grid


def test_frames_fill_the_grid_row_by_row_and_the_rest_is_black() -> None:
    frames = [np.full((2, 3, 3), i + 1, np.uint8) for i in range(3)]
    picture = tile_frames(frames)
    assert picture.shape == (4, 6, 3)
    assert (picture[:2, :3] == 1).all()
    assert (picture[:2, 3:] == 2).all()
    assert (picture[2:, :3] == 3).all()
    assert (picture[2:, 3:] == 0).all()


def test_gray_frames_without_a_channel_axis_work() -> None:
    assert tile_frames([np.ones((2, 3), np.uint8)] * 2).shape == (4, 3, 1)


def test_tiles_go_straight_into_a_reserved_slot(run_id: str) -> None:
    frames = [np.full((4, 5, 3), 10 * i, np.uint8) for i in range(5)]
    height, width, _ = tile_shape(5, (4, 5, 3))
    config = FastLaneConfig(width=width, height=height, capacity=2)
    with FastLaneWriter.create(run_id, config) as writer, FastLaneReader.attach(run_id) as reader:
        for _ in range(3):  # black places must be black again when a slot comes around
            with writer.reserve() as slot:
                slot[...] = 255
            with writer.reserve() as slot:
                tile_frames_into(frames, slot)
            frame = reader.latest_frame()
            assert frame is not None
            assert np.array_equal(frame.array, tile_frames(frames))


def test_mixed_sizes_and_other_misuse_are_errors() -> None:
    tile = np.zeros((2, 3, 3), np.uint8)
    with pytest.raises(ValueError, match="at least one"):
        tile_frames([])
    with pytest.raises(ValueError, match=r"frame 1 has shape \(3, 3, 3\)"):
        tile_frames([tile, np.zeros((3, 3, 3), np.uint8)])
    with pytest.raises(TypeError, match="frame 1 is float64"):
        tile_frames([tile, np.zeros((2, 3, 3))])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"\(4, 3, 3\).*\(9, 9, 3\)"):
        tile_frames_into([tile, tile], np.zeros((9, 9, 3), np.uint8))
    with pytest.raises(ValueError, match="height, width, channels"):
        tile_frames([np.zeros(7, np.uint8)])
