"""The terminal viewer at work: on a real terminal, in a pipe, with writers that come and go."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneWriter
from lanekit.viewer.terminal.watching import face_for, follow, watch
from patience import patience
from pseudo_terminal import Terminal


def view(run_id: str, *options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "lanekit", "view", run_id, "--terminal", *options)


@pytest.fixture
def writer(run_id: str) -> Iterator[FastLaneWriter]:
    with FastLaneWriter.create(run_id, FastLaneConfig(32, 16, metadata_size=256)) as writer:
        yield writer


def solid(colour: tuple[int, int, int]) -> NDArray[np.uint8]:
    return np.full((16, 32, 3), colour, np.uint8)


# --- on a real terminal ---------------------------------------------------------------------------


def test_a_frame_appears_in_its_own_colours(writer: FastLaneWriter, run_id: str) -> None:
    notes = json.dumps({"level": 7}).encode()
    with Terminal(*view(run_id)) as terminal:
        terminal.read_until(lambda: writer.watched, "the viewer at the writer")
        writer.publish(solid((10, 200, 30)), metrics=FastLaneMetrics(1.0, 2.0, 3.0), metadata=notes)
        terminal.read_until_text("level 7")
        assert set(terminal.screen.picture) == {("▀", "2;10;200;30", "2;10;200;30")}
        assert len(terminal.screen.picture) == 80 * 20
        for words in (f"run {run_id}", "live", "reward 1.00", "return 2.0", "step/s 3"):
            assert words in terminal.screen.text
        terminal.press("q")
        assert terminal.finish() == ""
        assert terminal.process.returncode == 0
        terminal.assert_restored()


def test_a_newer_frame_takes_the_place_of_the_older(writer: FastLaneWriter, run_id: str) -> None:
    with Terminal(*view(run_id)) as terminal:
        for shade in (40, 80, 120):
            writer.publish(solid((shade, 0, 0)))
            colour = f"2;{shade};0;0"
            expected = {("▀", colour, colour)}
            terminal.read_until_picture(expected)


def test_256_colours_are_used_where_24_bit_colour_is_not_promised(
    writer: FastLaneWriter, run_id: str
) -> None:
    writer.publish(solid((255, 0, 0)))
    with Terminal(*view(run_id), COLORTERM="") as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        assert set(terminal.screen.picture) == {("▀", "5;196", "5;196")}


def test_no_color_is_respected(writer: FastLaneWriter, run_id: str) -> None:
    writer.publish(solid((255, 255, 255)))
    with Terminal(*view(run_id), NO_COLOR="1") as terminal:
        terminal.read_until_text("@" * 80)
        terminal.press("q")
        terminal.finish()
        assert not re.search(rb"\x1b\[[0-9;]*[34][0-9][0-9;]*m", terminal.output)


def test_the_viewer_waits_for_the_run_to_begin(run_id: str) -> None:
    with Terminal(*view(run_id)) as terminal:
        terminal.read_until_text(f"waiting for run {run_id}")
        with FastLaneWriter.create(run_id, FastLaneConfig(32, 16)) as writer:
            writer.publish(solid((1, 2, 3)))
            terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
            assert "waiting" not in terminal.screen.text


def test_a_run_without_frames_shows_its_numbers(writer: FastLaneWriter, run_id: str) -> None:
    with Terminal(*view(run_id)) as terminal:
        for reward in (1.0, 2.0):
            writer.update_metrics(FastLaneMetrics(reward, 20.0, 300.0))
            terminal.read_until_text(f"reward {reward:.2f}")
        for words in (f"run {run_id}", "live", "return 20.0", "step/s 300"):
            assert words in terminal.screen.text
        assert "age" not in terminal.screen.text


def test_a_writer_that_left_is_missed_and_its_successor_shown(run_id: str) -> None:
    with Terminal(*view(run_id)) as terminal:
        with FastLaneWriter.create(run_id, FastLaneConfig(32, 16)) as writer:
            writer.publish(solid((90, 60, 30)))
            terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        terminal.read_until_text("the writer has left")
        assert set(terminal.screen.picture) == {("▀", "2;30;20;10", "2;30;20;10")}
        config = FastLaneConfig(16, 32, channels=4, pixel_format="BGRX")
        with FastLaneWriter.create(run_id, config) as writer:
            writer.publish(np.broadcast_to(np.array((3, 2, 1, 0), np.uint8), (32, 16, 4)).copy())
            terminal.read_until_text("live")
            terminal.read_until_picture({("▀", "2;1;2;3", "2;1;2;3")})
            assert len(terminal.screen.picture) == 20 * 20


def test_the_picture_follows_the_size_of_the_terminal(writer: FastLaneWriter, run_id: str) -> None:
    writer.publish(solid((9, 9, 9)))
    with Terminal(*view(run_id)) as terminal:
        terminal.read_until(lambda: len(terminal.screen.picture) == 80 * 20, "80 columns")
        terminal.resize(80, 40)  # as large as before, in the middle, the numbers right below it
        edge = " " * 8 + "▀" * 20 + "●"
        terminal.read_until(lambda: terminal.screen.column(0).startswith(edge), "the same picture")
        terminal.resize(40, 30)
        terminal.read_until(lambda: len(terminal.screen.picture) == 40 * 10, "40 columns")
        terminal.resize(120, 40)
        terminal.read_until(lambda: len(terminal.screen.picture) == 120 * 30, "120 columns")
        terminal.resize(3, 2)  # no room for anything, and no reason to die
        terminal.press("q")
        assert terminal.finish() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_viewer_and_restores_the_terminal(
    writer: FastLaneWriter, run_id: str, number: signal.Signals
) -> None:
    writer.publish(solid((9, 9, 9)))
    with Terminal(*view(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        terminal.process.send_signal(number)
        assert terminal.finish() == ""
        assert terminal.process.returncode == 0
        terminal.assert_restored()


def test_ctrl_c_ends_the_viewer_and_restores_the_terminal(
    writer: FastLaneWriter, run_id: str
) -> None:
    writer.publish(solid((9, 9, 9)))
    with Terminal(*view(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        terminal.press("\x03")
        assert terminal.finish() == ""
        assert terminal.process.returncode == 0
        terminal.assert_restored()


@pytest.mark.parametrize("key", ["\x03", "q"])
def test_whoever_no_longer_waits_for_a_run_has_met_no_error(run_id: str, key: str) -> None:
    with Terminal(*view(run_id)) as terminal:
        terminal.read_until_text(f"waiting for run {run_id}")
        terminal.press(key)
        assert terminal.finish() == ""
        assert terminal.process.returncode == 0
        terminal.assert_restored()


def test_ctrl_z_gives_the_terminal_back_until_the_viewer_goes_on(
    writer: FastLaneWriter, run_id: str
) -> None:
    writer.publish(solid((9, 9, 9)))
    with Terminal(*view(run_id)) as terminal:
        terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
        os.kill(terminal.process.pid, signal.SIGTSTP)
        stat = Path(f"/proc/{terminal.process.pid}/stat")
        terminal.read_until(lambda: stat.read_text().split()[2] == "T", "a stopped viewer")
        while terminal.read(0.1):
            pass
        terminal.assert_restored()
        terminal.screen.clear()
        terminal.process.send_signal(signal.SIGCONT)
        terminal.read_until(lambda: len(terminal.screen.picture) == 80 * 20, "the whole picture")
        assert terminal.screen.modes["1049"] is True


def test_an_error_in_the_middle_of_a_frame_restores_the_terminal(
    writer: FastLaneWriter, run_id: str
) -> None:
    writer.publish(solid((9, 9, 9)))
    script = (
        "from lanekit.viewer.terminal import screen, watching\n"
        "def broken(*_): raise RuntimeError('no picture today')\n"
        "screen.to_cells = broken\n"
        f"watching.watch({run_id!r})\n"
    )
    with Terminal(sys.executable, "-c", script) as terminal:
        assert "no picture today" in terminal.finish()
        assert terminal.process.returncode == 1
        terminal.assert_restored()


# --- where there is no screen ---------------------------------------------------------------------


def test_a_dumb_terminal_gets_plain_lines_and_no_escape_codes(
    writer: FastLaneWriter, run_id: str
) -> None:
    writer.publish(solid((9, 9, 9)), metrics=FastLaneMetrics(1.0, 2.0, 3.0))
    line = f"run {run_id}: live | reward 1.00, step/s 3, return 2.0".encode()
    with Terminal(*view(run_id), TERM="dumb") as terminal:
        terminal.read_until(lambda: line in terminal.output, "a line of numbers")
        terminal.press("\x03")
        assert terminal.finish() == ""
        assert terminal.process.returncode == 0
        assert b"\x1b" not in terminal.output
        assert terminal.attributes == terminal.attributes_before


def test_a_pipe_gets_a_line_when_something_changes(run_id: str) -> None:
    with subprocess.Popen(view(run_id), stdout=subprocess.PIPE, text=True) as viewer:
        try:
            assert viewer.stdout is not None
            assert viewer.stdout.readline() == f"waiting for run {run_id}\n"
            with FastLaneWriter.create(run_id, FastLaneConfig(32, 16)) as writer:
                writer.publish(solid((9, 9, 9)))
                assert "live | reward" in _line_with(viewer.stdout, "live")
            assert "frame" in _line_with(viewer.stdout, "the writer has left")
            viewer.send_signal(signal.SIGINT)
            assert viewer.wait(patience()) == 0
        finally:
            viewer.kill()


def _line_with(lines: Iterator[str], text: str) -> str:
    return next(line for line in lines if text in line)


def test_a_pipe_whose_reader_has_seen_enough_ends_the_viewer_quietly(
    writer: FastLaneWriter, run_id: str
) -> None:
    writer.publish(solid((9, 9, 9)))
    viewer = subprocess.Popen(view(run_id), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert viewer.stdout is not None
        assert viewer.stdout.readline()
        viewer.stdout.close()
        viewer.wait(patience())
        assert viewer.stderr is not None
        assert viewer.stderr.read() == b""
        assert viewer.returncode == 0
    finally:
        viewer.kill()
        viewer.wait()
        if viewer.stderr is not None:
            viewer.stderr.close()


def test_a_run_that_never_appears_is_an_exit_status(run_id: str) -> None:
    out = io.StringIO()
    assert watch(run_id, out=out, wait_for_writer=0.3) == 1
    assert out.getvalue() == f"waiting for run {run_id}\n"


def test_watching_ends_when_the_caller_says_so(writer: FastLaneWriter, run_id: str) -> None:
    writer.publish(solid((9, 9, 9)), metadata=b'{"level": 3}')
    out = io.StringIO()
    outcome = follow(run_id, out=out, alive=lambda: "live" not in out.getvalue())
    assert outcome.appeared
    assert outcome.frames_shown == 1
    assert outcome.metadata == {"level": 3}


@pytest.mark.parametrize("fps", [0.0, -1.0, float("nan"), float("inf")])
def test_a_frame_rate_that_makes_no_sense_is_refused(run_id: str, fps: float) -> None:
    with pytest.raises(ValueError, match="fps"):
        watch(run_id, fps=fps, out=io.StringIO())


def test_handlers_for_signals_are_put_back(run_id: str) -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP)]
    watch(run_id, out=io.StringIO(), wait_for_writer=0.1)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP)] == before


def test_a_stream_that_is_no_terminal_gets_lines_whatever_the_environment_says() -> None:
    face = face_for(io.StringIO(), {"TERM": "xterm", "COLORTERM": "truecolor"})
    assert type(face).__name__ == "PlainLines"
