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
from bench.overhead.modes import TURN_STEPS

from patience import patience, until
from run_lanes import lanes_of

ROOT = Path(__file__).resolve().parents[2]
TURNS = 6
STEPS = TURNS * TURN_STEPS


def command(out: Path, *options: str) -> list[str]:
    bench = [sys.executable, "-m", "bench.overhead", "--frameworks", "cleanrl"]
    return [*bench, "--steps", str(STEPS), "--every-step-steps", "200", "--out", str(out), *options]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The directory of a small run, and what the run printed."""
    out = tmp_path_factory.mktemp("overhead")
    done = subprocess.run(
        command(out, "--seeds", "1"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience(240),
    )
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def turns_of(directory: Path) -> list[dict[str, Any]]:
    content = json.loads((directory / "overhead.json").read_text("utf-8"))
    turns: list[dict[str, Any]] = content["turns"]
    return turns


def test_every_mode_takes_all_of_its_turns(finished: tuple[Path, str]) -> None:
    turns = turns_of(finished[0])
    assert [turn["turn"] for turn in turns] == list(range(TURNS))
    for turn in turns:
        assert len(turn["samples"]) == (6 if turn["turn"] == 0 else 5), "every step is drawn once"
        for sample in turn["samples"]:
            assert sample["steps"] == TURN_STEPS
            assert sample["train_seconds"] > 0
            assert sample["train_cpu_seconds"] > 0
            if sample["mode"] == "watched, in-process":
                assert 0 < sample["picture_seconds"] < sample["train_seconds"]
                assert sample["pictures"] >= sample["seen"]["frames"] - 1, "one may still be there"


def test_the_viewer_sees_moving_pictures_in_every_watched_mode(
    finished: tuple[Path, str],
) -> None:
    seen: dict[str, list[dict[str, int]]] = {}
    for turn in turns_of(finished[0]):
        for sample in turn["samples"]:
            if "seen" in sample:
                seen.setdefault(sample["mode"], []).append(sample["seen"])
    assert seen.keys() == {"watched, shadow", "watched, in-process", "every step"}
    for mode, all_turns in seen.items():
        assert sum(turn["different"] for turn in all_turns) >= 3, mode


def test_tables_and_plot_are_written(finished: tuple[Path, str]) -> None:
    directory, printed = finished
    assert (directory / "overhead.md").read_text("utf-8") == printed
    assert "| cleanrl (torch" in printed
    assert (directory / "overhead.png").read_bytes().startswith(b"\x89PNG")


def test_a_terminated_run_keeps_its_seeds_leaves_nothing_behind_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "overhead.json"

    def begin() -> subprocess.Popen[bytes]:
        run = command(tmp_path, "--seeds", "20")
        return subprocess.Popen(run, cwd=ROOT, stdout=subprocess.DEVNULL)

    with begin() as bench:
        until(file.exists, "the first seed", 240)
        started = psutil.Process(bench.pid).children(recursive=True)
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(patience()) == 128 + signal.SIGTERM
    until(lambda: not any(process.is_running() for process in started), "their ends")
    for mode in range(6):
        assert not lanes_of(f"overhead-{bench.pid}-{mode}")
    turns = turns_of(tmp_path)
    assert TURNS <= len(turns) < 20 * TURNS

    with begin() as bench:
        until(lambda: len(turns_of(tmp_path)) > len(turns), "another seed", 240)
        bench.terminate()
        bench.wait(patience())
    again = turns_of(tmp_path)
    assert again[: len(turns)] == turns
    numbers = [(turn["seed"], turn["turn"]) for turn in again]
    whole = [(seed, turn) for seed in range(len(again) // TURNS) for turn in range(TURNS)]
    assert numbers == whole, "each turn of each seed once"
