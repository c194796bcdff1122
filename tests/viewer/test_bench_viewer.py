"""The viewer's benchmark works; how fast is not asked here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.once
def test_every_measurement_can_be_made(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "viewer", "--tiny", "--out", str(tmp_path)]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=120, check=True
    )
    results = json.loads((tmp_path / "viewer.json").read_text(encoding="utf-8"))["results"]
    assert set(results) == {"tick", "watching", "tabs", "live"}
    assert "naive label" in done.stdout
    assert results["tabs"]["frames_per_second"] > 0
