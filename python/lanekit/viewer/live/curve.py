"""A curve: numbers, where they begin on the axis, and the points that draw them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PyQt6.QtGui import QColor

from lanekit.viewer.live.series import Floats, Series
from lanekit.viewer.palette import Palette

_GOLDEN = 0.381966


@dataclass(frozen=True, slots=True)
class Curve:
    """One agent's numbers in a plot."""

    name: str
    number: int
    """The agent's, which gives the colour."""
    series: Series
    start: int = 1
    """Where the first number stands on the axis; each next one is 1 further."""

    @property
    def end(self) -> int:
        """Where the last number stands."""
        return self.start + len(self.series) - 1


@dataclass(frozen=True, slots=True)
class Scale:
    """From numbers to pixels."""

    first: float
    last: float
    low: float
    high: float
    left: float
    top: float
    width: float
    height: float

    def x(self, value: Floats | float) -> Floats | float:
        """Return where a place on the axis is on the screen."""
        share = (value - self.first) / max(self.last - self.first, 1e-300)
        return self.left + share * self.width

    def y(self, value: Floats | float) -> Floats | float:
        """Return how high a number is on the screen."""
        share = (self.high - value) / (self.high - self.low)
        return self.top + share * self.height

    def place(self, x: float) -> float:
        """Return what place on the axis is at a pixel."""
        share = (x - self.left) / max(self.width, 1.0)
        return self.first + share * (self.last - self.first)


def colour_of(number: int, colours: Palette) -> QColor:
    """Return an agent's colour: the theme's accent, and others as far from each other as can be."""
    accent = QColor(colours.accent)
    hue = (accent.hslHueF() + number * _GOLDEN) % 1.0
    return QColor.fromHslF(hue, accent.hslSaturationF() * 0.85, accent.lightnessF())


def raw_points(curve: Curve, scale: Scale, columns: int) -> Floats:
    """Return the points of the line as it is: at most a low and a high in each column of pixels."""
    series = curve.series
    if len(series) <= 2 * columns:
        values = series.values
        places = curve.start + np.arange(len(values), dtype=np.float64)
    else:
        lows, highs = series.envelope(columns)
        values = np.stack((lows, highs), axis=1).ravel()
        middles = (np.arange(columns) + 0.5) * len(series) / columns - 0.5
        places = curve.start + np.repeat(middles, 2)
    return _points(places, values, scale)


def mean_points(curve: Curve, scale: Scale, columns: int, window: int) -> Floats:
    """Return the points of the line of means over a window, at most one in each column."""
    size = len(curve.series)
    if size <= columns:
        last: NDArray[np.int64] = np.arange(size, dtype=np.int64)
    else:
        last = (np.arange(1, columns + 1) * size / columns).astype(np.int64) - 1
        # Narrower than a pixel would be chance, not a mean.
        window = max(window, size // columns)
    return _points(curve.start + last.astype(np.float64), curve.series.means(last, window), scale)


def _points(places: Floats, values: Floats, scale: Scale) -> Floats:
    known = ~np.isnan(values)
    return np.column_stack((scale.x(places[known]), scale.y(values[known])))
