"""When a step may be made."""

from __future__ import annotations

import pytest

from lanekit.engine.pace import Mode, Pace


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_real_time_lets_one_step_through_for_each_of_its_durations(clock: Clock) -> None:
    pace = Pace(0.5, Mode.REALTIME, clock)
    assert pace.may_step
    pace.stepped()
    assert not pace.may_step
    assert pace.seconds_until_due == 0.5
    clock.now = 0.5
    assert pace.may_step


def test_a_machine_that_was_too_slow_does_not_catch_up_for_ever(clock: Clock) -> None:
    pace = Pace(0.5, Mode.REALTIME, clock)
    clock.now = 100.0
    made = 0
    while pace.may_step:
        pace.stepped()
        made += 1
        assert made < 10
    assert made >= 1


def test_a_pause_counts_the_steps_that_it_lets_through(clock: Clock) -> None:
    pace = Pace(0.5, Mode.PAUSED, clock)
    assert not pace.may_step
    assert not pace.by_itself
    pace.set(Mode.PAUSED, 2)
    assert pace.may_step
    assert pace.by_itself
    pace.stepped()
    pace.stepped()
    assert not pace.may_step


def test_the_realtime_factor_is_simulated_over_real_seconds(clock: Clock) -> None:
    pace = Pace(0.5, Mode.FAST, clock)
    for _ in range(8):
        pace.stepped()
    clock.now = 2.0
    assert pace.realtime_factor == pytest.approx(2.0)
    clock.now = 4.0
    assert pace.realtime_factor == 0.0
