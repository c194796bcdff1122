"""What the page about the wrappers says is run, not believed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


def examples() -> list[str]:
    page = Path(__file__).resolve().parents[2] / "docs" / "integrations.md"
    return re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", examples())
def test_the_examples_run_as_written(code: str) -> None:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(Path("/dev/shm").glob("lanekit-frame-my-run-*"))
