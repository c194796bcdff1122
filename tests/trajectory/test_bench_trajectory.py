"""The trajectory lane's benchmark works; how fast is not asked here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from patience import patience

pytestmark = pytest.mark.once  # the core does the work, whatever the Python


@pytest.mark.once
def test_every_way_can_be_measured_and_the_lane_is_exact(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "trajectory", "--tiny", "--out", str(tmp_path)]
    command += ["--only", "512 tokens"]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=patience(280), check=False
    )
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "trajectory.json").read_text(encoding="utf-8"))["results"]
    for row in results["512 tokens"]:
        for name in ("lanekit", "lanekit, copied out"):
            found = row["transports"][name]
            assert found["records_per_second"] > 0
            assert (found["lost"], found["repeated"], found["mixed"]) == (0, 0, 0)
    assert "memcpy in C" in done.stdout
