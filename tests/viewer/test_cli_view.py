"""``lanekit view`` as typed: a window, the terminal instead, or a picture in a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from known_frames import as_shown, config_of, in_format, known_rgb
from pictures import rgb_of
from PyQt6.QtGui import QImage
from writers import StartWriter

from lanekit import FastLaneWriter
from lanekit.cli import build_parser
from lanekit.cli.view import as_typed
from lanekit.fast.png import encode_png
from lanekit.viewer.qt_platform import (
    COMMON_LIBRARIES,
    PLATFORM_LIBRARIES,
    obstacle_to_windows,
)
from patience import patience


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without a screen, changed."""
    screen = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    return {key: value for key, value in os.environ.items() if key not in screen} | changes


def view(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lanekit", "view", *arguments],
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=patience(),
    )


@pytest.mark.parametrize("pixel_format", ["RGB", "RGBA", "BGRX", "GRAY"])
def test_a_snapshot_is_the_newest_frame(run_id: str, tmp_path: Path, pixel_format: str) -> None:
    path = tmp_path / "out.png"
    rgb = known_rgb(33, 21, 4)
    with FastLaneWriter.create(run_id, config_of(33, 21, pixel_format)) as writer:
        writer.publish(in_format(rgb, pixel_format))
        done = view(run_id, "--snapshot", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{path}: frame 1 of {run_id}, 33x21\n"
    assert np.array_equal(rgb_of(QImage(str(path))), as_shown(rgb, pixel_format))


def test_a_snapshot_needs_no_qt(run_id: str, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules.update(PyQt6=None, PIL=None); "
        "from lanekit.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    path = tmp_path / "out.png"
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        writer.publish(known_rgb(8, 8))
        command = [sys.executable, "-c", code, "view", run_id, "--snapshot", str(path)]
        subprocess.run(command, env=environment(), check=True, timeout=patience())
    assert np.array_equal(rgb_of(QImage(str(path))), known_rgb(8, 8))


def test_a_snapshot_waits_for_a_worker_that_draws_when_watched(run_id: str, tmp_path: Path) -> None:
    path = tmp_path / "out.png"
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        command = [sys.executable, "-m", "lanekit", "view", run_id, "--snapshot", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            while not writer.watched:
                time.sleep(0.01)
            writer.publish(known_rgb(8, 8))
            process.communicate()
        assert process.returncode == 0
    assert np.array_equal(rgb_of(QImage(str(path))), known_rgb(8, 8))


def test_a_snapshot_of_nothing_says_so(run_id: str, tmp_path: Path) -> None:
    done = view(run_id, "--snapshot", str(tmp_path / "out.png"), "--wait", "0.1")
    assert done.returncode == 1
    assert "nothing publishes run" in done.stderr
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        writer.publish(known_rgb(8, 8))
        done = view(run_id, "--snapshot", "/nowhere/out.png")
    assert done.returncode == 1
    assert "/nowhere/out.png cannot be written: No such file or directory" in done.stderr


def test_random_pixels_survive_the_png(tmp_path: Path) -> None:
    noise = np.random.default_rng(7).integers(0, 256, (19, 31, 3), np.uint8)
    image = QImage.fromData(encode_png(noise), "PNG")
    assert np.array_equal(rgb_of(image), noise)


def test_without_a_screen_the_run_comes_to_the_terminal_and_one_line_says_why(
    run_id: str, start_writer: StartWriter
) -> None:
    start_writer()
    done = view(run_id, "--seconds", "0.5")
    assert done.returncode == 0
    assert done.stderr == (
        "lanekit view: no window: there is no screen: neither DISPLAY nor WAYLAND_DISPLAY is set; "
        "showing the run in the terminal\n"
    )
    assert run_id in done.stdout
    quiet = view(run_id, "--terminal", "--seconds", "0.5")
    assert (quiet.returncode, quiet.stderr) == (0, "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"DISPLAY": ":4711"}, "no window: "),
        ({"QT_QPA_PLATFORM": "teletype"}, "QT_QPA_PLATFORM may be one of"),
        ({"WAYLAND_DISPLAY": "wayland-4711"}, "no window: "),
    ],
)
def test_a_screen_that_is_not_there_is_no_crash(
    run_id: str, start_writer: StartWriter, changes: dict[str, str], said: str
) -> None:
    start_writer()
    done = view(run_id, "--seconds", "0.5", **changes)
    assert done.returncode == 0
    assert said in done.stderr
    assert run_id in done.stdout


@pytest.mark.parametrize("platform", ["xcb", "wayland"])
def test_missing_libraries_are_told_by_the_packages_that_have_them(platform: str) -> None:
    here = {"xcb": {"DISPLAY": ":0"}, "wayland": {"WAYLAND_DISPLAY": "wayland-0"}}[platform]
    for library, package in {**COMMON_LIBRARIES, **PLATFORM_LIBRARIES[platform]}.items():
        found = obstacle_to_windows(here, lambda name, library=library: name != library)
        assert found is not None
        assert found.remedy == f"sudo apt-get install {package}"
    nothing = obstacle_to_windows({"DISPLAY": ":0"}, lambda _: False)
    assert nothing is not None
    assert {"libegl1", "libxkbcommon0", "libxcb-cursor0"} < set(nothing.remedy.split())


def test_the_window_shows_the_run_until_it_is_told_to_stop(
    run_id: str, start_writer: StartWriter
) -> None:
    start_writer()
    done = view(run_id, "--seconds", "1", QT_QPA_PLATFORM="offscreen")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_evaluations_summary_comes_into_the_window(
    run_id: str, start_writer: StartWriter, tmp_path: Path
) -> None:
    start_writer()
    (tmp_path / "eval_summary.json").write_text('{"batches": 4, "episodes": 40}')
    code = f"""
import sys
from lanekit.cli import main
from lanekit.viewer.fastlane.view_model import FastLaneViewModel
shown = FastLaneViewModel.set_eval_text
def tell(self, text):
    shown(self, text)
    print(self.evalText)
FastLaneViewModel.set_eval_text = tell
sys.exit(main(["view", {run_id!r}, "--eval", {str(tmp_path)!r}, "--seconds", "2"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(QT_QPA_PLATFORM="offscreen"),
        capture_output=True,
        text=True,
        timeout=patience(),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "batches      4\nepisodes    40\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_closes_the_window(run_id: str, number: signal.Signals) -> None:
    with FastLaneWriter.create(run_id, config_of(8, 8)) as writer:
        with subprocess.Popen(
            [sys.executable, "-m", "lanekit", "view", run_id],
            env=environment(QT_QPA_PLATFORM="offscreen"),
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            while not writer.watched:
                assert process.poll() is None
                time.sleep(0.01)
            process.send_signal(number)
            assert process.communicate()[1] == ""
        assert process.returncode == 0


@pytest.mark.once
def test_without_a_name_the_only_live_run_is_shown_else_they_are_listed(
    run_id: str, tmp_path: Path
) -> None:
    """In a /dev/shm of its own, where there are no other runs."""
    alone = ["unshare", "--mount", "sh", "-c"]
    mount = "mount -t tmpfs tmpfs /dev/shm && "
    if subprocess.run([*alone, mount + "true"], capture_output=True).returncode:
        pytest.skip("may not mount here")
    path = tmp_path / "out.png"
    code = f"""
from lanekit import FastLaneConfig, FastLaneWriter
from lanekit.cli import main
def view():
    return main(["view", "--snapshot", {str(path)!r}, "--wait", "0.2"])
assert view() == 1
with FastLaneWriter.create("first run", FastLaneConfig(8, 8)) as first:
    first.publish(bytes(192))
    with FastLaneWriter.create("first run/state", FastLaneConfig(8, 8)):
        assert view() == 0
    with FastLaneWriter.create("second", FastLaneConfig(8, 8)):
        assert view() == 1
with FastLaneWriter.create("red\\x1b[31m", FastLaneConfig(8, 8)) as coloured:
    coloured.publish(bytes(192))
    assert view() == 0
"""
    done = subprocess.run(
        [*alone, mount + 'exec "$0" -c "$1"', sys.executable, code],
        capture_output=True,
        text=True,
        timeout=patience(),
    )
    assert done.returncode == 0, done.stderr
    assert "no run is live" in done.stderr
    assert done.stderr.endswith("  lanekit view 'first run'\n  lanekit view second\n")
    assert "frame 1 of red\N{REPLACEMENT CHARACTER}[31m, 8x8" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_run_is_named_so_that_a_shell_and_the_command_take_it(shell: str) -> None:
    run_ids = ["plain", "first run", "it's", "--json", "-", "a\nb\x1b[31mRED", "-\t'\\é\x9b"]
    for run_id in run_ids:
        typed = as_typed(run_id)
        assert typed.isprintable()
        line = f"printf '%s\\0' {typed.removeprefix('-- ')}"
        done = subprocess.run([shell, "-c", line], capture_output=True, check=True)
        assert done.stdout == f"{run_id}\0".encode()
        words = ["--", run_id] if typed.startswith("-- ") else [run_id]
        assert build_parser(["view"]).parse_args(["view", *words]).run_id == run_id
