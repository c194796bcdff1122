"""The terminal viewer's numbers: what its lines tell, and that they keep to their place."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lanekit import FastLaneMetrics
from lanekit.viewer.terminal.hud import Reading, State, hud_lines, printable, status_line
from lanekit.viewer.terminal.sparkline import History, sparkline
from lanekit.viewer.terminal.stream import Depth
from lanekit.viewer.terminal.watched_run import read_metadata

READING = Reading(
    "some-run",
    State.LIVE,
    metrics=FastLaneMetrics(last_reward=1.5, rolling_return=-12.25, step_rate_hz=98765.4),
    seq=1234,
    shown_per_second=29.97,
    age_ms=4.4,
    skipped=17,
    returns=(1.0, 2.0, 4.0),
    metadata={"generation": 3, "best_return": 500.0},
)


def plain(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def test_the_hud_tells_every_number() -> None:
    text = plain("\n".join(hud_lines(READING, 120, Depth.TRUE_COLOUR)))
    for words in (
        "run some-run",
        "live",
        "reward 1.50",
        "return -12.2",
        "step/s 98,765",
        "frame 1,234",
        "fps 30.0",
        "age 4 ms",
        "skipped 17",
        "▁▃█",
        "generation 3",
        "best return 500",
    ):
        assert words in text


def test_before_the_first_frame_there_is_nothing_to_tell_of_frames() -> None:
    reading = Reading("some-run", State.LIVE, metrics=READING.metrics)
    lines = [plain(line) for line in hud_lines(reading, 120, Depth.TRUE_COLOUR)]
    assert len(lines) == 2
    assert "reward 1.50" in lines[1]
    assert status_line(reading).endswith("live | reward 1.50, step/s 98,765, return -12.2")


@pytest.mark.parametrize(("age_ms", "words"), [(4.4, "age 4 ms"), (3_600_000.0, "age 3,600 s")])
def test_the_age_of_a_frame_stays_readable(age_ms: float, words: str) -> None:
    assert words in status_line(replace(READING, age_ms=age_ms))


@pytest.mark.parametrize("columns", [1, 10, 33, 80, 200])
@pytest.mark.parametrize("state", list(State))
def test_no_hud_line_is_wider_than_the_terminal(columns: int, state: State) -> None:
    reading = Reading("x" * 300, state, metrics=READING.metrics, metadata={"k" * 60: "v" * 60})
    for line in hud_lines(reading, columns, Depth.TRUE_COLOUR):
        assert len(plain(line)) <= columns


def test_a_number_that_grows_does_not_move_the_ones_after_it() -> None:
    grown = Reading("some-run", State.LIVE, metrics=READING.metrics, seq=123_456)
    lines = (hud_lines(reading, 80, Depth.MONO)[2] for reading in (READING, grown))
    first, second = (plain(line).index("skipped") for line in lines)
    assert first == second


def test_a_run_can_not_command_the_terminal_through_its_name_or_metadata() -> None:
    evil = "\x1b]0;owned\x07\r\n\x9b2J"
    reading = Reading(evil, State.LIVE, metrics=READING.metrics, metadata={evil: evil})
    shown = plain("".join(hud_lines(reading, 200, Depth.MONO))) + status_line(reading)
    assert not set(shown) & set("\x1b\x07\r\n\x9b")
    assert printable("näïve ✓") == "näïve ✓"


def test_metadata_that_is_no_json_object_is_the_runs_own_business() -> None:
    assert read_metadata(None) == {}
    assert read_metadata(b"") == {}
    assert read_metadata(b"\xff\x00binary") == {}
    assert read_metadata(b"[1, 2]") == {}
    assert read_metadata(b"[" * 100_000) == {}
    assert read_metadata(b'{"a": 1}') == {"a": 1}


def test_a_sparkline_spans_from_its_lowest_to_its_highest_value() -> None:
    assert sparkline([0.0, 50.0, 100.0]) == "▁▅█"
    assert sparkline([3.0, 3.0]) == "▁▁"
    assert sparkline([]) == ""


def test_a_history_always_covers_the_whole_run() -> None:
    history = History(limit=8, interval=1.0)
    for second in range(100):
        history.add(float(second), float(second))
    assert len(history.points) <= 8
    assert history.points == sorted(history.points)
    assert history.points[0] < 20
    assert history.points[-1] > 80


def test_a_history_takes_no_value_that_is_not_a_number() -> None:
    history = History(limit=8, interval=1.0)
    history.add(float("nan"), 0.0)
    history.add(float("inf"), 1.0)
    history.add(2.0, 2.0)
    assert history.points == [2.0]
