"""What the page about workers says is run, not believed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from lanekit.cli import build_parser
from patience import patience


def blocks(root: Path, language: str) -> list[str]:
    page = (root / "docs" / "workers.md").read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_worker_on_the_page_runs_as_written(root: Path, tmp_path: Path) -> None:
    (code,) = blocks(root, "python")
    (tmp_path / "page.py").write_text(code)
    (tmp_path / "config.json").write_text('{"run_id": "first"}')
    command = [sys.executable, "-W", "error", "page.py", "--config", "config.json"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=patience(), check=False
    )
    assert (done.returncode, done.stderr) == (0, "first: completed\n")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [events[0]["event"], events[-1]["event"]] == ["run_started", "run_completed"]
    assert events[-1]["payload"]["final_loss"] == 0.001


def test_the_pages_commands_are_known(root: Path) -> None:
    lines = [
        line.removeprefix("$ ") for block in blocks(root, "console") for line in block.split("\n")
    ]
    ours = [line.split()[1:] for line in lines if line.startswith("lanekit ")]
    assert len(ours) == 2
    for arguments in ours:
        build_parser().parse_args(arguments)


def test_the_page_and_the_command_tell_the_same_next_steps(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lanekit", "worker", "new", "my-walker"]
    said = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=patience(), check=True
    ).stdout
    (page,) = blocks(root, "console")
    for line in page.splitlines():
        if "my-walker" in line and "worker new" not in line:
            assert line.removeprefix("$ ") in said
