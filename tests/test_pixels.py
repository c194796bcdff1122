"""A slot's pixels as screens take them."""

from __future__ import annotations

import numpy as np
import pytest

from lanekit import FastLaneConfig, FastLaneReader, FastLaneWriter
from lanekit.fast.frame import CHANNELS, PixelFormat
from lanekit.fast.pixels import copy_as_bgrx

ORDERS: dict[PixelFormat, list[int]] = {
    "RGB": [2, 1, 0],
    "RGBA": [2, 1, 0],
    "BGRX": [0, 1, 2],
    "GRAY": [0, 0, 0],
}


@pytest.mark.parametrize("pixel_format", list(ORDERS))
@pytest.mark.parametrize("size", [(1, 1), (33, 20), (61, 47)])
def test_a_peeked_frame_is_copied_blue_first_and_opaque(
    run_id: str, pixel_format: PixelFormat, size: tuple[int, int]
) -> None:
    config = FastLaneConfig(*size, CHANNELS[pixel_format], pixel_format, capacity=2)
    frame = np.random.default_rng(1).integers(0, 256, config.shape, np.uint8)
    out = np.zeros((size[1], size[0], 4), np.uint8)
    with FastLaneWriter.create(run_id, config) as writer:
        writer.publish(frame)
        with FastLaneReader.attach(run_id) as reader, reader.peek() as pixels:
            assert pixels is not None
            copy_as_bgrx(pixels, pixel_format, out)
            del pixels
    assert (out[..., :3] == frame[..., ORDERS[pixel_format]]).all()
    assert (out[..., 3] == 255).all()


def test_arrays_that_do_not_fit_are_refused() -> None:
    frame, out = np.zeros((4, 6, 3), np.uint8), np.zeros((4, 6, 4), np.uint8)
    with pytest.raises(ValueError, match="no RGBA frame in one piece"):
        copy_as_bgrx(frame, "RGBA", out)
    with pytest.raises(ValueError, match="no RGB frame in one piece"):
        copy_as_bgrx(np.zeros((4, 12, 3), np.uint8)[:, ::2], "RGB", out)
    with pytest.raises(ValueError, match=r"needs an array of \(4, 6, 4\)"):
        copy_as_bgrx(frame, "RGB", out[:3])
    with pytest.raises(ValueError, match="in one piece, got"):
        copy_as_bgrx(frame, "RGB", np.zeros((4, 12, 4), np.uint8)[:, ::2])
    out.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        copy_as_bgrx(frame, "RGB", out)
