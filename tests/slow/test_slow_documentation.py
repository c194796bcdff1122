"""The slow lane's examples, run as written, with a real daemon."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from daemon_process import DaemonProcess, until


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def worker_of(page: Path) -> str:
    (code,) = [block for block in blocks(page, "python") if "emit.run_started" in block]
    return code


def lanekit(daemon: DaemonProcess, *arguments: str) -> str:
    environment = {**os.environ, "LANEKIT_STATE": str(daemon.directory)}
    command = [sys.executable, "-m", "lanekit", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    return done.stdout


@pytest.mark.parametrize("page", ["README.md", "docs/slow-lane.md"])
def test_the_quick_start_of_the_slow_lane_runs_as_written(
    root: Path, daemon: DaemonProcess, page: str
) -> None:
    worker = daemon.directory / "worker.py"
    worker.write_text(worker_of(root / page), encoding="utf-8")
    text = (root / page).read_text(encoding="utf-8")
    assert "lanekit submit --run first -- python" in text
    target = f"--daemon=unix:{daemon.socket}"
    lanekit(daemon, "submit", "--run", "first", target, "--", sys.executable, str(worker))
    store = f"--store={daemon.store}"
    until(lambda: "exit" in lanekit(daemon, "show", "first", store))
    shown = lanekit(daemon, "show", "first", store)
    assert "completed" in shown
    assert re.search(r"steps +200\n", shown)
    assert "first" in lanekit(daemon, "runs", store)


def test_the_example_of_reading_back_runs_as_written(
    root: Path, make_daemon: Callable[..., DaemonProcess], tmp_path: Path
) -> None:
    daemon = make_daemon().start()
    code = (
        "from lanekit.slow import emit\n"
        "for n in range(5): emit.step(0, n, reward=float(n), observation=[n], agent_id='agent_0')\n"
        "emit.episode(0, episode_return=10.0, length=5)\n"
    )
    target = f"--daemon=unix:{daemon.socket}"
    lanekit(daemon, "submit", "--run", "first", target, "--", sys.executable, "-c", code)
    store = f"--store={daemon.store}"
    until(lambda: "exit" in lanekit(daemon, "show", "first", store))
    (example,) = [
        block for block in blocks(root / "docs" / "slow-lane.md", "python") if "RunStore" in block
    ]
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=daemon.store.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("2.0 [0]\n", "")
