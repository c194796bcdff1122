"""Curves on the screen: numbers at their places, and what the mouse is told."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import rgb_of
from PyQt6.QtCore import QPoint
from PyQt6.QtGui import QColor
from PyQt6.QtTest import QTest
from pytestqt.qtbot import QtBot

from lanekit.viewer.appearance import appearance
from lanekit.viewer.live.curve import Curve, colour_of
from lanekit.viewer.live.legend import Legend
from lanekit.viewer.live.plot import CurvePlot
from lanekit.viewer.live.series import Series
from lanekit.viewer.palette import DARK, LIGHT

# What Qt says of any window whose least size changes, off screen.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture
def plot(qtbot: QtBot) -> CurvePlot:
    """A plot of a known size, on the screen."""
    plot = CurvePlot("Return", "episode")
    qtbot.addWidget(plot)
    plot.resize(600, 300)
    plot.show()
    return plot


def curve(values: object, number: int = 0, name: str = "", start: int = 1) -> Curve:
    return Curve(name, number, Series(values), start)


def has_colour(plot: CurvePlot, x: float, y: float, colour: QColor, reach: int = 1) -> bool:
    """Tell whether a colour is at a place, or at most `reach` pixels beside it."""
    pixels = rgb_of(plot).astype(int)
    column, row = round(x), round(y)
    part = pixels[row - reach : row + reach + 1, column - reach : column + reach + 1]
    wanted = [colour.red(), colour.green(), colour.blue()]
    return bool((np.abs(part - wanted).sum(axis=2) < 60).any())


def test_a_known_series_is_drawn_at_its_place(plot: CurvePlot) -> None:
    plot.set_curves([curve([0.0, 0.0, 100.0, 100.0, 100.0])])
    scale = plot.scale()
    assert scale is not None
    for place, value in ((1.5, 0.0), (2.5, 50.0), (3.5, 100.0), (4.5, 100.0)):
        assert has_colour(plot, scale.x(place), scale.y(value), colour_of(0, DARK))
        assert not has_colour(plot, scale.x(place), scale.y(100.0 - value + 20), colour_of(0, DARK))


def test_the_spike_of_a_million_numbers_is_seen(plot: CurvePlot) -> None:
    values = np.zeros(1_000_000)
    values[400_000] = 100.0
    plot.set_curves([curve(values)])
    scale = plot.scale()
    assert scale is not None
    assert has_colour(plot, scale.x(400_000.0), scale.y(60.0), colour_of(0, DARK))
    assert not has_colour(plot, scale.x(410_000.0), scale.y(60.0), colour_of(0, DARK))


def test_smoothing_leaves_the_line_beneath_as_it_is(plot: CurvePlot) -> None:
    values = np.zeros(41)
    values[20] = 100.0
    plot.set_curves([curve(values)])
    scale = plot.scale()
    assert scale is not None
    plot.set_window_size(10)
    row, column = round(scale.y(50.0)), round(scale.x(20.5))
    faint = rgb_of(plot)[row, column - 1 : column + 2].astype(int)
    surface = QColor(DARK.surface)
    nothing = [surface.red(), surface.green(), surface.blue()]
    assert abs(faint - nothing).sum(axis=1).max() > 40
    assert plot.scale() == scale  # the axes stay those of the numbers, not of their means
    assert has_colour(plot, scale.x(26.0), scale.y(10.0), colour_of(0, DARK))


def test_each_curve_has_its_colour_in_both_themes(plot: CurvePlot) -> None:
    plot.set_curves([curve([0.0, 0.0], 0, "a"), curve([10.0, 10.0], 1, "b")])
    for dark, colours in ((True, DARK), (False, LIGHT)):
        appearance().set_dark(dark)
        scale = plot.scale()
        assert scale is not None
        assert has_colour(plot, scale.x(1.5), scale.y(0.0), colour_of(0, colours))
        assert has_colour(plot, scale.x(1.5), scale.y(10.0), colour_of(1, colours))


def test_the_first_sixteen_agents_differ_in_colour() -> None:
    for colours in (DARK, LIGHT):
        assert len({colour_of(number, colours).name() for number in range(16)}) == 16


@pytest.mark.parametrize("values", [[], [5.0], [np.nan], [np.nan, 3.0, np.nan], [2.0, 2.0, 2.0]])
def test_odd_series_are_drawn_without_harm(plot: CurvePlot, values: list[float]) -> None:
    plot.set_window_size(5)
    plot.set_curves([curve(values)])
    QTest.mouseMove(plot, QPoint(300, 150))
    assert rgb_of(plot).shape == (300, 600, 3)


def test_a_single_number_is_a_dot(plot: CurvePlot) -> None:
    plot.set_curves([curve([5.0])])
    scale = plot.scale()
    assert scale is not None
    assert has_colour(plot, scale.x(1.0), scale.y(5.0), colour_of(0, DARK))


@pytest.mark.parametrize("size", [(160, 96), (20, 20), (1, 1), (3000, 60)])
def test_any_size_will_do(plot: CurvePlot, size: tuple[int, int]) -> None:
    plot.setMinimumSize(1, 1)
    plot.resize(*size)
    plot.set_curves([curve(np.arange(5000.0))])
    plot.grab()


def test_the_mouse_is_told_what_is_beneath_it(plot: CurvePlot, qtbot: QtBot) -> None:
    plot.set_curves([curve([10.0, 20.0, 30.0], 0, "a"), curve([1.0, 2.0], 1, "b")])
    scale = plot.scale()
    assert scale is not None
    QTest.mouseMove(plot, QPoint(round(scale.x(2.0)), 150))
    told = plot.read_out()
    assert told is not None
    assert told.lines == [(None, "episode 2"), (0, "a  20"), (1, "b  2")]
    plot.set_window_size(2)
    told = plot.read_out()
    assert told is not None
    assert told.lines[1:] == [(0, "a  20   mean 15"), (1, "b  2   mean 1.5")]
    QTest.mouseMove(plot, QPoint(round(scale.x(3.0)), 150))
    told = plot.read_out()
    assert told is not None
    assert [number for number, _ in told.lines] == [None, 0]


def test_where_a_pixel_has_many_numbers_all_of_them_are_told(plot: CurvePlot) -> None:
    plot.set_curves([curve(np.arange(1_000_000.0))])
    QTest.mouseMove(plot, QPoint(300, 150))
    told = plot.read_out()
    assert told is not None
    (_, title), (_, text) = told.lines
    assert title.startswith("episode ")
    assert " to " in title
    assert " to " in text


def test_of_many_curves_some_are_told_and_the_others_counted(plot: CurvePlot) -> None:
    plot.set_curves([curve([1.0, 2.0], number, f"agent {number}") for number in range(30)])
    QTest.mouseMove(plot, QPoint(300, 150))
    told = plot.read_out()
    assert told is not None
    assert told.lines[-1] == (None, "and 22 more")


def test_a_moving_mouse_draws_no_curve_anew(plot: CurvePlot) -> None:
    plot.set_curves([curve(np.arange(1000.0))])
    plot.grab()
    before = plot.drawn
    for x in range(100, 500, 20):
        QTest.mouseMove(plot, QPoint(x, 150))
        plot.grab()
    assert plot.drawn == before
    plot.set_curves([curve(np.arange(1001.0))])
    plot.grab()
    assert plot.drawn == before + 1


def test_curves_that_have_not_grown_are_not_drawn_anew(plot: CurvePlot) -> None:
    series = Series(np.arange(10.0))
    plot.set_curves([Curve("a", 0, series)])
    plot.grab()
    before = plot.drawn
    plot.set_curves([Curve("a", 0, series)])
    plot.grab()
    assert plot.drawn == before
    series.extend([3.0])
    plot.set_curves([Curve("a", 0, series)])
    plot.grab()
    plot.set_curves([Curve("a", 0, Series(series.values))])
    plot.grab()
    plot.set_curves([])
    plot.grab()
    assert plot.drawn == before + 3


def test_the_legend_names_as_many_as_fit_and_counts_the_rest(qtbot: QtBot) -> None:
    legend = Legend()
    qtbot.addWidget(legend)
    legend.resize(400, 20)
    legend.set_curves([curve([], number, f"agent {number}") for number in range(50)])
    entries = legend.entries()
    named = [name for number, name, _ in entries if number >= 0]
    assert named == [f"agent {number}" for number in range(len(named))]
    assert 1 < len(named) < 10
    assert entries[-1][1] == f"and {50 - len(named)} more"
    legend.set_curves([curve([], 0, "x" * 500)])
    assert "…" in legend.entries()[0][1]
    legend.grab()


def test_a_legend_tells_of_agents_that_are_not_drawn(qtbot: QtBot) -> None:
    legend = Legend()
    qtbot.addWidget(legend)
    legend.resize(400, 20)
    legend.set_curves([curve([], 0, "a"), curve([], 1, "b")], 40)
    assert [name for _, name, _ in legend.entries()] == ["a", "b", "and 40 more"]
    assert "choose one" in legend.toolTip()


def test_a_plot_that_is_gone_is_not_drawn_in_the_new_theme(plot: CurvePlot, qtbot: QtBot) -> None:
    gone = CurvePlot("Return", "episode")
    with qtbot.waitSignal(gone.destroyed):
        gone.deleteLater()
    appearance().set_dark(False)
    plot.grab()


def test_numbers_beyond_measure_do_no_harm(plot: CurvePlot) -> None:
    plot.set_window_size(5)
    plot.set_curves([curve([1e308, -1e308, 1e308, np.inf, 5.0])])
    QTest.mouseMove(plot, QPoint(300, 150))
    plot.grab()
