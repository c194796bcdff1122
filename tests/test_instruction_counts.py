"""The C hot paths do not grow unnoticed: instructions repeat where times do not."""

from __future__ import annotations

import pytest
from bench.instructions.counting import PATHS, compiler, count_all, grown, load

pytestmark = [pytest.mark.core, pytest.mark.once]


def test_no_hot_path_has_grown_since_it_was_recorded() -> None:
    recorded = load()
    if recorded.compiler != compiler():
        pytest.skip(f"recorded with {recorded.compiler}, this is {compiler()}")
    assert grown(recorded.counts, count_all()) == []


def test_growth_beyond_the_tolerance_is_reported_by_name() -> None:
    recorded = dict.fromkeys(PATHS, 100.0)
    found = {**recorded, "step": 102.1, "read": 101.9, "publish": 50.0}
    (line,) = grown(recorded, found)
    assert line.startswith("step: 102.1 instructions instead of 100.0, +2.1%")
