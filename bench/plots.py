"""The pictures of a run, each drawn from its rows alone; needs matplotlib, in the extra `bench`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench import headlines
from bench.lane_rows import EVENTS, GROWTH, ONE_WAY, PUBLISH, READERS, THROUGHPUT
from bench.record import Record
from bench.rows import Row, factor, number

OVERHEAD = Path("overhead") / "overhead.json"
"""Where `python -m bench.overhead` leaves its samples, beside a run's own file."""
_BUDGET_US = 1e6 / 60
_NOTHING = 0.5
_FAR = 30
_INK, _FAINT, _LIMIT, _BUDGET = "#222222", "#e4e4e4", "#8a8a8a", "#c1272d"
_OURS = ("#0072b2", "#56b4e9", "#004d7a")
_PEER = "#d55e00"
# Colours that people tell apart who see few, one for each library in every picture; ways of one
# library differ in their lines, and all ways in their markers.
_FAMILIES = {
    "plain-Python": "#e69f00",
    "iceoryx2": "#d55e00",
    "ZeroMQ": "#cc79a7",
    "Zenoh": "#009e73",
    "faster-fifo": "#8c6d31",
    "multiprocessing": "#5b5b5b",
    "gRPC": "#882255",
    "Rerun": "#b8a200",
    "PufferLib": "#d55e00",
    "Gymnasium": "#e69f00",
    "Tianshou": "#009e73",
    "TorchRL": "#cc79a7",
    "SB3": "#8c6d31",
    "EnvPool": "#5b5b5b",
    "numpy": "#e69f00",
    "HTTP/JSON": "#009e73",
}
_MARKERS = "s^DvpP*X<>h"
_LIMIT_DASHES = ((0, (5, 3)), (0, (1.5, 2)))
_DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.2)))


class Picture(NamedTuple):
    """A file, and what to say beside it."""

    file: str
    title: str
    caption: str


class _Style(NamedTuple):
    color: str
    marker: str
    width: float
    dash: Any


def _family(name: str) -> str:
    return next((family for family in _FAMILIES if name.startswith(family)), name)


def _styles(rows: Iterable[Row]) -> dict[str, _Style]:
    """Give each way a look: ours in blue and strong, limits dashed and grey."""
    names: dict[str, list[str]] = {"ours": [], "limit": [], "peer": []}
    for row in rows:
        if row.name not in names[row.role]:
            names[row.role].append(row.name)
    found = {
        name: _Style(_LIMIT, "", 1.6, _LIMIT_DASHES[i % len(_LIMIT_DASHES)])
        for i, name in enumerate(names["limit"])
    }
    for i, name in enumerate(names["ours"]):
        found[name] = _Style(_OURS[i % len(_OURS)], "o", 2.8, _DASHES[i // len(_OURS)])
    used: dict[str, int] = {}
    for i, name in enumerate(names["peer"]):
        family = _family(name)
        number_of_family = used[family] = used.get(family, -1) + 1
        color = _FAMILIES.get(family, list(_FAMILIES.values())[i % len(_FAMILIES)])
        dash = _DASHES[number_of_family % len(_DASHES)]
        found[name] = _Style(color, _MARKERS[i % len(_MARKERS)], 1.5, dash)
    return found


# --- canvases -------------------------------------------------------------------------------------


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    # As wide as a page of the docs shows it, so that letters keep their size.
    pyplot.rcParams.update({"font.size": 10.5, "axes.titlesize": 11.5, "legend.fontsize": 9.5})
    return pyplot


def _dress(axes: Any, title: str) -> None:
    axes.set_title(title, loc="left", color=_INK, pad=10)
    axes.grid(color=_FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=160, facecolor="white")
    _pyplot().close(figure)


def _legend(figure: Any, panels: Iterable[Any], order: Iterable[str], below: int = 0) -> None:
    """Name the lines beside the picture, or below it in so many columns."""
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    names = sorted(handles, key=list(order).index)
    chosen = [handles[name] for name in names]
    place = {"loc": "outside lower center", "ncols": below} if below else {}
    place = place or {"loc": "outside right upper", "labelspacing": 0.8}
    figure.legend(chosen, names, frameon=False, handlelength=2.6, **place)


def _plain(value: float, _: object = None) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


def _time(us: float, _: object = None) -> str:
    return f"{us / 1e6:g} s" if us >= 1e6 else f"{us / 1e3:g} ms" if us >= 1e3 else f"{us:g} µs"


def _logarithmic(axis: Any, formatter: Callable[[float, object], str]) -> None:
    """Scale an axis; label 2 and 5, too, where there are few powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    name = axis.axis_name
    getattr(axis.axes, f"set_{name}scale")("log")
    low, high = axis.get_view_interval()
    subs = (1.0,) if high / low > 300 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(10, subs=subs, numticks=20))
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(NullFormatter())


def _lines(axes: Any, rows: list[Row], cases: list[str], styles: dict[str, _Style]) -> None:
    """Draw a line for each way through its cases, with the middle half of the rounds behind it."""
    # A logarithmic scale has no place for nothing.
    least = _NOTHING if any(row.value and row.value.median == 0 for row in rows) else 0.0
    for name in dict.fromkeys(row.name for row in rows):
        mine = {row.case: row for row in rows if row.name == name and row.value is not None}
        at = [i for i, case in enumerate(cases) if case in mine]
        values = [mine[cases[i]].value for i in at]
        style = styles[name]
        shown = [max(value.median, least) for value in values if value]
        low = [max(value.low, least) for value in values if value]
        high = [max(value.high, least) for value in values if value]
        axes.fill_between(at, low, high, color=style.color, alpha=0.15, linewidth=0)
        axes.plot(
            at,
            shown,
            linestyle=style.dash,
            color=style.color,
            marker=style.marker,
            markersize=5.5,
            linewidth=style.width,
            label=name,
            zorder=3 if style.color in _OURS else 2,
        )
    axes.set_xticks(range(len(cases)), cases)


def _cases(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row.case for row in rows if row.case))


def _as_seen(rows: Iterable[Row], case: str) -> list[str]:
    """Return the names from the top of a picture to its bottom, at its right end."""
    rows = list(rows)
    last = {row.name: row.value.median for row in rows if row.value and row.case == case}
    rest = [name for name in dict.fromkeys(row.name for row in rows) if name not in last]
    return [*sorted(last, key=lambda name: -last[name]), *rest]


def _of(record: Record, lane: str, question: str) -> list[Row]:
    found = [row for row in record.rows if row.lane == lane and row.question == question]
    found = [row for row in found if row.value is not None]
    if not found:
        raise LookupError(question)
    return found


# --- pictures -------------------------------------------------------------------------------------


def _overview(record: Record, path: Path) -> None:
    """Draw all headlines: how many times faster ours is than each peer."""
    found = [each for each in headlines.found(record.rows) if each.peers]
    if not found:
        raise LookupError("headlines")
    figure, axes = _pyplot().subplots(figsize=(8.6, 1.4 + 0.5 * len(found)), layout="constrained")
    looks: dict[str, dict[str, Any]] = {
        "the machine's limit": {"marker": "|", "color": _LIMIT, "markersize": 15},
        "a peer": {"marker": "o", "color": _PEER, "markersize": 6.5},
        "a peer that does it otherwise": {"marker": "o", "color": _PEER, "fillstyle": "none"},
    }
    for place, each in enumerate(found):
        otherwise = [row for row in each.peers if row.note]
        alike = [row for row in each.peers if not row.note]
        limits = [each.limit] if each.limit else []
        for label, rows in zip(looks, (limits, alike, otherwise), strict=True):
            at = [_times_faster(each.mine, row) for row in rows]
            places = [place] * len(at)
            axes.plot(at, places, linestyle="", markeredgewidth=1.8, label=label, **looks[label])
        for best, above in ((alike[:1], 6), (otherwise[:1], -14)):
            for row in best:
                times = _times_faster(each.mine, row)
                side = "right" if times > _FAR else "left"
                dot, offset = (times, place), (0, above)
                axes.annotate(
                    row.name, dot, offset, textcoords="offset points", ha=side, fontsize=8
                )
    axes.axvline(1, color=_OURS[0], linewidth=2.8, label="lanekit", zorder=1)
    _logarithmic(axes.xaxis, lambda times, _: f"×{times:g}")
    labels = [f"{textwrap.fill(each.what, 36)}\n{_measured(each.mine)}" for each in found]
    axes.set_yticks(range(len(found)), labels, fontsize=8.5)
    axes.set_ylim(len(found) - 0.5, -0.7)
    axes.set_xlabel("how many times faster lanekit is (logarithmic); left of the line: slower")
    _dress(axes, "Every lane beside its peers; the best of them by name")
    _legend(figure, [axes], ["lanekit", *reversed(looks)], below=2)
    _save(figure, path)


def _times_faster(mine: Row, other: Row) -> float:
    assert mine.value is not None
    assert other.value is not None
    return factor(mine.better, mine.value.median, other.value.median)


def _measured(row: Row) -> str:
    return f"{number(row.value.median)} {row.unit}" if row.value else ""


def _by_case(
    record: Record, lane: str, question: str, title: str, labels: tuple[str, str], formatter: Any
) -> tuple[Any, Any]:
    rows = _of(record, lane, question)
    figure, axes = _pyplot().subplots(figsize=(8.6, 5), layout="constrained")
    cases = _cases(rows)
    _lines(axes, rows, cases, _styles(rows))
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    _logarithmic(axes.yaxis, formatter)
    _dress(axes, title)
    _legend(figure, [axes], _as_seen(rows, cases[-1]))
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
    axes.axhline(_BUDGET_US, color=_BUDGET, linewidth=1.4, linestyle=(0, (5, 3)))
    axes.annotate(
        "all the time there is at 60 Hz: 16.7 ms",
        (0, _BUDGET_US),
        xytext=(0, -4),
        textcoords="offset points",
        va="top",
        color=_BUDGET,
    )
    _save(figure, path)


def _readers(record: Record, path: Path) -> None:
    title = "Frames a writer publishes, by how its reader reads (84×84)"
    labels = ("", "frames per second")
    figure, axes = _by_case(
        record, "peers", READERS, title, labels, lambda v, _: "none" if v < 1 else _plain(v)
    )
    axes.set_yticks([_NOTHING, *(10.0**power for power in range(7))])
    axes.set_ylim(bottom=0.35)
    cases = _cases(_of(record, "peers", READERS))
    axes.set_xticks(range(len(cases)), [case.replace(" reader", "\nreader") for case in cases])
    _save(figure, path)


def _latency(record: Record, path: Path) -> None:
    rows = _of(record, "peers", ONE_WAY)
    found = record.lanes["peers"]["results"]["newest_frame"]["latency"]
    styles = _styles(rows)
    figure, panels = _pyplot().subplots(1, 2, figsize=(8.6, 5.6), layout="constrained", sharey=True)
    titles = {"spinning": "One way, 84×84, reader spins", "sleeping": "the same, reader sleeps"}
    for axes, (mode, title) in zip(panels, titles.items(), strict=True):
        for name, way in found[mode].items():
            style = styles[name]
            axes.plot(
                way["us"],
                found["percentiles"],
                linestyle=style.dash,
                color=style.color,
                linewidth=style.width,
                marker=style.marker,
                markersize=4.5,
                label=name,
                zorder=3 if style.color in _OURS else 2,
            )
        axes.set_xlabel("until all pixels are at hand")
        _dress(axes, title)
    line = found["cache_line_one_way"]["p50_us"]
    panels[0].axvline(
        line, color=_LIMIT, linestyle=(0, (5, 3)), linewidth=1.6, label="a cache line"
    )
    for axes in panels:
        _logarithmic(axes.xaxis, _time)
    panels[0].set_ylabel("per cent of the frames")
    _legend(figure, panels, [row.name for row in rows], below=3)
    _save(figure, path)


def growth(record: Record, path: Path) -> None:
    """Draw a round trip against the number of environments."""
    title = "A round trip between trainer and engine, median"
    labels = ("environments × 100 float32 observations, 12 float32 actions", "time of one step")
    figure, axes = _by_case(record, "step", GROWTH, title, labels, _time)
    axes.tick_params(axis="x", labelsize=9)
    _save(figure, path)


def _trajectories(record: Record, path: Path) -> None:
    rows = [row for row in record.rows if row.lane == "trajectory" and row.value is not None]
    questions = list(dict.fromkeys(row.question for row in rows))
    if not questions:
        raise LookupError("trajectory")
    styles = _styles(rows)
    figure, (panels,) = _pyplot().subplots(
        1, len(questions), figsize=(8.6, 5.2), layout="constrained", sharey=True, squeeze=False
    )
    for axes, question in zip(panels, questions, strict=True):
        mine = [row for row in rows if row.question == question]
        cases = _cases(mine)
        _lines(axes, mine, cases, styles)
        axes.set_xticks(range(len(cases)), [case.removesuffix(" tokens") for case in cases])
        axes.set_xlabel("tokens of a record")
        _dress(axes, question.capitalize())
    _logarithmic(panels[0].yaxis, _plain)
    panels[0].set_ylabel("records per second")
    _legend(figure, panels, _as_seen(rows, _cases(rows)[-1]), below=3)
    _save(figure, path)


def _events(record: Record, path: Path) -> None:
    rows = _of(record, "slow", EVENTS)
    rows.sort(key=lambda row: row.value.median if row.value else 0)
    looks = {
        "ours": (_OURS[0], "o", "lanekit: daemon, proxy, worker"),
        "peer": (_PEER, "s", "trackers and plain files, called from Python"),
        "limit": (_LIMIT, "D", "a bare loop over the same table"),
    }
    figure, axes = _pyplot().subplots(figsize=(8.6, 0.3 * len(rows) + 1.6), layout="constrained")
    for place, row in enumerate(rows):
        assert row.value is not None
        value, (color, marker, label) = row.value, looks[row.role]
        axes.plot([value.low, value.high], [place, place], color=color, linewidth=4, alpha=0.35)
        axes.plot(value.median, place, marker, color=color, markersize=7.5, label=label)
        axes.annotate(
            number(value.median),
            (value.high, place),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=9.5,
        )
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    for row, label in zip(rows, axes.get_yticklabels(), strict=True):
        label.set_fontweight("bold" if row.role == "ours" else "normal")
    _logarithmic(axes.xaxis, _plain)
    axes.set_xlim(right=2.5 * max(row.value.high for row in rows if row.value))
    axes.set_xlabel("events per second, logarithmic")
    _dress(axes, "Durable events of one worker, until they are stored")
    _legend(figure, [axes], [label for _, _, label in looks.values()], below=2)
    _save(figure, path)


_MIDDLE = "The band is the middle half of the rounds."
_PICTURES: dict[Picture, Callable[[Record, Path], None]] = {
    Picture(
        "overview.png",
        "Every lane in one picture",
        "Each dot is a peer in the same run; right of the line lanekit is faster. A ring is a peer "
        "that does something else, which the table of calls tells.",
    ): _overview,
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
    Picture("step.png", "A round trip against the number of environments", _MIDDLE): growth,
    Picture("trajectory.png", "Trajectories per second against their size", _MIDDLE): _trajectories,
    Picture("slow.png", "Durable events per second", "The line is the middle half."): _events,
}
TRAININGS = Picture(
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

    if _drawn(TRAININGS, lambda path: plot.draw(driver.load(overhead), path), directory):
        drawn.append(TRAININGS)
    return drawn
