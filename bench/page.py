"""A run as a page: pictures, where a peer is ahead, every row, what failed, and how it was done."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from bench import headlines, plots
from bench.plots import Picture
from bench.record import Record, RecordError, load
from bench.report import _table as table
from bench.rows import Figure, Row, factor, number, peers_ahead

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
_BEGIN, _END = "<!-- written by `python -m bench page` -->", "<!-- until here -->"

Everything = dict[tuple[str, str, str, str], Row]


# --- the tables of a question ---------------------------------------------------------------------


def _times(value: float) -> str:
    """Return a ratio."""
    return "∞" if value == float("inf") else f"×{number(value)}"


def _spread(value: Figure) -> str:
    return "" if value.low == value.high else f"{number(value.low)} – {number(value.high)}"


def _cell(row: Row | None) -> str:
    """Return a median, and small what the middle half of the rounds is between."""
    if row is None or row.value is None:
        return "–"
    spread = _spread(row.value)
    return number(row.value.median) + (f"<br><sub>{spread}</sub>" if spread else "")


def _of_limit(row: Row | None) -> str:
    return "" if row is None or row.ratio is None else _times(row.ratio.median)


def _lanekit_is(row: Row | None, everything: Everything) -> str:
    """Return how many times better ours is than a peer, fat where it is worse."""
    mine = everything.get((row.lane, row.question, row.case, row.rival)) if row else None
    if row is None or row.value is None or mine is None or mine.value is None:
        return ""
    found = factor(row.better, mine.value.median, row.value.median)
    return f"**{_times(found)}**" if found < 1 else _times(found)


def _label(row: Row) -> str:
    if row.role == "limit":
        return f"*{row.name}*"
    return f"**{row.name}**" if row.role == "ours" else row.name


def _one_case(rows: list[Row], everything: Everything) -> str:
    """Return a table with a column for each thing that is told of a row."""
    bases = {row.base for row in rows if row.base}
    columns = {
        "": [_label(row) for row in rows],
        rows[0].unit: [number(row.value.median) if row.value else "–" for row in rows],
        "middle half": [_spread(row.value) if row.value else "" for row in rows],
        f"÷ {', '.join(sorted(bases))}" if len(bases) == 1 else "÷ limit": [
            f"{_of_limit(row)} {row.base}" if row.ratio and len(bases) > 1 else _of_limit(row)
            for row in rows
        ],
        "lanekit is": [_lanekit_is(row, everything) for row in rows],
    }
    told = {name: cells for name, cells in columns.items() if any(cells)}
    return table(told, zip(*told.values(), strict=True))


def _many_cases(rows: list[Row], cases: list[str], everything: Everything) -> str:
    """Return a table of figures, a column for each case, and one of the ratios below it."""
    ways: dict[str, dict[str, Row]] = {}
    for row in rows:
        ways.setdefault(_label(row), {})[row.case] = row
    figures = table(
        ("", *cases),
        ((name, *(_cell(mine.get(case)) for case in cases)) for name, mine in ways.items()),
    )
    lines = {
        name: [
            (_of_limit(mine.get(case)), _lanekit_is(mine.get(case), everything)) for case in cases
        ]
        for name, mine in ways.items()
    }
    base = next((row.base for row in rows if row.base), "")
    with_limit = any(of_limit for line in lines.values() for of_limit, _ in line)
    with_ours = any(ours for line in lines.values() for _, ours in line)
    if not (with_limit or with_ours):
        return figures
    header = [""]
    for case in cases:
        header += [f"{case} ÷ {base}"] * with_limit
        header += ["lanekit is" if with_limit else f"{case}: lanekit is"] * with_ours
    ratios = (
        (name, *(cell for pair in line for cell in _chosen(pair, with_limit, with_ours)))
        for name, line in lines.items()
        if any(cell for pair in line for cell in pair)
    )
    return f"{figures}\n\n{table(header, ratios)}"


def _chosen(pair: tuple[str, str], with_limit: bool, with_ours: bool) -> Iterable[str]:
    return pair[:1] * with_limit + pair[1:] * with_ours


def _question(rows: list[Row], everything: Everything) -> str:
    head = rows[0]
    measured = [row for row in rows if row.value is not None]
    cases = list(dict.fromkeys(row.case for row in measured))
    case = f", {cases[0]}" if len(cases) == 1 and cases[0] else ""
    title = f"{head.question[0].upper()}{head.question[1:]}{case}"
    heading = f"### {title}: {head.unit}, {head.better} is better"
    if len(cases) == 1:
        return f"{heading}\n\n{_one_case(measured, everything)}"
    return f"{heading}\n\n{_many_cases(measured, cases, everything)}"


# --- what a sceptic asks first --------------------------------------------------------------------


def _ahead(rows: Iterable[Row]) -> str:
    rows = list(rows)
    compared = sum(row.role == "peer" and row.value is not None and bool(row.rival) for row in rows)
    found = peers_ahead(rows)
    if not found:
        return f"In none of the {compared} rows that compare a peer with lanekit."
    lines = (
        (
            each.peer.question,
            each.peer.case,
            each.peer.name,
            f"{number(each.peer.value.median)} {each.peer.unit}" if each.peer.value else "",
            f"{number(each.ours.value.median)} {each.ours.unit}" if each.ours.value else "",
            _times(each.times),
            "yes" if each.clear else "within the spread",
            _escaped(each.peer.note) or ("not known yet" if each.clear else ""),
        )
        for each in found
    )
    header = ("question", "case", "peer", "peer's", "lanekit's", "ahead", "clearly", "because")
    clear = sum(each.clear for each in found)
    return (
        f"In {len(found)} of {compared} rows that compare a peer with lanekit, in {clear} of them "
        f"beyond the spread of the rounds.\n\n{table(header, lines)}"
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
    return table(("lane", "what", "why not"), ((a, b, _escaped(c)) for a, b, c in unique))


_DIRECTORIES = re.compile(r"(?<![\w/.])/(?:[\w.+-]+/)+")


def _escaped(text: str) -> str:
    """Return it as a cell has it: one line, and no directories of the machine it comes from."""
    return _DIRECTORIES.sub("…/", text).replace("|", "\\|").replace("\n", " ")


def _head(record: Record) -> str:
    about = record.machine
    caches = ", ".join(f"{name} {size}" for name, size in about.get("caches", {}).items())
    return (
        f"One run, `python -m bench all --{record.mode}`, {record.when[:10]}, "
        f"{record.seconds / 60:.0f} minutes: {about['cores']} cores of {about['cpu']} ({caches}), "
        f"Linux {about['kernel']}, CPython {about['python']}. Others used up to "
        f"{record.noise:.0%} of the machine meanwhile. Ratios travel between machines, times do "
        "not."
    )


_READING = """\
A figure is the median over the rounds; small below it, between which values the middle half of
the rounds lies. All ways of a question take turns within a round. *Limits* are what the machine
itself can do, **lanekit's** rows are fat. *÷ memcpy* is the ratio to that limit, round by round.
*lanekit is* says how many times faster ours is than a peer's, by the medians, ours being the way
that does the same work; where the peer is faster it is fat and below 1.
"""


def _about(record: Record) -> str:
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for row in record.rows:
        about, note = found.get((row.lane, row.name), ("", ""))
        found[row.lane, row.name] = about or row.about, note or row.note
    lines = (
        (lane, name, _escaped(about), _escaped(note))
        for (lane, name), (about, note) in found.items()
        if about or note
    )
    return table(("lane", "way", "version and calls", "what it does otherwise"), lines)


# --- the page -------------------------------------------------------------------------------------

_AHEAD = "## Where a peer is ahead"
_TRAININGS = f"""\
## {plots.TRAININGS.title}

`python -m bench.overhead` takes hours and is no part of this run; what it has found so far is in
[Integrations](integrations.md#what-it-costs).\
"""

_STARRED = f"{headlines.STAR} It does something else; [what](#what-was-called) is told below."


def markdown(record: Record, pictures: Iterable[Picture], images: str = "") -> str:
    """Return the whole page."""
    everything = {row.key: row for row in record.rows}
    parts = ["# Benchmarks", _head(record)]
    parts.append(f"## At a glance\n\n{headlines.table_of(record.rows)}\n\n{_STARRED}")
    for picture in pictures:
        parts.append(f"## {picture.title}\n\n![{picture.title}]({images}{picture.file})")
        parts.append(picture.caption)
    parts.append(f"{_AHEAD}\n\n{_ahead(record.rows)}")
    parts.append(f"## What was not measured\n\n{_missing(record)}")
    parts.append(f"## How to read the tables\n\n{_READING.strip()}")
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


def _into_readme(readme: Path, record: Record) -> bool:
    """Put the first table into the README, between two comments; False: it has none."""
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        return False
    starred = f"{headlines.STAR} It does something else, as the page says."
    rows = headlines.table_of(record.rows, most=4)
    content = f"{begin}\n{_head(record)}\n\n{rows}\n\n{starred}\n{end}"
    readme.write_text(before + content + after, encoding="utf-8")
    return True


def main(arguments: argparse.Namespace) -> int:
    """Write the page of the docs, its pictures and the README's table from a run that was saved."""
    try:
        record = load(arguments.record)
    except RecordError as error:
        sys.exit(f"error: {error}")
    images = arguments.docs / _IMAGES
    images.mkdir(parents=True, exist_ok=True)
    samples = arguments.record.parent / plots.OVERHEAD
    pictures = plots.draw_all(record, images, samples)
    text = markdown(record, pictures, images=f"{_IMAGES.as_posix()}/")
    if not any(picture.file == plots.TRAININGS.file for picture in pictures):
        text = text.replace(_AHEAD, f"{_TRAININGS}\n\n{_AHEAD}", 1)
    title, rest = text.split("\n\n", 1)
    page = arguments.docs / "benchmarks.md"
    page.write_text(f"{title}\n\n{_PREFACE}\n{rest}", encoding="utf-8")
    print(f"written to {page}")
    if arguments.readme is not None and _into_readme(arguments.readme, record):
        print(f"and its first table to {arguments.readme}")
    return 0
