"""A run as a page: pictures, where a peer is ahead, every row, what failed, and how it was done."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from bench import plots
from bench.plots import Picture
from bench.record import Record, RecordError, load
from bench.report import _table as table
from bench.rows import Figure, Row, peers_ahead

_TITLES = {
    "fast": "The fast lane beside memcpy",
    "peers": "The fast lane beside other ways to have the newest frame",
    "step": "The step lane",
    "trajectory": "The trajectory lane",
    "slow": "The slow lane",
    "engine": "The engine",
    "viewer": "The viewer",
    "remote": "Frames over the network",
}
_IMAGES = Path("images") / "benchmarks"


def number(value: float) -> str:
    """Return a figure with as many digits as mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _figure(value: Figure) -> str:
    if value.low == value.high:
        return number(value.median)
    return f"{number(value.median)} <sub>{number(value.low)}–{number(value.high)}</sub>"


def _against(row: Row, rows: dict[tuple[str, str, str, str], Row]) -> str:
    """Return a row's ratio to its limit, or a peer's to the way of ours that does the same."""
    parts = []
    if row.ratio is not None:
        parts.append(f"×{row.ratio.median:.3g} {row.base}")
    mine = rows.get((row.lane, row.question, row.case, row.rival))
    if row.value and mine is not None and mine.value and mine.value.median:
        parts.append(f"**×{row.value.median / mine.value.median:.3g}** ours")
    return ", ".join(parts)


def _question(rows: list[Row], everything: dict[tuple[str, str, str, str], Row]) -> str:
    """Return one table: a line for each way, a column for each case."""
    cases = list(dict.fromkeys(row.case for row in rows if row.value is not None))
    by_name: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_name.setdefault(row.name, {})[row.case] = row
    lines = []
    for name, mine in by_name.items():
        first = next(iter(mine.values()))
        bold = f"**{name}**" if first.role == "ours" else name
        label = f"{bold} (limit)" if first.role == "limit" else bold
        cells = []
        for case in cases:
            row = mine.get(case)
            if row is None or row.value is None:
                cells.append("–")
                continue
            against = _against(row, everything)
            cells.append(_figure(row.value) + (f"<br>{against}" if against else ""))
        lines.append((label, *cells))
    head = rows[0]
    title = (
        f"#### {head.question[0].upper()}{head.question[1:]}: {head.unit}, {head.better} is better"
    )
    return f"{title}\n\n" + table(("", *(case or "all" for case in cases)), lines)


def _ahead(rows: Iterable[Row]) -> str:
    rows = list(rows)
    compared = sum(row.role == "peer" and row.value is not None and bool(row.rival) for row in rows)
    found = peers_ahead(rows)
    if not found:
        return f"In none of the {compared} rows that compare a peer with lanekit."
    lines = (
        (
            each.peer.lane,
            each.peer.question,
            each.peer.case,
            each.peer.name,
            f"{number(each.peer.value.median)} {each.peer.unit}" if each.peer.value else "",
            f"{number(each.ours.value.median)} {each.ours.unit}" if each.ours.value else "",
            f"×{each.times:.3g}",
            "yes" if each.clear else "within the spread",
            _cell(each.peer.note),
        )
        for each in found
    )
    names = ("lane", "question", "case", "peer", "peer's", "lanekit's", "ahead", "clearly")
    clear = sum(each.clear for each in found)
    return (
        f"In {len(found)} of {compared} rows that compare a peer with lanekit, in {clear} of them "
        f"beyond the spread of the rounds.\n\n{table((*names, 'because'), lines)}"
    )


def _missing(record: Record) -> str:
    lines = [(row.lane, row.name, row.failed) for row in record.rows if row.failed]
    lines += [
        (name, "all of it", lane["failed"])
        for name, lane in record.lanes.items()
        if "failed" in lane
    ]
    lines += [
        (name, "all of it", "not part of this run") for name in _TITLES if name not in record.lanes
    ]
    unique = dict.fromkeys(lines)
    if not unique:
        return "Everything was measured."
    return table(("lane", "what", "why not"), ((a, b, _cell(c)) for a, b, c in unique))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _head(record: Record) -> str:
    about = record.machine
    caches = ", ".join(f"{name} {size}" for name, size in about.get("caches", {}).items())
    return (
        f"One run, `python -m bench all --{record.mode}`, {record.when}, {record.seconds:.0f} s: "
        f"{about['cpu']}, {about['cores']} cores ({caches}), Linux {about['kernel']}, CPython "
        f"{about['python']}. Others used up to {record.noise:.0%} of the machine meanwhile. "
        "Ratios travel between machines, times do not.\n\n"
        "A cell has the median over the rounds and, small, between which values the middle half "
        "of the rounds lies. ×… memcpy is the ratio to that limit, **×…** ours the ratio to the "
        "way of lanekit's that does the same work, both of the same run."
    )


def _about(record: Record) -> str:
    found = {(row.lane, row.name): row.about for row in record.rows if row.about}
    lines = ((lane, name, _cell(about)) for (lane, name), about in found.items())
    return table(("lane", "way", "version and calls"), lines)


def markdown(record: Record, pictures: Iterable[Picture], images: str = "") -> str:
    """Return the whole page."""
    everything = {row.key: row for row in record.rows}
    parts = ["# Benchmarks", _head(record)]
    for picture in pictures:
        parts.append(f"## {picture.title}\n\n![{picture.title}]({images}{picture.file})")
        parts.append(picture.caption)
    parts.append(f"## Where a peer is ahead\n\n{_ahead(record.rows)}")
    parts.append(f"## What was not measured\n\n{_missing(record)}")
    for lane in record.lanes:
        rows = [row for row in record.rows if row.lane == lane]
        if not rows:
            continue
        parts.append(f"## {_TITLES[lane]}\n\n{record.lanes[lane]['method']}")
        for question in dict.fromkeys(row.question for row in rows):
            asked = [row for row in rows if row.question == question]
            if any(row.value is not None for row in asked):
                parts.append(_question(asked, everything))
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    parts.append(f"## What was called\n\n{_about(record)}")
    parts.append(f"## Versions\n\n{versions}")
    return "\n\n".join(parts) + "\n"


def summary(record: Record) -> str:
    """Return what a terminal should say in the end."""
    return f"where a peer is ahead\n\n{_ahead(record.rows)}\n\nnot measured\n\n{_missing(record)}"


_PREFACE = """\
`make bench` measures every lane beside the machine's limits and beside its peers, and writes what
follows into `bench/results/`; `python -m bench page` puts it here. How each part is measured, and
how to add a peer, is in [bench/README.md](../bench/README.md).
"""


def main(arguments: argparse.Namespace) -> int:
    """Write the page of the docs, and its pictures, from a run that was saved."""
    try:
        record = load(arguments.record)
    except RecordError as error:
        sys.exit(f"error: {error}")
    images = arguments.docs / _IMAGES
    images.mkdir(parents=True, exist_ok=True)
    samples = arguments.record.parent / plots.OVERHEAD
    pictures = plots.draw_all(record, images, samples)
    text = markdown(record, pictures, images=f"{_IMAGES.as_posix()}/")
    title, rest = text.split("\n\n", 1)
    page = arguments.docs / "benchmarks.md"
    page.write_text(f"{title}\n\n{_PREFACE}\n{rest}", encoding="utf-8")
    print(f"written to {page}")
    return 0
