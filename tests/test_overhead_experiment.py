"""The overhead experiment's arithmetic and report; tests/frameworks has one that really trains."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from bench.overhead import driver, report
from bench.overhead.modes import MODES, order
from bench.overhead.statistics import bootstrap, find

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[1]
RATIOS = {
    "bare": 1.0,
    "bare again": 1.001,
    "wrapped, unwatched": 1.002,
    "watched, shadow": 1.02,
    "watched, in-process": 1.05,
    "every step": 8.0,
}
STEPS, BARE_SECONDS, PICTURE_SECONDS = 1_000, 2e-4, 7e-4
EFFORT = driver.Effort(steps=6_000, turns=6, every_step_steps=600)


def turn(framework: str, seed: int, number: int, chance: float = 0.01) -> dict[str, Any]:
    """One turn as a child tells it, in which every ratio is a little off by chance."""
    random = np.random.default_rng([seed, number, len(framework)])
    drift = random.uniform(1, 3)  # the machine is sometimes slower, for all modes alike
    samples: list[dict[str, Any]] = []
    for place, mode in enumerate(order(number)):
        # The same up and down in every six turns, so that medians are what they should be.
        off = 1 + (0.0 if mode.label == "bare" else chance * (number % 6 - 2.5) / 2.5)
        seconds = STEPS * BARE_SECONDS * RATIOS[mode.label] * drift * off
        sample = {"mode": mode.label, "place": place, "steps": STEPS}
        sample |= {"train_seconds": seconds, "train_cpu_seconds": seconds}
        if mode.watched:
            sample["seen"] = {"frames": 30, "different": 24, "wait": 0.1, "seconds": seconds}
        samples.append(sample)
    return {
        "framework": framework,
        "version": "library 1.2.3",
        "seed": seed,
        "turn": number,
        "picture_seconds": PICTURE_SECONDS,
        "samples": samples,
    }


@pytest.fixture
def record(tmp_path: Path) -> driver.Record:
    record = driver.Record(tmp_path / "overhead.json", EFFORT)
    for framework in ("sb3", "cleanrl"):
        for seed in range(2):
            for number in record.missing(framework, seed):
                record.add_turn(turn(framework, seed, number))
            record.add_child(framework=framework, seed=seed, seconds=1.0, others=0.05)
    return record


# --- statistics -----------------------------------------------------------------------------------


def test_equal_values_leave_no_doubt() -> None:
    assert bootstrap([[1.5] * 4, [1.5] * 3]) == (1.5, 1.5, 1.5)


def test_the_interval_holds_the_true_median_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(60):
        seeds = [list(1.0 + 0.02 * random.standard_normal(6)) for _ in range(8)]
        found = bootstrap(seeds)
        held += found.low <= 1.0 <= found.high
    assert 51 <= held <= 60


def test_what_the_values_of_a_seed_have_in_common_widens_the_interval() -> None:
    random = np.random.default_rng(1)
    noise = 0.01 * random.standard_normal((5, 6))
    offsets = 0.05 * np.linspace(-1, 1, 5)[:, np.newaxis]
    alone = bootstrap((1 + noise).tolist())
    in_common = bootstrap((1 + noise + offsets).tolist())
    # As if all values were independent: the same ones, each a seed of its own.
    each_its_own = bootstrap([[value] for value in (1 + noise + offsets).ravel().tolist()])
    assert in_common.high - in_common.low > alone.high - alone.low
    assert in_common.high - in_common.low > each_its_own.high - each_its_own.low


def test_no_values_are_refused() -> None:
    for nothing in ([], [[]], [[1.0], []]):
        with pytest.raises(ValueError, match="no values"):
            bootstrap(nothing)


def test_in_six_turns_every_mode_has_every_place_and_follows_every_other_once() -> None:
    turns = [order(number) for number in range(6)]
    places = Counter((place, mode) for turn in turns for place, mode in enumerate(turn))
    follows = Counter(pair for turn in turns for pair in pairwise(turn))
    assert len(places) == len(MODES) ** 2
    assert len(follows) == len(MODES) * (len(MODES) - 1)
    assert set(places.values()) == set(follows.values()) == {1}


def test_ratios_are_taken_within_a_turn(record: driver.Record) -> None:
    for one in find(record.content):
        assert (one.seeds, one.turns) == (2, 12)
        for (mode, _), ratio in one.ratios.items():
            # Though the machine was up to three times slower from turn to turn.
            assert ratio.value == pytest.approx(RATIOS[mode.label])
            assert RATIOS[mode.label] * 0.99 <= ratio.low < ratio.value < ratio.high
            assert ratio.high <= RATIOS[mode.label] * 1.01


def test_frames_per_second_are_counted_from_the_first_one_on(record: driver.Record) -> None:
    for one in find(record.content):
        for mode, seen in one.watching.items():
            samples = [
                sample
                for turn in record.content["turns"]
                for sample in turn["samples"]
                if turn["framework"] == one.framework and sample["mode"] == mode.label
            ]
            shown = sum(sample["train_seconds"] - 0.1 for sample in samples)
            assert seen.hz == pytest.approx(30 * 12 / shown)
            assert (seen.frames, seen.least, seen.different) == (360, 30, 0.8)


# --- report ---------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_framework(record: driver.Record) -> None:
    text = report.markdown(record.content)
    for framework in ("sb3", "cleanrl"):
        row = next(
            line for line in text.splitlines() if line.startswith(f"| {framework} (library 1.2.3)")
        )
        for cell in ("**×1.002** (0.", "**×1.020** (1.", "**×8.0** (", "×1.044 (0.70 ms each)"):
            assert cell in row
    assert "6,000 steps per framework, mode and seed in 6 turns (2 seeds, 12 turns)" in text
    assert "others used 5% to 5% of the machine" in text
    assert "Too few turns" not in text


def test_targets_are_judged_by_what_was_found(record: driver.Record) -> None:
    judged = {target.what: target.reached for target in report.targets(find(record.content))}
    assert judged["sb3, wrapped, unwatched"]
    assert judged["sb3, watched, shadow"]
    assert not judged["sb3, watched, in-process"], "1.05 is more than 60 × 0.7 ms explain"


def test_a_low_price_for_pictures_that_nobody_saw_misses_the_target(record: driver.Record) -> None:
    for taken in record.content["turns"]:
        for sample in taken["samples"]:
            if sample["mode"] == "watched, shadow":
                sample["seen"] |= {"frames": 0, "different": 0}
    judged = {target.what: target.reached for target in report.targets(find(record.content))}
    assert not judged["sb3, watched, shadow"]


def test_a_cost_that_is_small_but_certain_misses_the_target(tmp_path: Path) -> None:
    record = driver.Record(tmp_path / "overhead.json", EFFORT)
    for number in record.missing("sb3", 0):
        record.add_turn(turn("sb3", 0, number, chance=0.0001))
    judged = {target.what: target.reached for target in report.targets(find(record.content))}
    assert not judged["sb3, wrapped, unwatched"]
    assert "Too few turns" in report.markdown(record.content)


def test_a_stored_run_is_reported_again(record: driver.Record, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = subprocess.run(
        [sys.executable, "-m", "bench.overhead", "--from", str(record.path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "overhead.md").read_text("utf-8")
    assert "### Targets" in done.stdout
    assert (tmp_path / "overhead.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[]")
    done = subprocess.run(
        [sys.executable, "-m", "bench.overhead", "--from", str(tmp_path / "other.json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "was not written by python -m bench.overhead" in done.stderr


# --- an interrupted run goes on -------------------------------------------------------------------


def test_turns_that_were_taken_are_not_taken_again(record: driver.Record) -> None:
    again = driver.Record(record.path, EFFORT)
    assert again.missing("sb3", 0) == again.missing("cleanrl", 1) == []
    assert again.missing("sb3", 2) == [12, 13, 14, 15, 16, 17]
    again.content["turns"].remove(turn("sb3", 1, 8))
    assert again.missing("sb3", 1) == [8]


def test_samples_of_another_effort_are_not_mixed_in(record: driver.Record) -> None:
    with pytest.raises(ValueError, match="another effort"):
        driver.Record(record.path, driver.Effort(steps=1, turns=6, every_step_steps=600))


def test_a_framework_that_can_not_be_loaded_is_listed_with_its_reason(
    record: driver.Record,
) -> None:
    driver.run(record, ["no_such"], seeds=2, noise=1.0)
    stored = json.loads(record.path.read_text("utf-8"))
    assert "No module named" in stored["failed"]["no_such"]
    assert "| no_such | `ModuleNotFoundError" in report.markdown(stored)
    assert len(stored["turns"]) == 24, "the rest is kept"
