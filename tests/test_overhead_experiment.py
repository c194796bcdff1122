"""The overhead experiment's arithmetic and report; tests/frameworks has one that really trains."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from bench.overhead import driver, pacing, report
from bench.overhead.modes import EVERY_STEP, IN_PROCESS, MODES, TURN_STEPS, Mode, order
from bench.overhead.pacing import Pace, Took
from bench.overhead.statistics import bootstrap, centre, find
from bench.overhead.watching import PictureClock

from lanekit.integrations.showing.publisher import Publisher
from patience import patience

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
BARE_SECONDS, PICTURE_SECONDS = 2e-4, 7e-4
EFFORT = driver.Effort(steps=6 * TURN_STEPS, every_step_steps=3 * TURN_STEPS)


def turn(framework: str, seed: int, number: int, chance: float = 0.01) -> dict[str, Any]:
    """One turn as the driver keeps it, in which every ratio is a little off by chance."""
    random = np.random.default_rng([seed, number, len(framework)])
    drift = random.uniform(1, 3)  # the machine is sometimes slower, for all modes alike
    samples: list[dict[str, Any]] = []
    for place, mode in enumerate(order(number)):
        if mode is EVERY_STEP and number >= EFFORT.every_step_turns:
            continue
        # The same up and down in every three turns, so that the centre is where it should be.
        off = 1 + (0.0 if mode.label == "bare" else chance * (number % 3 - 1))
        seconds = TURN_STEPS * BARE_SECONDS * RATIOS[mode.label] * drift * off
        sample = {"mode": mode.label, "place": place, "steps": TURN_STEPS}
        sample |= {"train_seconds": seconds, "train_cpu_seconds": seconds}
        if mode is IN_PROCESS:
            sample |= {"pictures": 4, "picture_seconds": 4 * PICTURE_SECONDS}
        if mode.watched:
            sample["seen"] = {"frames": 30 * (number != 2), "different": 24 * (number != 2)}
        samples.append(sample)
    return {
        "framework": framework,
        "version": "library 1.2.3",
        "seed": seed,
        "turn": number,
        "samples": samples,
    }


@pytest.fixture
def record(tmp_path: Path) -> driver.Record:
    record = driver.Record(tmp_path / "overhead.json", EFFORT)
    for framework in ("sb3", "cleanrl"):
        for seed in record.missing(framework, 2):
            record.add_seed(turns(framework, seed))
        record.add_child(framework=framework, seconds=1.0, others=0.05)
    return record


def turns(framework: str, seed: int, chance: float = 0.01) -> list[dict[str, Any]]:
    return [turn(framework, seed, number, chance) for number in range(EFFORT.turns)]


# --- statistics -----------------------------------------------------------------------------------


def test_equal_values_leave_no_doubt() -> None:
    assert bootstrap([[1.5] * 4, [1.5] * 3]) == pytest.approx((1.5, 1.5, 1.5))


def test_what_disturbs_either_side_alike_cancels_out() -> None:
    noise = np.random.default_rng(1).uniform(1, 1.4, (2, 50))
    ratios = noise[0] / noise[1]
    assert centre(np.concatenate([ratios, 1 / ratios])) == pytest.approx(1.0)


def test_a_burst_of_noise_does_not_decide() -> None:
    quiet = np.array([0.98, 0.99, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.01, 1.02])
    burst = quiet.copy()
    burst[-1] = 40.0
    assert centre(burst) == centre(quiet) == pytest.approx(1.0, abs=1e-4)


def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(60):
        seeds = [list(1.0 + 0.02 * random.standard_normal(6)) for _ in range(8)]
        found = bootstrap(seeds)
        held += found.low <= 1.0 <= found.high
        assert found.high - found.low < 0.03, "wide enough for anything"
    assert held >= 51


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


@pytest.mark.parametrize(("modes", "turns", "times"), [(MODES, 6, 1), (MODES[:5], 10, 2)])
def test_every_mode_has_every_place_and_follows_every_other_equally_often(
    modes: Sequence[Mode], turns: int, times: int
) -> None:
    rows = [order(number, modes) for number in range(turns)]
    places = Counter((place, mode) for row in rows for place, mode in enumerate(row))
    follows = Counter(pair for row in rows for pair in pairwise(row))
    assert len(places) == len(modes) ** 2
    assert len(follows) == len(modes) * (len(modes) - 1)
    assert set(places.values()) == set(follows.values()) == {times}


def test_ratios_are_taken_within_a_turn(record: driver.Record) -> None:
    for one in find(record.content):
        assert (one.seeds, one.turns) == (2, 12)
        for (mode, _), ratio in one.ratios.items():
            # Though the machine was up to three times slower from turn to turn.
            assert ratio.value == pytest.approx(RATIOS[mode.label], rel=1e-4)
            assert RATIOS[mode.label] * 0.99 <= ratio.low < ratio.value < ratio.high
            assert ratio.high <= RATIOS[mode.label] * 1.01


def test_frames_are_counted_per_second_of_training(record: driver.Record) -> None:
    for one in find(record.content):
        for mode, seen in one.watching.items():
            samples = [
                sample
                for turn in record.content["turns"]
                for sample in turn["samples"]
                if turn["framework"] == one.framework and sample["mode"] == mode.label
            ]
            assert len(samples) == (6 if mode is EVERY_STEP else 12)
            frames = 30 * (len(samples) - 2)
            assert seen.hz == pytest.approx(frames / sum(s["train_seconds"] for s in samples))
            assert (seen.frames, seen.different) == (frames, 0.8)
            assert seen.blind == pytest.approx(2 / len(samples))
            assert (seen.drawing is not None) == (mode is IN_PROCESS)


# --- taking turns ---------------------------------------------------------------------------------


class Environment:
    """Steps, and says so."""

    def __init__(self, story: list[Any]) -> None:
        self._story = story

    def step(self, action: int) -> None:
        self._story.append(action)


def test_a_training_waits_before_its_first_step_and_after_each_turn() -> None:
    class Governed(Environment): ...

    story: list[Any] = []
    pace = Pace(2, lambda took: story.append(took if took is None else took.steps))
    pace.govern(Governed)
    environment = Governed(story)
    pace.start(turns=2)
    for action in range(10, 17):
        environment.step(action)
    assert story == [None, 10, 11, 2, 12, 13, 2, 14, 15, 16], "then as it likes"
    pace.start(turns=1)
    for action in range(20, 24):
        environment.step(action)
    assert story[10:] == [None, 20, 21, 2, 22, 23]


def test_waiting_is_not_in_the_time_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    class Governed(Environment): ...

    now = [0.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0], process_time=lambda: now[0] / 2)
    monkeypatch.setattr(pacing, "time", clock)
    told: list[Took | None] = []

    def between(took: Took | None) -> None:
        told.append(took)
        now[0] += 100.0

    pace = Pace(2, between)
    pace.govern(Governed)
    pace.start(turns=2)
    for _ in range(5):
        Governed([]).step(0)
        now[0] += 1.0  # what a framework does between two steps is in it
    assert told == [None, Took(2, 2.0, 1.0), Took(2, 2.0, 1.0)]


def test_pictures_are_timed_where_they_are_made() -> None:
    class Drawing(Publisher):
        def look(self) -> None:
            drawn.append(self)

    drawn: list[Publisher] = []
    clock = PictureClock()
    clock.govern(Drawing)
    publisher = Drawing(None)
    for _ in range(3):
        publisher.look()
    assert drawn == [publisher] * 3
    found = clock.report()
    assert found["pictures"] == 3
    assert found["picture_seconds"] > 0
    assert clock.report() == {"pictures": 0, "picture_seconds": 0.0}


# --- report ---------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_framework(record: driver.Record) -> None:
    text = report.markdown(record.content)
    for framework in ("sb3", "cleanrl"):
        row = next(
            line for line in text.splitlines() if line.startswith(f"| {framework} (library 1.2.3)")
        )
        for cell in ("**×1.002** (0.", "**×1.020** (1.", "**×8.0** (", "×1.044 (0.70 ms each)"):
            assert cell in row
    assert "1,536 steps per framework, mode and seed in turns of 256 (2 seeds, 12 turns)" in text
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
    record.add_seed(turns("sb3", 0, chance=0.0001))
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
        timeout=patience(120),
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
        timeout=patience(120),
    )
    assert done.returncode == 1
    assert "was not written by this version of python -m bench.overhead" in done.stderr


# --- an interrupted run goes on -------------------------------------------------------------------


def test_seeds_that_were_trained_are_not_trained_again(record: driver.Record) -> None:
    again = driver.Record(record.path, EFFORT)
    assert again.missing("sb3", 2) == again.missing("cleanrl", 1) == []
    assert again.missing("sb3", 4) == [2, 3]
    assert again.missing("rllib", 2) == [0, 1]


def test_samples_of_another_effort_are_not_mixed_in(record: driver.Record) -> None:
    with pytest.raises(ValueError, match="another effort"):
        driver.Record(record.path, driver.Effort(steps=1, every_step_steps=600))


def test_a_framework_that_can_not_be_loaded_is_listed_with_its_reason(
    record: driver.Record,
) -> None:
    driver.run(record, ["no_such"], seeds=2, noise=1.0)
    stored = json.loads(record.path.read_text("utf-8"))
    assert "No module named" in stored["failed"]["no_such"]
    assert "| no_such | `ModuleNotFoundError" in report.markdown(stored)
    assert len(stored["turns"]) == 24, "the rest is kept"
