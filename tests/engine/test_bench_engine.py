"""The benchmark of the engine runs to its end with a few environments: right, not fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once


def test_every_measurement_ends_up_in_a_table(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    pytest.importorskip("gymnasium")
    done = subprocess.run(
        (sys.executable, "-m", "bench", "engine", "--tiny", "--out", str(tmp_path)),
        cwd=root,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Traceback" not in done.stderr
    for title in ("lanes / in process", "AsyncVectorEnv", "pictures/s", "with a contract"):
        assert title in done.stdout
    results = json.loads((tmp_path / "engine.json").read_text(encoding="utf-8"))["results"]
    for row in (*results["steps"], results["processes"], results["camera"]):
        assert all(rate > 0 for rate in row["rates"].values())
    assert results["resets"]["contract"] > 0
