"""Painting at a steady pace."""

from __future__ import annotations

from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from lanekit.viewer.live.rendering_speed_regulator import (
    RENDER_BOOTSTRAP_TIMEOUT_MS,
    RENDER_QUEUE_SIZE,
    RenderingSpeedRegulator,
)


@pytest.fixture
def handed_out() -> list[Any]:
    """What the regulator has handed out."""
    return []


@pytest.fixture
def regulator(qtbot: QtBot, handed_out: list[Any]) -> RenderingSpeedRegulator:
    """One with a quick pace."""
    regulator = RenderingSpeedRegulator(render_delay_ms=20)
    regulator.payload_ready.connect(handed_out.append)
    return regulator


def test_what_came_early_is_kept_and_the_freshest_is_shown_at_the_start(
    regulator: RenderingSpeedRegulator, handed_out: list[Any]
) -> None:
    for number in range(3):
        regulator.submit_payload(number)
    assert (handed_out, regulator.waiting, regulator.dropped) == ([], 3, 0)
    regulator.start()
    assert (handed_out, regulator.waiting, regulator.dropped) == ([2], 0, 2)


def test_the_oldest_gives_way_when_the_queue_is_full(
    regulator: RenderingSpeedRegulator, handed_out: list[Any]
) -> None:
    for number in range(100):
        regulator.submit_payload(number)
    assert regulator.waiting == RENDER_QUEUE_SIZE
    assert regulator.dropped == 100 - RENDER_QUEUE_SIZE
    regulator.start()
    assert handed_out == [99]
    assert regulator.dropped == 99


def test_it_starts_itself_when_nobody_does(
    qtbot: QtBot, regulator: RenderingSpeedRegulator, handed_out: list[Any]
) -> None:
    regulator.submit_payload("early")
    assert not regulator.running
    qtbot.waitUntil(lambda: handed_out == ["early"])
    assert regulator.running


def test_without_a_payload_it_does_not_start_itself(
    qtbot: QtBot, regulator: RenderingSpeedRegulator
) -> None:
    qtbot.wait(RENDER_BOOTSTRAP_TIMEOUT_MS + 100)
    assert not regulator.running


def test_once_stopped_it_stays_so_until_it_is_started(
    qtbot: QtBot, regulator: RenderingSpeedRegulator, handed_out: list[Any]
) -> None:
    regulator.start()
    regulator.stop()
    regulator.submit_payload("late")
    qtbot.wait(RENDER_BOOTSTRAP_TIMEOUT_MS + 100)
    assert (handed_out, regulator.waiting) == ([], 1)
    regulator.start()
    assert handed_out == ["late"]


def test_every_payload_is_either_shown_or_counted(
    qtbot: QtBot, regulator: RenderingSpeedRegulator, handed_out: list[Any]
) -> None:
    regulator.start()
    for number in range(200):
        regulator.submit_payload(number)
        if number % 20 == 0:
            qtbot.wait(5)
    qtbot.waitUntil(lambda: regulator.waiting == 0)
    assert len(handed_out) + regulator.dropped == 200
    assert handed_out == sorted(handed_out)
    assert handed_out[-1] == 199


def test_a_payload_that_makes_another_does_not_go_round_in_circles(
    qtbot: QtBot, regulator: RenderingSpeedRegulator, handed_out: list[Any]
) -> None:
    regulator.payload_ready.connect(lambda number: regulator.submit_payload(number + 1))
    regulator.submit_payload(0)
    regulator.start()
    assert handed_out == [0]
    qtbot.waitUntil(lambda: len(handed_out) >= 3)
    assert handed_out[:3] == [0, 1, 2]


def test_a_pace_of_no_time_is_refused(regulator: RenderingSpeedRegulator) -> None:
    with pytest.raises(ValueError, match="render_delay_ms"):
        RenderingSpeedRegulator(render_delay_ms=0)
    with pytest.raises(ValueError, match="render_delay_ms"):
        regulator.set_delay(-1)
