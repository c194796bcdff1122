"""The overhead experiment really trains, and its viewer really sees: numbers, not speed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from watching import PATIENCE

from patience import until
from run_lanes import lanes_of

ROOT = Path(__file__).resolve().parents[2]
STEPS = 6_000


def command(out: Path, *options: str) -> list[str]:
    bench = [sys.executable, "-m", "bench.overhead", "--frameworks", "cleanrl", "--seeds", "1"]
    return [*bench, "--every-step-steps", "200", "--out", str(out), *options]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The directory of a small run, and what the run printed."""
    out = tmp_path_factory.mktemp("overhead")
    done = subprocess.run(
        command(out, "--steps", str(STEPS), "--turns", "1"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def samples_of(directory: Path) -> dict[str, dict[str, Any]]:
    content = json.loads((directory / "overhead.json").read_text("utf-8"))
    (turn,) = content["turns"]
    assert turn["picture_seconds"] > 0
    return {sample["mode"]: sample for sample in turn["samples"]}


def test_every_mode_trains_all_of_its_steps(finished: tuple[Path, str]) -> None:
    samples = samples_of(finished[0])
    assert len(samples) == 6
    for mode, sample in samples.items():
        assert sample["steps"] >= (200 if mode == "every step" else STEPS)
        assert sample["train_seconds"] > 0
        assert sample["train_cpu_seconds"] > 0


def test_the_viewer_sees_moving_pictures_in_every_watched_mode(
    finished: tuple[Path, str],
) -> None:
    for mode, sample in samples_of(finished[0]).items():
        watched = mode in ("watched, shadow", "watched, in-process", "every step")
        assert ("seen" in sample) == watched
        if watched:
            assert sample["seen"]["frames"] >= sample["seen"]["different"] >= 3, mode


def test_tables_and_plot_are_written(finished: tuple[Path, str]) -> None:
    directory, printed = finished
    assert (directory / "overhead.md").read_text("utf-8") == printed
    assert "| cleanrl (torch" in printed
    assert (directory / "overhead.png").read_bytes().startswith(b"\x89PNG")


def test_a_terminated_run_keeps_its_turns_leaves_nothing_behind_and_goes_on(tmp_path: Path) -> None:
    many_turns = ("--steps", "20000", "--turns", "20")
    file = tmp_path / "overhead.json"
    with subprocess.Popen(
        command(tmp_path, *many_turns), cwd=ROOT, stdout=subprocess.DEVNULL
    ) as bench:
        until(file.exists, PATIENCE)
        started = psutil.Process(bench.pid).children(recursive=True)
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(60) == 128 + signal.SIGTERM
    until(lambda: not any(process.is_running() for process in started), 30.0)
    for process in started:
        assert not lanes_of(f"overhead-{process.pid}")
    turns = json.loads(file.read_text("utf-8"))["turns"]
    assert 1 <= len(turns) < 20

    with subprocess.Popen(
        command(tmp_path, *many_turns), cwd=ROOT, stdout=subprocess.DEVNULL
    ) as bench:
        until(lambda: len(json.loads(file.read_text("utf-8"))["turns"]) > len(turns), PATIENCE)
        bench.terminate()
        bench.wait(60)
    again = json.loads(file.read_text("utf-8"))["turns"]
    assert again[: len(turns)] == turns
    numbers = [turn["turn"] for turn in again]
    assert numbers == list(range(len(again))), "each turn once"
