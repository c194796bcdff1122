"""Cart-pole: the equations of Barto, Sutton and Anderson (1983), and a picture of one state.

A state is ``(x, x_dot, theta, theta_dot)`` in metres, radians and seconds. The physics takes any
number of states at once, one per row. The picture needs nothing but numpy: every shape in it is a
capsule, a line segment with round ends, painted with soft edges from its distance field.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

States = NDArray[np.float64]
Image = NDArray[np.uint8]
Colour = tuple[int, int, int]

MAX_STEPS = 500
"""An episode that lasts this long has succeeded."""

GRAVITY = 9.8
CART_MASS = 1.0
POLE_MASS = 0.1
POLE_HALF_LENGTH = 0.5
MOTOR_FORCE = 10.0
TIME_STEP = 0.02
X_LIMIT = 2.4
THETA_LIMIT = math.radians(12.0)

# The picture, in metres. The pole is drawn longer than it is: at the size of a terminal the true
# metre would be a dozen pixels, too few to see a lean of one degree.
_VIEW_WIDTH = 2 * X_LIMIT + 0.8
_VIEW_HEIGHT = 2.8
_DRAWN_POLE = 1.7
_GROUND = 0.56
_AXLE_HEIGHT = 0.25

_SKY_TOP: Colour = (12, 14, 30)
_SKY_HORIZON: Colour = (38, 36, 74)
_SOIL: Colour = (17, 17, 32)
_TRACK: Colour = (104, 112, 150)
_STOP: Colour = (214, 76, 96)
_CART: Colour = (86, 156, 255)
_WHEEL: Colour = (200, 210, 235)
_AXLE: Colour = (255, 244, 214)
_POLE_STEADY: Colour = (255, 196, 84)
_POLE_FALLING: Colour = (255, 74, 74)
_PUSH: Colour = (255, 255, 255)


def initial_states(rng: np.random.Generator, count: int) -> States:
    """Return ``count`` random states near the upright rest, as an episode begins."""
    return rng.uniform(-0.05, 0.05, (count, 4))


def advance(states: States, force: NDArray[np.float64]) -> States:
    """Return the states one time step later, with ``force`` (newton) on each cart."""
    x, x_dot, theta, theta_dot = states.T
    sin, cos = np.sin(theta), np.cos(theta)
    total_mass = CART_MASS + POLE_MASS
    pole_moment = POLE_MASS * POLE_HALF_LENGTH
    drive = (force + pole_moment * theta_dot**2 * sin) / total_mass
    theta_acc = (GRAVITY * sin - cos * drive) / (
        POLE_HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cos**2 / total_mass)
    )
    x_acc = drive - pole_moment * theta_acc * cos / total_mass
    return np.stack(
        (
            x + TIME_STEP * x_dot,
            x_dot + TIME_STEP * x_acc,
            theta + TIME_STEP * theta_dot,
            theta_dot + TIME_STEP * theta_acc,
        ),
        axis=1,
    )


def force_of(actions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return full force to the right for action 1, to the left for action 0."""
    return np.where(actions == 1, MOTOR_FORCE, -MOTOR_FORCE)


def failed(states: States) -> NDArray[np.bool_]:
    """Say of each state whether the cart left the track or the pole leans too far."""
    off_track: NDArray[np.bool_] = np.abs(states[:, 0]) > X_LIMIT
    tilted: NDArray[np.bool_] = np.abs(states[:, 2]) > THETA_LIMIT
    return off_track | tilted


def draw(state: States, out: Image, *, push: float = 0.0) -> None:
    """Paint one state (four numbers) over all of ``out``, a uint8 array of (height, width, 3).

    The pole turns from amber to red as it leans. A ``push`` other than zero paints a streak on the
    side of the cart that the push comes from; its size, up to one, is the strength.
    """
    np.copyto(out, _backdrop(*out.shape[:2]))
    canvas = _Canvas(out)
    x, theta = float(state[0]), float(state[2])
    for wheel in (x - 0.2, x + 0.2):
        canvas.capsule((wheel, 0.08), (wheel, 0.08), 0.08, _WHEEL)
    canvas.capsule((x - 0.22, _AXLE_HEIGHT), (x + 0.22, _AXLE_HEIGHT), 0.14, _CART)
    if push:
        near = x - math.copysign(0.5, push)
        canvas.capsule((near, _AXLE_HEIGHT), (near - push * 0.6, _AXLE_HEIGHT), 0.05, _PUSH)
    axle = (x, _AXLE_HEIGHT)
    tip = (x + math.sin(theta) * _DRAWN_POLE, _AXLE_HEIGHT + math.cos(theta) * _DRAWN_POLE)
    lean = min(1.0, abs(theta) / THETA_LIMIT)
    canvas.capsule(axle, tip, 0.065, _mix(_POLE_STEADY, _POLE_FALLING, lean**3))
    canvas.capsule(axle, axle, 0.075, _AXLE)


@lru_cache(maxsize=4)
def _backdrop(height: int, width: int) -> Image:
    """Paint what never moves: sky, soil, track and the two stops."""
    image = np.empty((height, width, 3), np.uint8)
    canvas = _Canvas(image)
    rows = np.arange(height)[:, None]
    share = np.clip(rows / canvas.ground, 0.0, 1.0) ** 2
    sky = np.array(_SKY_TOP) * (1 - share) + np.array(_SKY_HORIZON) * share
    image[:] = np.rint(np.where(rows > canvas.ground, np.array(_SOIL), sky))[:, None, :]

    end = X_LIMIT + 0.15
    canvas.capsule((-end, -0.03), (end, -0.03), 0.03, _TRACK)
    for metre in (-2, -1, 0, 1, 2):
        canvas.capsule((metre, -0.15), (metre, -0.23), 0.02, _TRACK)
    for stop in (-end, end):
        canvas.capsule((stop, -0.03), (stop, 0.2), 0.05, _STOP)
    image.flags.writeable = False  # shared by every later call
    return image


def _mix(one: Colour, other: Colour, share: float) -> Colour:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


class _Canvas:
    """An image measured in metres: x from the middle of the track, y up from the ground."""

    def __init__(self, image: Image) -> None:
        self._image = image
        height, width = image.shape[:2]
        self._scale = min(width / _VIEW_WIDTH, height / _VIEW_HEIGHT)
        self._middle = width / 2
        self.ground = height - _GROUND * self._scale

    def capsule(
        self, start: tuple[float, float], end: tuple[float, float], radius: float, colour: Colour
    ) -> None:
        """Blend in all points within ``radius`` of the segment; a dot if the ends are one."""
        height, width = self._image.shape[:2]
        start_x, start_y = self._pixel(start)
        end_x, end_y = self._pixel(end)
        reach = max(radius * self._scale, 0.5)  # thinner than a pixel would fade away
        left = max(0, int(min(start_x, end_x) - reach - 1))
        right = min(width, int(max(start_x, end_x) + reach + 2))
        top = max(0, int(min(start_y, end_y) - reach - 1))
        bottom = min(height, int(max(start_y, end_y) + reach + 2))
        if left >= right or top >= bottom:
            return
        x = np.arange(left, right, dtype=np.float32) + 0.5 - start_x
        y = (np.arange(top, bottom, dtype=np.float32) + 0.5 - start_y)[:, None]
        along_x, along_y = end_x - start_x, end_y - start_y
        squared = max(along_x * along_x + along_y * along_y, 1e-9)
        nearest = np.clip((x * along_x + y * along_y) / squared, 0.0, 1.0)
        distance = np.hypot(x - nearest * along_x, y - nearest * along_y)
        cover = np.clip(reach + 0.5 - distance, 0.0, 1.0)[:, :, None]
        patch = self._image[top:bottom, left:right]
        patch[:] = np.rint(patch + (np.array(colour, np.float32) - patch) * cover)

    def _pixel(self, point: tuple[float, float]) -> tuple[float, float]:
        return self._middle + point[0] * self._scale, self.ground - point[1] * self._scale
