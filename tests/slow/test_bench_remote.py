"""The remote benchmark runs to its end: right numbers, not fast ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from patience import patience

pytestmark = pytest.mark.once


def test_every_measurement_ends_up_in_a_table(root: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "bench", "remote", "--tiny", "--out", str(tmp_path)),
        cwd=root,
        capture_output=True,
        text=True,
        timeout=patience(240),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "### Frames of 320x240" in done.stdout
    assert "### What the worker pays" in done.stdout
    results = json.loads((tmp_path / "remote.json").read_text(encoding="utf-8"))["results"]
    raw = results["ways"][0]["ways"]["raw"]
    assert raw["bytes"] == 320 * 240 * 3
    assert raw["p50_ms"] > 0
    assert raw["tcp_p50_ms"] > 0
    modes = results["worker"]["modes"]
    assert set(modes) == {"no daemon", "nobody watches", "watched at 30 Hz", "its watcher left"}
    assert all(row["frames"] > 0 for row in modes.values())
