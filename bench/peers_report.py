"""The fast lane beside other ways to have the newest frame, as Markdown: failures are told, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bench.peers_lane import RATES
from bench.report import _table as table
from bench.report import _us as us

_OURS = {False: "lanekit", True: "lanekit, in place"}


def _base(found: dict[str, Any], name: str) -> str:
    """Return with which of our ways another is compared."""
    return _OURS[bool(found["about"][name].get("in_place"))]


def _times(value: float, ours: float) -> str:
    return f"**×{value / ours:.2f}**" if ours else ""


def _sizes(found: dict[str, Any]) -> Iterable[str]:
    for row in found["sizes"]:
        ways, memcpy = row["ways"], row["memcpy_us"]["median"]
        rows = [("memcpy in C", us(memcpy), "×1.00", "", "", "", "", "")]
        for name, way in ways.items():
            ours = ways.get(_base(found, name), way)
            received = way["received_per_second"]["median"]
            rows.append(
                (
                    name,
                    f"{us(way['p50_us']['median'])} / {us(way['p99_us']['median'])}",
                    f"×{way['of_memcpy']['median']:.2f}",
                    _times(way["p50_us"]["median"], ours["p50_us"]["median"]),
                    f"{way['published_per_second']['median']:,.0f}",
                    f"{received:,.0f}" if received else "–",
                    _times(received, ours["received_per_second"]["median"]) if received else "–",
                    f"{way['torn']:,}" if way["torn"] else "",
                )
            )
        header = (
            f"{row['frame']}, {row['bytes']:,} bytes",
            "publish: p50 / p99 µs",
            "÷ memcpy",
            "÷ lanekit",
            "published/s",
            "received/s",
            "÷ lanekit",
            "torn",
        )
        yield table(header, rows)


def _readers(found: dict[str, Any]) -> str:
    ways = found["readers"]["ways"]
    rows = (
        (name, *(f"{way[label]['median']:,.0f}" if label in way else "" for label in RATES))
        for name, way in ways.items()
    )
    title = f"### Frames a writer publishes in a second, {found['readers']['frame']}\n\n"
    return title + table(("", *RATES), rows)


def _latency(found: dict[str, Any]) -> str:
    latency = found["latency"]
    rows = [("a cache line, one way", us(latency["cache_line_one_way"]["p50_us"]), "")]
    for name in found["about"]:
        modes = [latency[mode].get(name) for mode in ("spinning", "sleeping")]
        if any(modes):
            cells = (
                f"{us(m['p50_us']['median'])} / {us(m['p99_us']['median'])}" if m else "–"
                for m in modes
            )
            rows.append((name, *cells))
    title = f"### One way, {latency['frame']}: p50 / p99 µs from before the call to all pixels\n\n"
    return title + table(("", "reader spins", "reader sleeps until it comes"), rows)


def _about(found: dict[str, Any]) -> str:
    rows = (
        (
            name,
            about.get("version", ""),
            f"failed: {about['failed']}" if "failed" in about else about["calls"],
        )
        for name, about in found["about"].items()
    )
    return "### What was called\n\n" + table(("", "version", "calls"), rows)


def markdown(results: dict[str, Any]) -> str:
    """Return all tables of a run."""
    found = results["newest_frame"]
    title = "### The newest frame of another process\n\n"
    return "\n\n".join(
        [title + "\n\n".join(_sizes(found)), _readers(found), _latency(found), _about(found)]
    )
