"""The window over a long time, in short: ``endurance.py`` has the whole day."""

from __future__ import annotations

from pathlib import Path

import pytest
from endurance import CROWDED, GEOMETRIES, RATE, Sizes, Window, growth, least, live
from pytestqt.qtbot import QtBot


@pytest.mark.once
def test_nothing_grows_however_much_happens(
    qtbot: QtBot, qapp: object, run_id: str, tmp_path: Path
) -> None:
    window = Window(qapp, tmp_path, run_id)  # type: ignore[arg-type]
    minutes = 9 * CROWDED.counted
    counted = [sizes for _, sizes in live(window, minutes, CROWDED)]
    window.close()
    assert window.ticks > minutes * 60 * RATE
    assert window.frames > 0.99 * minutes * 60 * RATE
    assert window.paints > 0.99 * minutes * 60 * RATE
    # What is made once is made by then: each size and format was seen, and a film of each kind.
    warm = max(len(GEOMETRIES), 2 * CROWDED.film) // CROWDED.counted
    assert growth(least(counted[warm : warm + 3]), least(counted[-3:])) == {}


def test_growth_is_told_by_name() -> None:
    first = Sizes(100 << 20, 50 << 20, 20, 5, 700, 90_000)
    last = Sizes(105 << 20, 51 << 20, 21, 5, 700, 90_000)
    assert growth(first, last) == {"resident": 5 << 20, "descriptors": 1}
    assert growth(first, first) == {}
    assert growth(least([first, last]), first) == {}
