"""The slow lane's benchmarks run to their end, with a few events: right numbers, not fast ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patience import patience

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What a tiny run of everything printed, and what it wrote down."""
    out = tmp_path_factory.mktemp("bench")
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        (sys.executable, "-m", "bench", "slow", "--tiny", "--out", str(out)),
        cwd=root,
        capture_output=True,
        text=True,
        timeout=patience(240),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout, json.loads((out / "slow.json").read_text(encoding="utf-8"))


def test_every_measurement_ends_up_in_a_table(bench: tuple[str, dict[str, Any]]) -> None:
    printed, _ = bench
    for title in (
        "Durable events per second",
        "The same events in trackers",
        "Where an event's time goes",
        "From emission to acknowledgement",
        "Memory over",
        "A store of",
        "Targets",
    ):
        assert f"### {title}" in printed


def test_the_lane_is_compared_with_a_limit_of_the_same_mode(
    bench: tuple[str, dict[str, Any]],
) -> None:
    found = bench[1]["results"]["throughput"]
    for mode in ("normal", "full"):
        assert found["results"][f"lanekit, cat, {mode}"]["rate"] > 0
        assert found["results"][f"sqlite3, {mode}"]["rate"] > 0
        assert found["ratios"][f"cat, {mode}"]["sqlite3"] > 0


def test_every_event_of_a_stalled_run_is_stored(bench: tuple[str, dict[str, Any]]) -> None:
    found = bench[1]["results"]["memory"]
    assert [row["stalled"] for row in found] == ["nothing", "viewer", "disk"]
    for row in found:
        assert row["stored"] == row["events"]


def test_every_emitted_event_is_acknowledged(bench: tuple[str, dict[str, Any]]) -> None:
    for row in bench[1]["results"]["acknowledgement"]:
        assert row["acknowledged"] == row["emitted"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]


def test_large_stores_are_asked_by_their_keys_alone(bench: tuple[str, dict[str, Any]]) -> None:
    for row in bench[1]["results"]["queries"]["questions"]:
        assert row["rows"] > 0
        assert row["plan"]
        assert not any(step.startswith("SCAN") for step in row["plan"])


def test_a_tracker_that_fails_is_listed_with_its_reason() -> None:
    root = Path(__file__).resolve().parents[2]
    code = (
        "import json, sys, tempfile; from pathlib import Path; from bench import slow_trackers;"
        "print(json.dumps(slow_trackers.record(sys.executable, 'no_such', 1, Path('.'))))"
    )
    done = subprocess.run(
        (sys.executable, "-c", code), cwd=root, capture_output=True, text=True, timeout=patience()
    )
    assert "no_such" in json.loads(done.stdout)["failed"], done.stderr
