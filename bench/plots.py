"""The pictures of a run, each drawn from its rows alone; needs matplotlib, in the extra `bench`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.lane_rows import EVENTS, GROWTH, ONE_WAY, PUBLISH, READERS, THROUGHPUT
from bench.record import Record
from bench.rows import Row

OVERHEAD = Path("overhead") / "overhead.json"
"""Where `python -m bench.overhead` leaves its samples, beside a run's own file."""
_BUDGET_US = 1e6 / 60
_INK, _FAINT = "#222222", "#e4e4e4"
_OURS = {"lanekit": "#0072b2", "lanekit, in place": "#56b4e9"}
# Colours that people tell apart who see few; beyond them markers tell.
_COLOURS = ("#e69f00", "#d55e00", "#cc79a7", "#009e73", "#7a5195", "#8c6d31", "#b8a200", "#5b5b5b")
_MARKERS = "os^Dvp*PX<>h"


class Picture(NamedTuple):
    """A file, and what to say beside it."""

    file: str
    title: str
    caption: str


class _Style(NamedTuple):
    color: str
    marker: str
    width: float
    dash: str


def _styles(rows: Iterable[Row]) -> dict[str, _Style]:
    """Give each way a look: ours in blue and strong, limits dashed and grey."""
    found: dict[str, _Style] = {}
    ours = peers = 0
    blues = ("#0072b2", "#56b4e9", "#004d7a", "#7fc3f0")
    for row in rows:
        if row.name in found:
            continue
        if row.role == "limit":
            found[row.name] = _Style("#9a9a9a", "", 1.4, "--")
        elif row.role == "ours":
            color = _OURS.get(row.name, blues[ours % len(blues)])
            found[row.name] = _Style(color, "o", 2.6, "-")
            ours += 1
        else:
            color, marker = _COLOURS[peers % len(_COLOURS)], _MARKERS[peers % len(_MARKERS)]
            found[row.name] = _Style(color, marker, 1.3, "-")
            peers += 1
    return found


# --- canvases -------------------------------------------------------------------------------------


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def _dress(axes: Any, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=12, color=_INK, pad=10)
    axes.grid(color=_FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=150, facecolor="white")
    _pyplot().close(figure)


def _legend(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)


def _plain(value: float, _: object = None) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


def _time(us: float, _: object = None) -> str:
    return f"{us / 1e6:g} s" if us >= 1e6 else f"{us / 1e3:g} ms" if us >= 1e3 else f"{us:g} µs"


def _lines(axes: Any, rows: list[Row], cases: list[str], styles: dict[str, _Style]) -> None:
    """Draw a line for each way through its cases, with the middle half of the rounds behind it."""
    # A logarithmic scale has no place for nothing.
    least = 0.5 if any(row.value and row.value.median < 0.5 for row in rows) else 0.0
    for name in dict.fromkeys(row.name for row in rows):
        mine = {row.case: row for row in rows if row.name == name and row.value is not None}
        at = [i for i, case in enumerate(cases) if case in mine]
        values = [mine[cases[i]].value for i in at]
        if not values:
            continue
        style = styles[name]
        shown = [max(value.median, least) for value in values if value]
        low = [max(value.low, least) for value in values if value]
        high = [max(value.high, least) for value in values if value]
        axes.fill_between(at, low, high, color=style.color, alpha=0.13, linewidth=0)
        axes.plot(
            at,
            shown,
            style.dash,
            color=style.color,
            marker=style.marker,
            markersize=5,
            linewidth=style.width,
            label=name,
            zorder=3 if name in _OURS else 2,
        )
    axes.set_yscale("log")
    axes.set_xticks(range(len(cases)), cases)


def _cases(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row.case for row in rows if row.case))


def _of(record: Record, lane: str, question: str) -> list[Row]:
    found = [row for row in record.rows if row.lane == lane and row.question == question]
    return [row for row in found if row.value is not None]


# --- pictures -------------------------------------------------------------------------------------


def _by_case(
    record: Record, lane: str, question: str, title: str, labels: tuple[str, str], formatter: Any
) -> tuple[Any, Any]:
    rows = _of(record, lane, question)
    if not rows:
        raise LookupError(question)
    figure, axes = _pyplot().subplots(figsize=(9, 5), layout="constrained")
    _lines(axes, rows, _cases(rows), _styles(rows))
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.yaxis.set_major_formatter(formatter)
    _dress(axes, title)
    _legend(figure, axes)
    return figure, axes


def _throughput(record: Record, path: Path) -> None:
    title = "Whole frames that reach a reader, both sides flat out"
    labels = ("frame, RGB", "frames per second")
    figure, _ = _by_case(record, "peers", THROUGHPUT, title, labels, _plain)
    _save(figure, path)


def _publish(record: Record, path: Path) -> None:
    title = "What publishing a frame costs the writer, median"
    labels = ("frame, RGB", "time of one call")
    figure, axes = _by_case(record, "peers", PUBLISH, title, labels, _time)
    axes.axhline(_BUDGET_US, color="#c1272d", linewidth=1.2, linestyle=(0, (5, 3)))
    axes.annotate(
        "all the time there is at 60 Hz: 16.7 ms",
        (0, _BUDGET_US),
        xytext=(0, -4),
        textcoords="offset points",
        va="top",
        fontsize=9,
        color="#c1272d",
    )
    _save(figure, path)


def _readers(record: Record, path: Path) -> None:
    title = "Frames a writer publishes, by how its reader reads (84×84)"
    figure, axes = _by_case(record, "peers", READERS, title, ("", "frames per second"), _plain)
    axes.set_ylim(bottom=0.4)
    _save(figure, path)


def _latency(record: Record, path: Path) -> None:
    found = record.lanes["peers"]["results"]["newest_frame"]["latency"]
    rows = _of(record, "peers", ONE_WAY)
    if not rows:
        raise LookupError(ONE_WAY)
    styles = _styles(rows)
    figure, panels = _pyplot().subplots(1, 2, figsize=(11, 5), layout="constrained", sharey=True)
    titles = {"spinning": "the reader spins", "sleeping": "the reader sleeps until it comes"}
    for axes, (mode, title) in zip(panels, titles.items(), strict=True):
        for name, way in found[mode].items():
            style = styles[name]
            axes.plot(
                way["us"],
                found["percentiles"],
                color=style.color,
                linewidth=style.width,
                marker=style.marker,
                markersize=4,
                label=name,
                zorder=3 if name in _OURS else 2,
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_time)
        axes.set_xlabel("from before the call until all pixels are at hand")
        _dress(axes, f"One way, 84×84: {title}")
    line = found["cache_line_one_way"]["p50_us"]
    panels[0].axvline(line, color="#9a9a9a", linestyle="--", linewidth=1.4, label="a cache line")
    panels[0].set_ylabel("per cent of the frames")
    _legend(figure, panels[0])
    _save(figure, path)


def _growth(record: Record, path: Path) -> None:
    title = "A round trip between trainer and engine, median"
    labels = ("environments × 100 float32 observations, 12 float32 actions", "time of one step")
    figure, _ = _by_case(record, "step", GROWTH, title, labels, _time)
    _save(figure, path)


def _trajectories(record: Record, path: Path) -> None:
    rows = [row for row in record.rows if row.lane == "trajectory" and row.value is not None]
    questions = list(dict.fromkeys(row.question for row in rows))
    if not questions:
        raise LookupError("trajectory")
    styles = _styles(rows)
    figure, panels = _pyplot().subplots(
        1,
        len(questions),
        figsize=(4.5 + 3.5 * len(questions), 5),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for axes, question in zip(panels[0], questions, strict=True):
        mine = [row for row in rows if row.question == question]
        _lines(axes, mine, _cases(mine), styles)
        axes.set_xlabel("record")
        axes.yaxis.set_major_formatter(_plain)
        _dress(axes, question.capitalize())
    panels[0][0].set_ylabel("records per second")
    _legend(figure, panels[0][0])
    _save(figure, path)


def _events(record: Record, path: Path) -> None:
    rows = _of(record, "slow", EVENTS)
    if not rows:
        raise LookupError(EVENTS)
    rows.sort(key=lambda row: row.value.median if row.value else 0)
    looks = {
        "ours": ("#0072b2", "lanekit"),
        "peer": ("#e69f00", "trackers and plain files"),
        "limit": ("#9a9a9a", "a bare loop over the same database"),
    }
    figure, axes = _pyplot().subplots(figsize=(9, 0.34 * len(rows) + 1.4), layout="constrained")
    for place, row in enumerate(rows):
        assert row.value is not None
        value, (color, label) = row.value, looks[row.role]
        axes.plot([value.low, value.high], [place, place], color=color, linewidth=3, alpha=0.4)
        axes.plot(value.median, place, "o", color=color, markersize=8, label=label)
        axes.annotate(
            f"{value.median:,.0f}",
            (value.high, place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    axes.set_xscale("log")
    axes.set_xlim(right=3 * max(row.value.high for row in rows if row.value))
    axes.xaxis.set_major_formatter(_plain)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_xlabel("events per second")
    _dress(axes, "Durable events: one worker's, until they are stored")
    found = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=3, frameon=False)
    _save(figure, path)


_MIDDLE = "The band is the middle half of the rounds."
_PICTURES: dict[Picture, Callable[[Record, Path], None]] = {
    Picture("throughput.png", "Throughput against frame size", _MIDDLE): _throughput,
    Picture(
        "readers.png",
        "What readers cost a writer",
        "A way that stands still, or drops every frame, while nobody reads is at the bottom.",
    ): _readers,
    Picture("publish.png", "Publishing, and the budget at 60 Hz", _MIDDLE): _publish,
    Picture(
        "latency.png",
        "One way: how long a frame is under way",
        "Frames sent at random moments, 0.2 to 2 ms apart.",
    ): _latency,
    Picture("step.png", "A round trip against the number of environments", _MIDDLE): _growth,
    Picture("trajectory.png", "Trajectories per second against their size", _MIDDLE): _trajectories,
    Picture("slow.png", "Durable events per second", "The line is the middle half."): _events,
}
_OVERHEAD = Picture(
    "overhead.png",
    "What watching costs a training, across frameworks",
    "From a run of `python -m bench.overhead`, which takes hours and is saved apart.",
)


def _drawn(picture: Picture, draw: Callable[[Path], None], directory: Path) -> bool:
    path = directory / picture.file
    try:
        draw(path)
    except (LookupError, OSError, ValueError) as error:
        path.unlink(missing_ok=True)  # one of an earlier run would be taken for this one's
        print(f"not drawn: {picture.file}: nothing was measured ({error})", file=sys.stderr)
        return False
    return True


def draw_all(record: Record, directory: Path, overhead: Path) -> list[Picture]:
    """Draw what there are rows for, and the samples of trainings; return which pictures there are.

    `overhead` is what `python -m bench.overhead` has written, if it has.
    """
    try:
        _pyplot()
    except ImportError as error:
        print(f"no pictures: {error}; pip install '.[bench]'", file=sys.stderr)
        return []
    drawn = [
        picture
        for picture, draw in _PICTURES.items()
        if _drawn(picture, partial(draw, record), directory)
    ]
    from bench.overhead import driver, plot

    if _drawn(_OVERHEAD, lambda path: plot.draw(driver.load(overhead), path), directory):
        drawn.append(_OVERHEAD)
    return drawn
