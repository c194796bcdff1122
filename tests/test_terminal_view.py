"""The terminal viewer: what it paints, and how it treats the terminal it is given."""

from __future__ import annotations

import codecs
import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest
from numpy.typing import NDArray

from lanekit import FastLaneConfig, FastLaneMetrics, FastLaneWriter
from lanekit.viewer.terminal import (
    Depth,
    History,
    Reading,
    State,
    colour_depth,
    encode,
    face_for,
    fit,
    follow,
    hud_lines,
    printable,
    read_metadata,
    resize,
    sparkline,
    status_line,
    to_cells,
    to_indexed,
    to_rgb,
    watch,
)

WATCHDOG = 60.0
"""Seconds after which something that did not happen counts as never happening."""

Cell = tuple[str, str, str]


class Screen:
    """Understands as much of a terminal's language as the viewer speaks, and no more."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self.modes: dict[str, bool] = {}
        self.clear()
        self._row = self._column = 0
        self._foreground = self._background = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def clear(self) -> None:
        self.cells: list[list[Cell]] = [[(" ", "", "")] * self.columns for _ in range(self.rows)]

    @property
    def text(self) -> str:
        return "\n".join("".join(cell[0] for cell in row) for row in self.cells)

    @property
    def picture(self) -> list[Cell]:
        return [cell for row in self.cells for cell in row if cell[0] == "▀"]

    def feed(self, data: bytes) -> None:
        text = self._rest + self._decode.decode(data)
        # Ctrl-C makes the kernel drop what was not read yet. A command cut short by that ends, on
        # any terminal, where the next one begins.
        token = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|[^\x1b]|\x1b(\[\??[0-9;]*)?(?=\x1b)")
        position = 0
        while match := token.match(text, position):
            position = match.end()
            if match[3]:
                self._command(match[1] + match[3], match[2])
            elif match[0][0] != "\x1b":
                self._put(match[0])
        self._rest = text[position:]
        assert len(self._rest) < 64, f"not a command of any terminal: {self._rest!r}"

    def _command(self, name: str, argument: str) -> None:
        if name == "H":
            self._row, self._column = (int(n) - 1 for n in argument.split(";"))
        elif name == "K":
            self.cells[self._row][self._column :] = [(" ", "", "")] * (self.columns - self._column)
        elif name == "J":
            self.clear()
        elif name in ("?h", "?l"):
            self.modes[argument] = name == "?h"
        elif name == "m":
            if argument.startswith("38;"):
                self._foreground = argument[3:]
            elif argument.startswith("48;"):
                self._background = argument[3:]
            elif argument == "0":
                self._foreground = self._background = ""
        else:
            raise AssertionError(f"unexpected command {name}")

    def _put(self, character: str) -> None:
        if character in "\r\n":
            self._row, self._column = min(self._row + 1, self.rows - 1), 0
        elif self._column < self.columns and self._row < self.rows:
            self.cells[self._row][self._column] = (character, self._foreground, self._background)
            self._column += 1


class Terminal:
    """A command on a pseudo-terminal of its own, as a user would have started it."""

    def __init__(
        self, *command: str, columns: int = 80, rows: int = 24, **environment: str
    ) -> None:
        self.screen = Screen(columns, rows)
        self.output = b""
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._ours, self._theirs = pty.openpty()
        self.resize(columns, rows)
        self.attributes_before = termios.tcgetattr(self._theirs)
        settings = {"TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
        inherited = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLORTERM")}
        # The shell leads a new session: the first terminal that it opens becomes the one whose
        # Ctrl-C reaches the command.
        self.process = subprocess.Popen(
            [
                "sh",
                "-c",
                'tty=$1; shift; exec "$@" <"$tty" >"$tty"',
                "sh",
                os.ttyname(self._theirs),
                *command,
            ],
            env={**inherited, **settings, "PYTHONUTF8": "1"},
            stderr=self._complaints,
            start_new_session=True,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._complaints.close()
        os.close(self._ours)
        os.close(self._theirs)

    @property
    def attributes(self) -> list[object]:
        return list(termios.tcgetattr(self._theirs))

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.columns, self.screen.rows = columns, rows
        self.screen.clear()

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        data = os.read(self._ours, 65536)
        self.output += data
        self.screen.feed(data)
        return True

    def read_until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + WATCHDOG
        while not condition():
            over = self.process.poll() is not None
            if (not self.read(0.05) and over and not condition()) or time.monotonic() > end:
                pytest.fail(f"never saw {what}:\n{self.screen.text}\n{self.complaints()}")

    def read_until_text(self, text: str) -> None:
        self.read_until(lambda: text in self.screen.text, repr(text))

    def read_until_picture(self, cells: set[Cell]) -> None:
        self.read_until(lambda: set(self.screen.picture) == cells, str(cells))

    def read_until_picture_differs(self, picture: list[Cell]) -> None:
        self.read_until(lambda: self.screen.picture != picture, "another picture")

    def finish(self) -> str:
        """Read to the end and return what the command complained about."""
        self.read_until(lambda: self.process.poll() is not None, "the end of the command")
        while self.read(0):
            pass
        return self.complaints()

    def complaints(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read()

    def assert_restored(self) -> None:
        assert self.attributes == self.attributes_before
        assert self.screen.modes["1049"] is False
        assert self.screen.modes["25"] is True
        assert self.screen.modes["7"] is True


def view(run_id: str, *options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "lanekit", "view", run_id, *options)


@pytest.fixture
def run_id() -> str:
    return f"view-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def writer(run_id: str) -> Iterator[FastLaneWriter]:
    with FastLaneWriter.create(run_id, FastLaneConfig(32, 16, metadata_size=256)) as writer:
        yield writer


def solid(colour: tuple[int, int, int]) -> NDArray[np.uint8]:
    return np.full((16, 32, 3), colour, np.uint8)


def noise(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


# --- the picture ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(240, 120), (84, 84), (64, 512), (1920, 1080)])
@pytest.mark.parametrize(("columns", "rows"), [(80, 20), (120, 36), (20, 50)])
def test_a_frame_fills_the_terminal_in_one_direction_and_keeps_its_shape(
    width: int, height: int, columns: int, rows: int
) -> None:
    wide, high = fit(width, height, columns, rows)
    assert wide <= columns
    assert high <= 2 * rows
    assert high % 2 == 0
    assert wide == columns or high == 2 * rows
    assert abs(wide * height - high * width) <= max(width, height) * 2


def test_even_a_hair_of_a_frame_gets_one_cell() -> None:
    assert fit(10_000, 1, 80, 20) == (80, 2)
    assert fit(1, 10_000, 80, 20) == (1, 40)


def test_shrinking_averages_the_area_of_each_pixel() -> None:
    image = np.zeros((2, 3, 3), np.uint8)
    image[:, 0], image[:, 2] = 90, 210
    assert resize(image, 2, 1)[0, :, 0].tolist() == [60, 140]


def test_shrinking_keeps_the_mean_brightness() -> None:
    image = noise(117, 251)
    assert resize(image, 80, 40).mean() == pytest.approx(image.mean(), abs=0.5)


def test_growing_repeats_pixels_and_invents_no_colours() -> None:
    image = noise(3, 5)
    grown = resize(image, 20, 12)
    assert np.array_equal(grown, image.repeat(4, axis=0).repeat(4, axis=1))


def test_a_frame_far_larger_than_the_terminal_is_shown_too() -> None:
    image = np.zeros((2160, 3840, 3), np.uint8)
    image[:, 1920:] = 200
    small = resize(image, 80, 40)
    assert small[:, :40].max() == 0
    assert small[:, 40:].min() == 200


def test_every_pixel_format_shows_the_same_colours() -> None:
    rgb = noise(4, 6)
    opaque = np.full((4, 6, 1), 255, np.uint8)
    rgba = np.concatenate((rgb, opaque), axis=2)
    bgrx = np.concatenate((rgb[:, :, ::-1], opaque), axis=2)
    for array, pixel_format in ((rgb, "RGB"), (rgba, "RGBA"), (bgrx, "BGRX")):
        assert np.array_equal(to_rgb(array, pixel_format), rgb)


def test_a_grey_frame_is_grey() -> None:
    grey = noise(4, 6)[:, :, :1]
    assert np.array_equal(to_rgb(grey, "GRAY"), grey.repeat(3, axis=2))
    assert np.array_equal(to_rgb(grey[:, :, 0], "GRAY"), grey.repeat(3, axis=2))


def test_256_colours_are_the_nearest_ones_there_are() -> None:
    levels = (0, 95, 135, 175, 215, 255)
    palette = np.array(
        [(r, g, b) for r in levels for g in levels for b in levels]
        + [(8 + 10 * n,) * 3 for n in range(24)]
    )
    pixels = noise(20, 20)
    chosen = palette[to_indexed(pixels)[:, :, 0].astype(int) - 16]
    error = ((chosen - pixels.astype(int)) ** 2).sum(axis=2)
    least = ((palette - pixels.astype(int)[:, :, None]) ** 2).sum(axis=3).min(axis=2)
    assert np.array_equal(error, least)


@pytest.mark.parametrize("depth", list(Depth))
def test_what_was_sent_is_what_the_terminal_shows(depth: Depth) -> None:
    screen = Screen(40, 20)
    previous = None
    rng = np.random.default_rng(1)
    pixels = noise(20, 30)
    for turn in range(10):
        changed = rng.random((20, 30)) < 0.2
        pixels = np.where(changed[:, :, None], noise(20, 30, seed=turn) & 0xC0, pixels)
        cells = to_cells(pixels, depth)
        screen.feed(encode(cells, previous, depth, top=3, left=5))
        previous = cells
        for row in range(10):
            for column in range(30):
                shown, upper, lower = screen.cells[row + 2][column + 4]
                numbers = cells[row, column].tolist()
                if depth is Depth.MONO:
                    assert (shown, upper, lower) == (chr(numbers[0]), "", "")
                    continue
                kind = "2" if depth is Depth.TRUE_COLOUR else "5"
                half = depth.value
                assert shown == "▀"
                assert upper == ";".join([kind, *map(str, numbers[:half])])
                assert lower == ";".join([kind, *map(str, numbers[half:])])


def test_an_unchanged_picture_sends_nothing() -> None:
    cells = to_cells(noise(20, 30), Depth.TRUE_COLOUR)
    assert encode(cells, cells.copy(), Depth.TRUE_COLOUR, top=1, left=1) == b""


def test_one_changed_pixel_sends_one_cell() -> None:
    before = noise(20, 30)
    after = before.copy()
    after[7, 11] ^= 255
    sent = encode(
        to_cells(after, Depth.TRUE_COLOUR),
        to_cells(before, Depth.TRUE_COLOUR),
        Depth.TRUE_COLOUR,
        top=1,
        left=1,
    ).decode()
    assert sent.startswith("\x1b[4;12H")
    assert sent.count("▀") == 1


def test_a_run_of_one_colour_names_it_once() -> None:
    cells = to_cells(np.full((2, 80, 3), 7, np.uint8), Depth.TRUE_COLOUR)
    sent = encode(cells, None, Depth.TRUE_COLOUR, top=1, left=1).decode()
    assert sent == "\x1b[1;1H\x1b[38;2;7;7;7m\x1b[48;2;7;7;7m" + "▀" * 80 + "\x1b[0m"


def test_a_brighter_pixel_is_a_heavier_character_without_colour() -> None:
    ramp = np.linspace(0, 255, 10).astype(np.uint8)
    pixels = np.broadcast_to(ramp[None, :, None], (2, 10, 3))
    assert to_cells(pixels, Depth.MONO).tobytes() == b" .:-=+*#%@"


@pytest.mark.parametrize(
    ("environment", "encoding", "depth"),
    [
        ({"COLORTERM": "truecolor"}, "utf-8", Depth.TRUE_COLOUR),
        ({"COLORTERM": "24bit"}, "UTF-8", Depth.TRUE_COLOUR),
        ({}, "utf-8", Depth.INDEXED),
        ({"COLORTERM": "truecolor", "NO_COLOR": "1"}, "utf-8", Depth.MONO),
        ({"COLORTERM": "truecolor", "NO_COLOR": ""}, "utf-8", Depth.TRUE_COLOUR),
        ({"COLORTERM": "truecolor"}, "iso-8859-1", Depth.MONO),
        ({"COLORTERM": "truecolor"}, None, Depth.MONO),
    ],
)
def test_the_environment_says_how_many_colours_there_are(
    environment: dict[str, str], encoding: str | None, depth: Depth
) -> None:
    assert colour_depth(environment, encoding) is depth


# --- the numbers ----------------------------------------------------------------------------------

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
    with Terminal(*view(run_id, "--seconds", "1"), NO_COLOR="1") as terminal:
        terminal.read_until_text("@" * 80)
        terminal.finish()
        assert not re.search(rb"\x1b\[[0-9;]*[34][0-9][0-9;]*m", terminal.output)


def test_the_viewer_waits_for_the_run_to_begin(run_id: str) -> None:
    with Terminal(*view(run_id)) as terminal:
        terminal.read_until_text(f"waiting for run {run_id}")
        with FastLaneWriter.create(run_id, FastLaneConfig(32, 16)) as writer:
            writer.publish(solid((1, 2, 3)))
            terminal.read_until(lambda: bool(terminal.screen.picture), "a picture")
            assert "waiting" not in terminal.screen.text


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
        terminal.resize(80, 40)  # as large as before, but in another place
        terminal.read_until(lambda: len(terminal.screen.picture) == 80 * 20, "the same picture")
        assert terminal.screen.cells[0][0][0] == " "
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
        "from lanekit.viewer import terminal\n"
        "def broken(*_): raise RuntimeError('no picture today')\n"
        "terminal.to_cells = broken\n"
        f"terminal.watch({run_id!r})\n"
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
    with Terminal(*view(run_id, "--seconds", "2"), TERM="dumb") as terminal:
        assert terminal.finish() == ""
        assert b"\x1b" not in terminal.output
        assert f"run {run_id}: live | reward 1.00, return 2.0, step/s 3".encode() in terminal.output
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
            assert viewer.wait(WATCHDOG) == 0
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
        viewer.wait(WATCHDOG)
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
