"""Whatever render() returns becomes pixels, or a reason why not."""

from __future__ import annotations

import io
from typing import Any

import gymnasium
import numpy as np
import pytest
from trainer import steps_of

from lanekit.integrations.showing.frame_note import NOTE_SIZE, FrameNote
from lanekit.integrations.showing.frames import UnusableRender, to_frame
from lanekit.integrations.showing.painter import painter_of
from lanekit.integrations.showing.surfaces import surface_painter

RGB = np.random.default_rng(1).integers(0, 256, (12, 20, 3), np.uint8)
GRAY = RGB[..., 0]


@pytest.mark.parametrize(
    ("rendered", "pixel_format", "expected"),
    [
        (RGB, "RGB", RGB),
        (np.dstack([RGB, GRAY]), "RGBA", np.dstack([RGB, GRAY])),
        (GRAY, "GRAY", GRAY[..., np.newaxis]),
        (GRAY[..., np.newaxis], "GRAY", GRAY[..., np.newaxis]),
        (RGB.transpose(2, 0, 1), "RGB", RGB),
        (RGB / 255, "RGB", RGB),
        ((RGB / 255).astype(np.float32), "RGB", RGB),
        (RGB.astype(float), "RGB", RGB),
        (RGB.astype(np.int64) - 300 * (RGB > 200), "RGB", np.where(RGB > 200, 0, RGB)),
        (RGB > 100, "RGB", np.where(RGB > 100, 255, 0)),
        ([RGB * 0, RGB], "RGB", RGB),
        ((RGB,), "RGB", RGB),
        (np.stack([RGB * 0, RGB]), "RGB", RGB),
        (RGB.tolist(), "RGB", RGB),
        (RGB.transpose(1, 0, 2), "RGB", RGB.transpose(1, 0, 2)),
        (np.full((4, 4, 3), np.nan), "RGB", np.zeros((4, 4, 3))),
    ],
)
def test_pictures_of_all_kinds_are_understood(
    rendered: Any, pixel_format: str, expected: np.ndarray
) -> None:
    frame = to_frame(rendered)
    assert frame.pixel_format == pixel_format
    assert frame.pixels.dtype == np.uint8
    np.testing.assert_array_equal(frame.pixels, expected)


@pytest.mark.parametrize(
    "rendered",
    [
        None,
        "text",
        io.StringIO("text"),
        [],
        [None],
        [RGB, None],
        np.zeros((0, 4, 3), np.uint8),
        np.zeros((4, 4, 2), np.uint8),
        np.zeros(7, np.uint8),
        np.zeros((2, 2, 2, 2, 3), np.uint8),
        np.zeros((70000, 1, 3), np.uint8),
        np.float64(3),
        np.zeros((4, 4, 3), complex),
        np.array([["a", "b"]]),
        object(),
        {"rgb": RGB},
    ],
)
def test_what_is_no_picture_is_refused_with_a_reason(rendered: Any) -> None:
    with pytest.raises(UnusableRender, match=r"render\(\) returned"):
        to_frame(rendered)


@pytest.mark.pygame
# As an error, what SWIG's types lack crashes the interpreter while Box2D is imported.
@pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")
@pytest.mark.parametrize(
    "env_id",
    [
        "CartPole-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Acrobot-v1",
        "Pendulum-v1",
        "LunarLander-v3",
    ],
)
def test_the_quick_way_gives_the_pixels_that_render_gives(env_id: str) -> None:
    try:
        env, twin = (gymnasium.make(env_id, render_mode="rgb_array") for _ in range(2))
    except gymnasium.error.DependencyNotInstalled as missing:
        pytest.skip(str(missing))
    quick = surface_painter(env.unwrapped)
    assert (quick is None) == (env_id == "Pendulum-v1")  # which copies in any case
    paint = painter_of(env)
    for step, _, _ in zip(range(60), steps_of(env), steps_of(twin), strict=False):
        if step % 10 == 0:
            pixels = paint().pixels
            shown = pixels[..., 2::-1] if quick is not None else pixels
            # Not of the same environment: drawing a LunarLander changes it.
            np.testing.assert_array_equal(shown, twin.render())
            assert env.render_mode == "rgb_array"
    env.close()
    twin.close()


@pytest.mark.pygame
def test_the_quick_way_is_left_when_a_wrapper_changes_the_picture() -> None:
    class Inverted(gymnasium.Wrapper[Any, Any, Any, Any]):
        def render(self) -> Any:
            rendered: Any = super().render()
            return 255 - rendered

    env = Inverted(gymnasium.make("CartPole-v1", render_mode="rgb_array"))
    env.reset(seed=1)
    frame = painter_of(env)()
    assert frame.pixel_format == "RGB"
    np.testing.assert_array_equal(frame.pixels, env.render())


@pytest.mark.pygame
def test_a_surface_of_another_kind_is_drawn_the_plain_way() -> None:
    import pygame

    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.reset(seed=1)
    bare: Any = env.unwrapped
    bare.screen = pygame.Surface((600, 400), depth=24)
    frame = painter_of(env)()
    assert frame.pixel_format == "RGB"
    np.testing.assert_array_equal(frame.pixels, env.render())


def test_a_note_survives_its_way() -> None:
    note = FrameNote("shadow", 12, 3, (12, -1, 11))
    assert FrameNote.decode(note.encode()) == note
    assert len(FrameNote("in-process", 2**60, 2**60, tuple(range(10_000))).encode()) <= NOTE_SIZE


ENDLESS = b'{"rendering": "shadow", "step": Infinity, "episode": 1}'
NO_NOTES = [None, b"", b"\xff", b"{}", b"[1]", b'{"rendering": 1}', b"3", ENDLESS, b"[" * 50_000]


@pytest.mark.parametrize("metadata", NO_NOTES)
def test_other_metadata_is_no_note(metadata: bytes | None) -> None:
    assert FrameNote.decode(metadata) is None
