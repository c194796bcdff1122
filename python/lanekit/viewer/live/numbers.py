"""Numbers as axes and read-outs show them."""

from __future__ import annotations

import math


def number_text(value: float | None) -> str:
    """Return a number with as many digits as people read; a dash for none."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    size = abs(value)
    if size >= 1e15 or size < 1e-4:
        return f"{value:.3g}"
    decimals = max(0, 3 - math.floor(math.log10(size)))
    return f"{value:,.{min(decimals, 7)}f}".rstrip("0").rstrip(".") if decimals else f"{value:,.0f}"


def ticks(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """Return round numbers between two: at most so many gaps, of 1, 2 or 5 times a power of 10."""
    span = high - low
    if not span > 0 or not math.isfinite(span) or most < 1:
        return []
    least = span / most * (1 - 1e-9)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)
    if whole:
        step = max(1.0, step)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def tick_texts(values: list[float]) -> list[str]:
    """Return ticks as texts with the same number of decimals, large ones in k, M or G."""
    if not values:
        return []
    step = values[1] - values[0] if len(values) > 1 else abs(values[0]) or 1.0
    largest = max(abs(value) for value in values)
    unit, sign = next(
        ((u, s) for u, s in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if largest >= 10 * u), (1.0, "")
    )
    if largest / unit >= 1e6 or step < 1e-6:
        return [f"{value:.3g}" for value in values]
    decimals = max(0, -math.floor(math.log10(step / unit) + 1e-9))
    # Adding zero makes -0.0 a zero without a sign.
    return [f"{round(value / unit, decimals) + 0.0:,.{decimals}f}{sign}" for value in values]


def padded(low: float, high: float) -> tuple[float, float]:
    """Return an axis' ends with some air around the numbers; for none, 0 to 1."""
    if math.isnan(low) or math.isnan(high):
        return 0.0, 1.0
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        air = max(0.5, abs(high) * 0.05)
    else:
        air = (high - low) * 0.06
    return low - air, high + air
