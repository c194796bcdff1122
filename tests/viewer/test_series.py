"""Long series: the same answers as from all numbers, out of few of them."""

from __future__ import annotations

import numpy as np
import pytest

from lanekit.viewer.live.curve import Curve, Scale, mean_points, raw_points
from lanekit.viewer.live.numbers import number_text, padded, tick_texts, ticks
from lanekit.viewer.live.series import Series

SCALE = Scale(1, 1000, 0.0, 1.0, 0.0, 0.0, 800.0, 200.0)


def in_pieces(values: np.ndarray, *sizes: int) -> Series:
    series = Series()
    first = 0
    for size in (*sizes, len(values)):
        series.extend(values[first : first + size])
        first += size
    return series


@pytest.mark.parametrize("size", [1, 63, 64, 65, 5000, 40_000, 300_000])
def test_the_envelope_holds_every_number_and_invents_none(size: int) -> None:
    values = np.random.default_rng(size).normal(size=size)
    series = in_pieces(values, 1, 10, 63, 64, 100, 4096)
    columns = min(size, 37)
    lows, highs = series.envelope(columns)
    assert len(lows) == len(highs) == columns
    assert lows.min() == values.min() == series.low
    assert highs.max() == values.max() == series.high
    assert set(lows) | set(highs) <= set(values)


def test_a_spike_is_in_its_column_however_long_the_series_is() -> None:
    values = np.zeros(1_000_000)
    values[700_123] = 9.0
    _, highs = Series(values).envelope(1000)
    assert np.flatnonzero(highs).tolist() == [700]


def test_numbers_that_just_came_are_in_the_last_column() -> None:
    series = Series(np.zeros(1_000_000))
    series.extend([5.0])
    _, highs = series.envelope(500)
    assert highs[-1] == 5.0


def test_a_million_numbers_are_drawn_with_as_many_points_as_some_thousand() -> None:
    million = Curve("", 0, Series(np.random.default_rng(1).normal(size=1_000_000)))
    assert len(raw_points(million, SCALE, 800)) == 1600
    assert len(mean_points(million, SCALE, 800, 50)) == 800


def test_few_numbers_are_drawn_as_they_are() -> None:
    values = np.random.default_rng(1).random(1000)
    points = raw_points(Curve("", 0, Series(values)), SCALE, 800)
    assert np.allclose(points[:, 0], np.linspace(0, 800, 1000))
    assert np.allclose(points[:, 1], (1 - values) * 200)


@pytest.mark.parametrize("window", [1, 2, 7, 64, 1000])
def test_means_are_those_of_the_numbers_in_the_window(window: int) -> None:
    values = np.random.default_rng(2).normal(size=500)
    series = in_pieces(values, 3, 100)
    ends = np.arange(500)
    expected = [values[max(0, end + 1 - window) : end + 1].mean() for end in ends]
    assert np.allclose(series.means(ends, window), expected)


def test_unknown_numbers_count_in_no_mean_and_no_envelope() -> None:
    series = Series([np.nan, 1.0, np.nan, 3.0])
    assert np.array_equal(series.means(np.arange(4), 2), [np.nan, 1.0, 1.0, 3.0], equal_nan=True)
    assert (series.low, series.high) == (1.0, 3.0)
    assert len(raw_points(Curve("", 0, series), SCALE, 800)) == 2
    assert np.isnan(Series([np.nan]).low)


def test_ticks_are_round_and_within_the_axis() -> None:
    assert ticks(-3, 517, 4) == [0, 200, 400]
    assert ticks(0.1, 0.4, 3) == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert ticks(1, 3, 10, whole=True) == [1, 2, 3]
    assert ticks(5, 5, 4) == []


def test_ticks_are_written_alike() -> None:
    assert tick_texts([0.0, 0.5, 1.0]) == ["0.0", "0.5", "1.0"]
    assert tick_texts([-0.0, 20_000.0]) == ["0k", "20k"]
    assert tick_texts([0.0, 500.0, 1000.0]) == ["0", "500", "1,000"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (500.0, "500"),
        (1234567.0, "1,234,567"),
        (0.30512, "0.3051"),
        (-12.5, "-12.5"),
        (1e-7, "1e-07"),
        (1e20, "1e+20"),
    ],
)
def test_numbers_are_written_for_people(value: float | None, text: str) -> None:
    assert number_text(value) == text


def test_an_axis_has_room_also_for_one_number_and_for_none() -> None:
    assert padded(float("nan"), float("nan")) == (0.0, 1.0)
    low, high = padded(3.0, 3.0)
    assert low < 3.0 < high
