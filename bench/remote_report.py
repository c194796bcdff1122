"""The figures of frames over the network as Markdown."""

from __future__ import annotations

from typing import Any

from bench.report import _table as table


def markdown(results: dict[str, Any]) -> str:
    """Return a table for each size, and one for the worker."""
    parts = [_ways(found) for found in results.get("ways", ()) if found is not None]
    if "worker" in results:
        parts.append(_worker(results["worker"]))
    return "\n\n".join(parts)


def _ways(found: dict[str, Any]) -> str:
    header = (
        *("", "kB", "frames/s", "p50 ms", "p99 ms", "TCP p50 ms", "**added ms**"),
        *("daemon, % of a core", "nobody watches"),
    )
    rows = (
        (
            name,
            f"{row['bytes'] / 1000:,.1f}",
            f"{row['frames_per_second']:.1f}",
            f"{row['p50_ms']:.2f}",
            f"{row['p99_ms']:.2f}",
            f"{row['tcp_p50_ms']:.2f}",
            f"**{row['added_ms']:.2f}**",
            f"{row['cpu'] * 100:.1f}",
            f"{row['cpu_idle'] * 100:.1f}",
        )
        for name, row in found["ways"].items()
    )
    return (
        f"### Frames of {found['frame']} at 30 Hz: from publication to arrival, loopback\n\n"
        + table(header, rows)
    )


def _worker(found: dict[str, Any]) -> str:
    rows = (
        (mode, f"{row['p50_us']:.1f}", f"{row['p99_us']:.1f}", f"**×{row['ratio']:.2f}**")
        for mode, row in found["modes"].items()
    )
    return f"### What the worker pays: a publish of {found['frame']}, at 200 Hz\n\n" + table(
        ("", "p50 µs", "p99 µs", "÷ no daemon"), rows
    )
