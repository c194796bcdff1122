"""What the page about the trajectory lane says is run, not believed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lanekit.trajectory.schema import TrajectoryField
from patience import patience


def blocks(root: Path) -> list[str]:
    page = (root / "docs" / "trajectory-lane.md").read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (0, "400 records, mean score 0.495\n"),
        (1, "0 [1.0, 0.0] [3, 2]\n1 [1.0, 0.0] [3, 2]\n"),
    ],
)
def test_the_examples_print_what_the_page_says(
    root: Path, tmp_path: Path, block: int, expected: str
) -> None:
    page = (root / "docs" / "trajectory-lane.md").read_text("utf-8")
    assert f"`{expected.splitlines()[0]}`" in page
    script = tmp_path / "trajectories.py"
    script.write_text(blocks(root)[block], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        timeout=patience(240),
        check=False,
    )
    assert (done.stdout, done.stderr) == (expected, "")
    assert not list(Path("/dev/shm").glob("lanekit-traj-my-*"))


def test_the_notations_on_the_page_are_understood(root: Path) -> None:
    page = (root / "docs" / "trajectory-lane.md").read_text("utf-8")
    notations = re.findall(r"^\| `([a-z0-9]+(?:\[[^`]*)?)` \|", page, re.MULTILINE)
    assert len(notations) == 5
    for notation in notations:
        assert str(TrajectoryField.parse(notation)) == notation
