"""The environment that is played: what it shows goes to the screen, and smaller into the record."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lanekit.integrations.playing.environments import make_drawn

SMALL = 320
"""The longer side of a small picture, at most."""


class Pictures(Enum):
    """What is recorded of each picture; the value is how to say it."""

    SMALL = "small pictures"
    FULL = "full-size pictures"
    NONE = "no pictures"


class Stage:
    """An environment in the shape that ``SessionController`` drives."""

    def __init__(self, env_id: str, pictures: Pictures = Pictures.SMALL) -> None:
        """Make the environment; its pictures are drawn off screen."""
        self.env = make_drawn(env_id)
        self.spec = self.env.spec
        self.pictures = pictures
        self.picture: NDArray[np.uint8] | None = None
        """What the environment looks like now."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        answer = self.env.reset(seed=seed, options=options)
        self._draw()
        return answer

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Act, and draw what came of it."""
        answer = self.env.step(action)
        self._draw()
        return answer

    def render(self) -> NDArray[np.uint8] | None:
        """Return the picture for the record."""
        if self.picture is None or self.pictures is Pictures.NONE:
            return None
        return self.picture if self.pictures is Pictures.FULL else shrunk(self.picture, SMALL)

    def close(self) -> None:
        """Let go of the environment."""
        self.env.close()

    def _draw(self) -> None:
        picture = self.env.render()
        if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8:
            raise TypeError(f"render() gave {type(picture).__name__}, not an array of pixels")
        self.picture = picture


def shrunk(pixels: NDArray[np.uint8], longest: int) -> NDArray[np.uint8]:
    """Shrink by a whole factor, each pixel the mean of those it stands for, until it fits."""
    height, width = pixels.shape[:2]
    factor = -(-max(height, width) // longest)
    if factor <= 1:
        return pixels
    height, width = height // factor, width // factor
    total = np.zeros((height, width, *pixels.shape[2:]), np.uint32)
    for y in range(factor):
        for x in range(factor):
            total += pixels[y : factor * height : factor, x : factor * width : factor]
    small: NDArray[np.uint8] = (total // factor**2).astype(np.uint8)
    return small
