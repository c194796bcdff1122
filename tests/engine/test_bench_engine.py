"""The benchmark of the engine runs to its end with a few environments: right, not fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from patience import patience

pytestmark = pytest.mark.once


def test_steps_are_measured_in_process_and_behind_lanes_and_grpc() -> None:
    pytest.importorskip("grpc")
    from bench import engine_lane, engine_report

    row = engine_lane.steps(engine_lane.TINY, "cartpole", 4)
    assert set(row["rates"]) == {"physics", "in_process", "lanes", "grpc", "rollout"}
    assert all(rate > 0 for rate in row["rates"].values())
    assert "| cartpole, 4 |" in engine_report.markdown({"steps": [row]})


def test_the_other_measurements_end_up_in_sentences(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    pytest.importorskip("gymnasium")
    command = [sys.executable, "-m", "bench", "engine", "--tiny", "--out", str(tmp_path)]
    done = subprocess.run(
        [*command, "--only", "processes", "camera", "resets"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=patience(240),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Traceback" not in done.stderr
    for title in ("AsyncVectorEnv", "pictures/s", "with a contract"):
        assert title in done.stdout
    results = json.loads((tmp_path / "engine.json").read_text(encoding="utf-8"))["results"]
    for row in (results["processes"], results["camera"]):
        assert all(rate > 0 for rate in row["rates"].values())
        assert all(time > 0 for time in row["cpu_us"].values())
    assert results["resets"]["contract"] > 0
