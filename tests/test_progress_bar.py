"""How far a training is, in one line: as wide as the terminal, and never wider."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from lanekit.cli import progress_bar
from lanekit.cli.columns import Paint, width_of
from lanekit.cli.progress_bar import ProgressBar, Reading, bar_line, plain_line

HALF = Reading(
    state="running",
    step=45_000,
    total=100_000,
    rate=1234.0,
    last_return=123.0,
    mean_return=98.2,
    elapsed=64,
)
NO_COLOURS = Paint(io.StringIO())


class FakeTerminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_wide_terminal_shows_everything() -> None:
    line = bar_line(HALF, 200, NO_COLOURS)
    assert line == (
        f"running {'█' * 18}{'░' * 22}  45%  45,000/100,000  1,234/s  return 123  mean 98.20  "
        "1:04  0:45 left"
    )


@pytest.mark.parametrize("width", [0, 1, 10, 20, 30, 40, 60, 79, 80, 100, 120, 300])
def test_a_line_is_never_wider_than_the_terminal_unless_that_is_tiny(width: int) -> None:
    line = bar_line(HALF, width, NO_COLOURS)
    smallest = len("running  45%") + 1
    assert width_of(line) <= max(width, smallest)
    assert " 45%" in line


def test_what_matters_least_gives_way_first() -> None:
    words = ["1:04", "return 123", "mean", "1,234/s", "45,000/100,000", "0:45 left"]
    widths = range(120, 20, -1)
    left_at = {w: max(n for n in widths if w not in bar_line(HALF, n, NO_COLOURS)) for w in words}
    assert sorted(words, key=lambda word: -left_at[word]) == words


def test_colours_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    line = bar_line(HALF, 100, Paint(FakeTerminal()))
    assert line.startswith("\x1b[32mrunning\x1b[0m ")
    assert width_of(line) == width_of(bar_line(HALF, 100, NO_COLOURS))


def test_the_bar_is_full_only_when_all_is_done() -> None:
    assert "░" in bar_line(replace(HALF, step=99_999), 120, NO_COLOURS)
    assert " 99%" in bar_line(replace(HALF, step=99_999), 120, NO_COLOURS)
    for step in (100_000, 100_352):  # a training may end with a whole batch of steps
        line = bar_line(replace(HALF, step=step), 120, NO_COLOURS)
        assert "░" not in line
        assert "100%" in line
        assert "0:00 left" in line


def test_without_a_total_there_is_no_bar_and_no_end_in_sight() -> None:
    line = bar_line(replace(HALF, total=None), 120, NO_COLOURS)
    assert line == "running  45,000  1,234/s  return 123  mean 98.20  1:04"


def test_what_is_not_known_is_left_out() -> None:
    line = bar_line(Reading(total=10), 60, NO_COLOURS, "#.")
    assert line.startswith("submitted ....")
    assert line.endswith("   0%  0/10  0:00")
    assert plain_line(Reading()) == "submitted  0 steps  0:00 elapsed"


def test_a_fast_rate_has_no_fraction_and_a_slow_one_has() -> None:
    assert "  117/s  " in bar_line(replace(HALF, rate=117.1), 120, NO_COLOURS)
    assert "  0.25/s  " in bar_line(replace(HALF, rate=0.25), 120, NO_COLOURS)


def test_a_plain_line_says_its_units() -> None:
    assert plain_line(HALF) == (
        "running  45%  45,000/100,000 steps  1,234 steps/s  return 123  mean 98.20  "
        "1:04 elapsed  0:45 left"
    )


def test_a_file_gets_a_line_for_each_state_and_one_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: now)
    out, notes = io.StringIO(), io.StringIO()
    bar = ProgressBar(out, notes)
    for seconds in range(25):
        now = 100.0 + seconds
        bar.show(replace(HALF, step=seconds))
    bar.show(replace(HALF, state="paused"))
    bar.say("a word")
    bar.leave()
    assert [line.split()[:3:2] for line in out.getvalue().splitlines()] == [
        ["running", "0/100,000"],
        ["running", "10/100,000"],
        ["running", "20/100,000"],
        ["paused", "45,000/100,000"],
    ]
    assert notes.getvalue() == "a word\n"


def test_on_a_terminal_other_words_do_not_tear_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    screen = FakeTerminal()
    bar = ProgressBar(screen, screen)
    bar.say("before")
    bar.show(HALF)
    bar.say("between")
    bar.show(HALF)
    bar.leave()
    line = bar_line(HALF, 79, NO_COLOURS)  # of 80 columns, where nobody can tell
    assert screen.getvalue() == (f"before\n\r{line}\x1b[K\r\x1b[Kbetween\n\r{line}\x1b[K\n")
