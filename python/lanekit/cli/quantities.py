"""Numbers and times as people read them, and what other programs read."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, datetime
from typing import Any

_DEEPEST = 64


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units: ``1h 04m``, ``12.5s``, ``340ms``."""
    if not math.isfinite(seconds) or seconds < 0:
        return "?"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for size, unit, smaller_size, smaller_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // smaller_size:02d}{smaller_unit}"
    return f"{whole}s"


def clock(seconds: float) -> str:
    """Return a moment of a recording: ``1:04``, ``2:03:04``."""
    whole = int(max(0.0, seconds))
    minutes = f"{whole // 60 % 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{minutes.rjust(5, '0')}" if whole >= 3600 else minutes


def ago(wall_time_ns: int) -> str:
    """Return how long ago something was, or the date when that is long."""
    if not wall_time_ns:
        return "-"
    seconds = time.time() - wall_time_ns / 1e9
    if seconds < -1:
        return moment(wall_time_ns)
    if seconds < 1:
        return "now"
    if seconds >= 30 * 86400:
        return moment(wall_time_ns)
    units = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    size, unit = next(pair for pair in units if seconds >= pair[0])
    return f"{seconds / size:.0f}{unit} ago"


def moment(wall_time_ns: int) -> str:
    """Return a wall-clock time in the local time zone; `?` for one that no calendar has."""
    try:
        when = datetime.fromtimestamp(wall_time_ns / 1e9, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return "?"
    return when.strftime("%Y-%m-%d %H:%M:%S")


def number(value: float) -> str:
    """Return a measured number with as many digits as matter."""
    if not math.isfinite(value):
        return "-"
    if value == 0 or 0.01 <= abs(value) < 1e6:
        return f"{value:,.2f}".removesuffix(".00") if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:.3g}"


def json_document(value: Any, indent: int | None = 2) -> str:
    """Return the value as JSON, whatever a worker put into it; on one line if not indented.

    Infinite numbers, for which JSON has no word, become null; what is nested very deeply is cut.
    """
    try:
        return json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=indent is not None)
    except (ValueError, RecursionError):
        return json_document(_sound(value, _DEEPEST), indent)


def _sound(value: Any, depth: int) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _sound(item, depth - 1) for key, item in value.items()} if depth else "..."
    if isinstance(value, list):
        return [_sound(item, depth - 1) for item in value] if depth else "..."
    return value
