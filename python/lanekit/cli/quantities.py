"""Numbers and times as people read them."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime


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
