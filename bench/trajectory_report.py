"""The trajectory lane's figures as Markdown."""

from __future__ import annotations

from typing import Any


def markdown(results: dict[str, Any]) -> str:
    """Return one table for each size and number of producers."""
    rows = [row for found in results.values() for row in found if row is not None]
    return "\n\n".join(_table(row) for row in rows)


def _table(row: dict[str, Any]) -> str:
    producers = f"{row['producers']} producer{'s' if row['producers'] > 1 else ''}"
    lines = [
        f"### {row['tokens']} tokens ({row['bytes'] / 1000:.1f} kB), {producers}",
        "",
        "| way | records/s | MB/s | ÷ memcpy | lanekit is | wrong |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
        f"| memcpy in C | {row['memcpy_records_per_second']:,.0f} "
        f"| {row['memcpy_megabytes_per_second']:,.0f} | 1 | | |",
    ]
    if row["producers"] > 1:
        rate = row["memcpy_into_all_rings_spread"]["median"]
        lines.append(
            f"| memcpy in C, into all rings | {rate:,.0f} | {rate * row['bytes'] / 1e6:,.0f} "
            f"| {rate / row['memcpy_records_per_second']:.4f} | | |"
        )
    ours = row["transports"]["lanekit"]["records_per_second"]
    for name, found in row["transports"].items():
        rate = found["records_per_second"]
        times = f"{ours / rate:,.1f}×" if rate and name != "lanekit" else ""
        lines.append(
            f"| {name} | {rate:,.0f} | {found['megabytes_per_second']:,.0f} "
            f"| {found['of_memcpy']:.4f} | {times} | {_wrong(found)} |"
        )
    for name, failed in row["failed"].items():
        lines.append(f"| {name} | {failed} | | | | |")
    return "\n".join(lines)


def _wrong(found: dict[str, Any]) -> str:
    parts = [f"{found[key]:,} {key}" for key in ("lost", "repeated", "mixed") if found[key]]
    return ", ".join(parts) or "-"
