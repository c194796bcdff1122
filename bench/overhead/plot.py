"""From findings to a picture: a dot and its interval for every framework and mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.overhead.modes import AGAIN, EVERY_STEP, IN_PROCESS, SHADOW, UNWATCHED, Mode
from bench.overhead.report import SHADOW_MOST, UNWATCHED_MOST, number
from bench.overhead.statistics import Findings, Interval, find

# Colours that people tell apart who see few.
_COLOURS = {
    AGAIN: "#9a9a9a",
    UNWATCHED: "#009e73",
    SHADOW: "#0072b2",
    IN_PROCESS: "#e69f00",
    EVERY_STEP: "#d55e00",
}
_CLOSE = (AGAIN, UNWATCHED, SHADOW, IN_PROCESS)
_TICKS = (1, 2, 5, 10, 20, 50, 100, 200)
_ROW_SHARE = 0.64
_INCHES_PER_ROW = 0.85


def draw(content: dict[str, Any], path: Path) -> None:
    """Write the plot of a run. Needs matplotlib, which is in the extra `bench`."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    found = find(content)
    figure, (close, far) = pyplot.subplots(
        1,
        2,
        figsize=(10, 2.2 + _INCHES_PER_ROW * len(found)),
        sharey=True,
        gridspec_kw={"width_ratios": [3, 1], "wspace": 0.04},
        layout="constrained",
    )
    for row, one in enumerate(found):
        for axes in (close, far):
            if row % 2 == 0:
                axes.axhspan(row - 0.5, row + 0.5, color="#f4f4f4", zorder=0)
        for place, mode in enumerate(_CLOSE):
            height = row + _ROW_SHARE * (place / (len(_CLOSE) - 1) - 0.5)
            _dot(close, one.ratios[mode, "wall"], height, mode)
            if mode is IN_PROCESS:
                close.plot(one.explained.value, height, "|", color="black", markersize=11, zorder=4)
        _dot(far, one.ratios[EVERY_STEP, "wall"], row, EVERY_STEP)
        far.annotate(
            number(one.ratios[EVERY_STEP, "wall"].value),
            (one.ratios[EVERY_STEP, "wall"].value, row),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    _near_one(close, found)
    _far_away(far, found)
    close.set_yticks(
        range(len(found)),
        [f"{one.framework}\nbare {one.bare['wall'] * 1e6:.0f} µs" for one in found],
    )
    close.set_ylim(len(found) - 0.5, -0.5)
    _legend(figure, close, far)
    figure.suptitle(
        "What watching costs a training: CartPole-v1, time per step ÷ bare", fontsize=12
    )
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _dot(axes: Any, found: Interval, height: float, mode: Mode) -> None:
    axes.plot([found.low, found.high], [height, height], color=_COLOURS[mode], linewidth=2)
    axes.plot(found.value, height, "o", color=_COLOURS[mode], markersize=6, label=mode.label)


def _near_one(axes: Any, found: list[Findings]) -> None:
    """The scale on which a per cent can be seen."""
    reach = [one.ratios[mode, "wall"] for one in found for mode in _CLOSE]
    reach += [one.explained for one in found]
    axes.set_xlim(
        min(0.98, min(each.low for each in reach) - 0.005),
        max(1.06, max(each.high for each in reach) + 0.005),
    )
    axes.axvline(1, color="black", linewidth=0.8)
    for most, mode in ((UNWATCHED_MOST, UNWATCHED), (SHADOW_MOST, SHADOW)):
        axes.axvline(most, color=_COLOURS[mode], linewidth=1, linestyle=(0, (4, 3)))
    axes.xaxis.set_major_formatter(lambda ratio, _: f"×{ratio:.2f}")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("× bare; dashed: the most that is wanted")


def _far_away(axes: Any, found: list[Findings]) -> None:
    """A scale of its own for drawing every step, which would hide the rest."""
    from matplotlib.ticker import NullLocator

    reach = [one.ratios[EVERY_STEP, "wall"] for one in found]
    axes.set_xscale("log")
    axes.set_xticks([ratio for ratio in _TICKS if ratio <= 1.6 * max(e.high for e in reach)])
    axes.set_xlim(min(1.0, *(e.low for e in reach)), 1.6 * max(2.0, *(e.high for e in reach)))
    axes.xaxis.set_major_formatter(lambda ratio, _: f"×{ratio:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", left=False)
    axes.set_xlabel("× bare, logarithmic")


def _legend(figure: Any, close: Any, far: Any) -> None:
    from matplotlib.lines import Line2D

    labels: dict[str, Any] = {}
    for axes in (close, far):
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            labels.setdefault(label, handle)
    labels["what 60 pictures a second explain"] = Line2D(
        [], [], color="black", marker="|", linestyle="", markersize=11
    )
    figure.legend(
        labels.values(), labels.keys(), loc="outside lower center", ncols=3, frameon=False
    )
