"""What the page about the frameworks says is run, not believed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from watching import check_lanes_are_gone

from patience import patience

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "frameworks.md"
PLAIN = {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}


def examples() -> dict[str, str]:
    """The page's programs, by the section that they are in."""
    found = {}
    for section in PAGE.read_text("utf-8").split("\n## ")[1:]:
        title = section.partition("\n")[0]
        code = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        for number, block in enumerate(code, 1):
            found[title if len(code) == 1 else f"{title} {number}"] = block
    return found


@pytest.mark.parametrize("code", examples().values(), ids=examples().keys())
def test_the_examples_run_as_written(code: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")
    run_id = f"page-{os.getpid()}-{tmp_path.name}"
    done = subprocess.run(
        [sys.executable, str(script)],
        env={
            **os.environ,
            "LANEKIT_RUN_ID": run_id,
            "JAX_PLATFORMS": "cpu",
            "OMP_NUM_THREADS": "1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patience(240),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "lanekit can not" not in done.stderr
    check_lanes_are_gone(run_id)


def test_every_frameworks_worker_has_its_line_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    workers = [
        worker.name
        for worker in entry_points(group="mosaic.workers")
        if worker.value.startswith("lanekit.integrations.workers.")
    ]
    assert len(workers) >= 8
    for name in workers:
        assert f"| `{name}` | `lanekit[{name}]` |" in page


@pytest.fixture
def state() -> Iterator[Path]:
    """A daemon's directory, short enough for its socket. The daemon ends with the test."""
    directory = Path(tempfile.mkdtemp(prefix="lk-"))
    yield directory
    lock = directory / "daemon.sock.lock"
    if lock.exists():
        os.kill(int(lock.read_text()), signal.SIGTERM)
    shutil.rmtree(directory, ignore_errors=True)


def typed(page: str) -> list[str]:
    """The lines of a page that train with a ready-made worker."""
    lines = re.findall(r"^\$ (lanekit (?:run|submit) .*)$", (DOCS / page).read_text(), re.MULTILINE)
    return [line for line in lines if "sb3" in line]


def test_the_commands_train_as_written_only_shorter(state: Path, tmp_path: Path) -> None:
    by_name, by_hand = typed("frameworks.md")
    (with_options,) = typed("slow-lane.md")
    assert "--steps 100000" in with_options
    (tmp_path / "config.json").write_text('{"run_id": "mine", "total_steps": 256, "seed": 1}')
    environment = {
        **os.environ,
        **PLAIN,
        "LANEKIT_STATE": str(state),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    commands = (f"{by_name} --steps 256", with_options.replace("100000", "256"), by_hand)
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=patience(240),
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run(
        ["bash", "-c", "until lanekit show mine | grep -q completed; do sleep 0.2; done"],
        env=environment,
        timeout=patience(240),
        check=True,
    )
