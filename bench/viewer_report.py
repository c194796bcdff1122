"""The viewer's figures as Markdown."""

from __future__ import annotations

from typing import Any

_NAMES = {"tab": "lanekit's tab", "label": "naive label"}
_ON_SCREEN = {**_NAMES, "rerun": "Rerun's viewer"}
INTERVAL_MS = 1000 / 60


def markdown(results: dict[str, Any]) -> str:
    """Return the tables of what was measured."""
    parts = {
        "tick": _tick,
        "watching": _watching,
        "screen": _screen,
        "tabs": _tabs,
        "live": _live,
    }
    return "\n\n".join(parts[name](found) for name, found in results.items())


def _tick(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| consumer's tick | new frame p50 / p99 | of 16.7 ms | nothing new p50 / p99 |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        new, nothing = row["new"], row["nothing"]
        share = new["p50_us"] / (INTERVAL_MS * 1000)
        lines.append(
            f"| {row['width']}x{row['height']} | {new['p50_us']:.0f} / {new['p99_us']:.0f} µs "
            f"| {share:.1%} | {nothing['p50_us']:.1f} / {nothing['p99_us']:.1f} µs |"
        )
    return "\n".join(lines)


def _watching(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| 60 Hz into a 960x540 window | CPU of one core | frames/s painted | CPU per frame "
        "| age p50 / p99 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        for kind, name in _NAMES.items():
            found = row[kind]
            lines.append(
                f"| {row['width']}x{row['height']}, {name} | {found['cpu_share']:.1%} "
                f"| {found['frames_per_second']:.1f} "
                f"| {1000 * found['cpu_share'] / found['frames_per_second']:.2f} ms "
                f"| {found['age_p50_ms']:.1f} / {found['age_p99_ms']:.1f} ms |"
            )
    return "\n".join(lines)


def _screen(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| 60 Hz, on a virtual screen | viewer's CPU of one core | sender's | frames/s seen "
        "| age when seen p50 / p99 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        for kind, name in _ON_SCREEN.items():
            found, what = row[kind], f"{row['width']}x{row['height']}, {name}"
            if "failed" in found:
                lines.append(f"| {what} | {found['failed']} | | | |")
                continue
            lines.append(
                f"| {what} | {found['cpu_share']:.1%} | {found['sender_cpu_share']:.1%} "
                f"| {found['frames_per_second']:.1f} "
                f"| {found['age_p50_ms']:.1f} / {found['age_p99_ms']:.1f} ms |"
            )
    return "\n".join(lines)


def _tabs(found: dict[str, Any]) -> str:
    return (
        f"{found['tabs']} tabs of {found['width']}x{found['height']} at 60 Hz in one process: "
        f"event loop p50 {found['loop_p50_ms']:.1f} ms, p99 {found['loop_p99_ms']:.1f} ms, "
        f"of which it computed {found['loop_cpu_p99_ms']:.1f} ms at p99; "
        f"CPU {found['cpu_share']:.0%} of one core, {found['frames_per_second']:.1f} frames/s "
        f"painted per tab, age p50 {found['age_p50_ms']:.1f} ms, p99 {found['age_p99_ms']:.1f} ms"
    )


def _live(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| steps/s sent | steps/s followed | episodes/s followed | steps/s shown | pictures/s "
        "| CPU of one core | event loop p50 / p99 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        lines.append(
            f"| {row['offered']:,} | {row['steps_per_second']:,.0f} "
            f"| {row['episodes_per_second']:,.0f} | {row['shown_per_second']:,.0f} "
            f"| {row['drawn_per_second']:.1f} | {row['cpu_share']:.0%} "
            f"| {row['loop_p50_ms']:.1f} / {row['loop_p99_ms']:.1f} ms |"
        )
    return "\n".join(lines)
