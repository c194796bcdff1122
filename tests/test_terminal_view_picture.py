"""The terminal viewer's picture: from a frame's pixels to the bytes that paint them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lanekit.viewer.terminal.cells import encode, to_cells, to_indexed
from lanekit.viewer.terminal.pixels import fit, resize, to_rgb
from lanekit.viewer.terminal.stream import Depth, colour_depth
from pseudo_terminal import Screen


def noise(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize(("width", "height"), [(240, 120), (84, 84), (64, 512), (1920, 1080)])
@pytest.mark.parametrize(("columns", "rows"), [(80, 20), (120, 36), (20, 50)])
def test_a_frame_fills_the_terminal_in_one_direction_and_keeps_its_shape(
    width: int, height: int, columns: int, rows: int
) -> None:
    wide, high = fit(width, height, columns, rows)
    assert wide <= columns
    assert high <= 2 * rows
    assert high % 2 == 0
    assert wide == columns or high == 2 * rows
    assert abs(wide * height - high * width) <= max(width, height) * 2


def test_even_a_hair_of_a_frame_gets_one_cell() -> None:
    assert fit(10_000, 1, 80, 20) == (80, 2)
    assert fit(1, 10_000, 80, 20) == (1, 40)


def test_shrinking_averages_the_area_of_each_pixel() -> None:
    image = np.zeros((2, 3, 3), np.uint8)
    image[:, 0], image[:, 2] = 90, 210
    assert resize(image, 2, 1)[0, :, 0].tolist() == [60, 140]


def test_shrinking_keeps_the_mean_brightness() -> None:
    image = noise(117, 251)
    assert resize(image, 80, 40).mean() == pytest.approx(image.mean(), abs=0.5)


def test_growing_repeats_pixels_and_invents_no_colours() -> None:
    image = noise(3, 5)
    grown = resize(image, 20, 12)
    assert np.array_equal(grown, image.repeat(4, axis=0).repeat(4, axis=1))


def test_a_frame_far_larger_than_the_terminal_is_shown_too() -> None:
    image = np.zeros((2160, 3840, 3), np.uint8)
    image[:, 1920:] = 200
    small = resize(image, 80, 40)
    assert small[:, :40].max() == 0
    assert small[:, 40:].min() == 200


def test_every_pixel_format_shows_the_same_colours() -> None:
    rgb = noise(4, 6)
    opaque = np.full((4, 6, 1), 255, np.uint8)
    rgba = np.concatenate((rgb, opaque), axis=2)
    bgrx = np.concatenate((rgb[:, :, ::-1], opaque), axis=2)
    for array, pixel_format in ((rgb, "RGB"), (rgba, "RGBA"), (bgrx, "BGRX")):
        assert np.array_equal(to_rgb(array, pixel_format), rgb)


def test_a_grey_frame_is_grey() -> None:
    grey = noise(4, 6)[:, :, :1]
    assert np.array_equal(to_rgb(grey, "GRAY"), grey.repeat(3, axis=2))


def test_256_colours_are_the_nearest_ones_there_are() -> None:
    levels = (0, 95, 135, 175, 215, 255)
    palette = np.array(
        [(r, g, b) for r in levels for g in levels for b in levels]
        + [(8 + 10 * n,) * 3 for n in range(24)]
    )
    pixels = noise(20, 20)
    chosen = palette[to_indexed(pixels)[:, :, 0].astype(int) - 16]
    error = ((chosen - pixels.astype(int)) ** 2).sum(axis=2)
    least = ((palette - pixels.astype(int)[:, :, None]) ** 2).sum(axis=3).min(axis=2)
    assert np.array_equal(error, least)


@pytest.mark.parametrize("depth", list(Depth))
def test_what_was_sent_is_what_the_terminal_shows(depth: Depth) -> None:
    screen = Screen(40, 20)
    previous = None
    rng = np.random.default_rng(1)
    pixels = noise(20, 30)
    for turn in range(10):
        changed = rng.random((20, 30)) < 0.2
        pixels = np.where(changed[:, :, None], noise(20, 30, seed=turn) & 0xC0, pixels)
        cells = to_cells(pixels, depth)
        screen.feed(encode(cells, previous, depth, top=3, left=5))
        previous = cells
        for row in range(10):
            for column in range(30):
                shown, upper, lower = screen.cells[row + 2][column + 4]
                numbers = cells[row, column].tolist()
                if depth is Depth.MONO:
                    assert (shown, upper, lower) == (chr(numbers[0]), "", "")
                    continue
                kind = "2" if depth is Depth.TRUE_COLOUR else "5"
                half = depth.value
                assert shown == "▀"
                assert upper == ";".join([kind, *map(str, numbers[:half])])
                assert lower == ";".join([kind, *map(str, numbers[half:])])


def test_an_unchanged_picture_sends_nothing() -> None:
    cells = to_cells(noise(20, 30), Depth.TRUE_COLOUR)
    assert encode(cells, cells.copy(), Depth.TRUE_COLOUR, top=1, left=1) == b""


def test_one_changed_pixel_sends_one_cell() -> None:
    before = noise(20, 30)
    after = before.copy()
    after[7, 11] ^= 255
    sent = encode(
        to_cells(after, Depth.TRUE_COLOUR),
        to_cells(before, Depth.TRUE_COLOUR),
        Depth.TRUE_COLOUR,
        top=1,
        left=1,
    ).decode()
    assert sent.startswith("\x1b[4;12H")
    assert sent.count("▀") == 1


def test_a_run_of_one_colour_names_it_once() -> None:
    cells = to_cells(np.full((2, 80, 3), 7, np.uint8), Depth.TRUE_COLOUR)
    sent = encode(cells, None, Depth.TRUE_COLOUR, top=1, left=1).decode()
    assert sent == "\x1b[1;1H\x1b[38;2;7;7;7m\x1b[48;2;7;7;7m" + "▀" * 80 + "\x1b[0m"


def test_a_brighter_pixel_is_a_heavier_character_without_colour() -> None:
    ramp = np.linspace(0, 255, 10).astype(np.uint8)
    pixels = np.broadcast_to(ramp[None, :, None], (2, 10, 3))
    assert to_cells(pixels, Depth.MONO).tobytes() == b" .:-=+*#%@"


@pytest.mark.parametrize(
    ("environment", "encoding", "depth"),
    [
        ({"COLORTERM": "truecolor"}, "utf-8", Depth.TRUE_COLOUR),
        ({"COLORTERM": "24bit"}, "UTF-8", Depth.TRUE_COLOUR),
        ({}, "utf-8", Depth.INDEXED),
        ({"COLORTERM": "truecolor", "NO_COLOR": "1"}, "utf-8", Depth.MONO),
        ({"COLORTERM": "truecolor", "NO_COLOR": ""}, "utf-8", Depth.TRUE_COLOUR),
        ({"COLORTERM": "truecolor"}, "iso-8859-1", Depth.MONO),
        ({"COLORTERM": "truecolor"}, None, Depth.MONO),
    ],
)
def test_the_environment_says_how_many_colours_there_are(
    environment: dict[str, str], encoding: str | None, depth: Depth
) -> None:
    assert colour_depth(environment, encoding) is depth
