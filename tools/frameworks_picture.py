"""Draw docs/images/frameworks.png anew: every framework trains, and one window shows them all.

usage: tools/frameworks_picture.py PYTHON FILE.png

PYTHON has the frameworks (`make test-frameworks` makes .venv-frameworks/bin/python); what runs this
has the viewer. Seven trainings at once take a small machine some minutes to begin.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

# Before Qt begins: no screen, and the renderer whose pixels are the same everywhere.
os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ["QT_QUICK_BACKEND"] = "software"
sys.path.insert(0, str(Path(__file__).parent))

from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QApplication

from lanekit.slow.daemon_client import DaemonClient
from lanekit.viewer.window.pages import RunGrid
from screenshot_scenes import live_run, main_window

FRAMEWORKS = ("cleanrl", "sb3", "sbx", "tianshou", "torchrl", "rllib", "xuance")
STEPS = 10_000_000
SIZE = (1500, 940)
LEARN_MS = 60_000
"""For how long they train before the picture is taken."""

live_run.PATIENCE = 600.0
main_window.OWN = FRAMEWORKS


def submit(client: DaemonClient, python: str, framework: str) -> None:
    """Have the daemon start a framework's worker."""
    config = {"run_id": f"{framework}-cartpole", "seed": 1, "total_steps": STEPS}
    client.submit_run(
        [python, "-m", f"lanekit.integrations.workers.{framework}"],
        run_id=f"{framework}-cartpole",
        environment={"JAX_PLATFORMS": "cpu", "PYTHONPATH": ""},
        config_json=json.dumps(config).encode(),
        worker_id=framework,
    )


def main() -> None:
    """Train, watch, and save what is seen."""
    python, file = sys.argv[1:]
    application = QApplication(["lanekit"])
    with main_window.window_of() as (desk, window):
        window.resize(*SIZE)
        with DaemonClient(desk.daemon.target) as client:
            for framework in FRAMEWORKS:
                submit(client, str(Path(python).absolute()), framework)
        runs = [f"{framework}-cartpole" for framework in FRAMEWORKS]
        live_run.wait_until(lambda: window.runs.rowCount() == len(runs))
        window.log_dock.hide()
        window.list.select(*runs)
        window.open_side_by_side()
        grid = window.tabs.pages[0].content
        assert isinstance(grid, RunGrid)
        live_run.wait_until(lambda: all(cell.tab.shown is not None for cell in grid.cells))
        QTest.qWait(LEARN_MS)
        if not main_window.grab(window).save(file):
            sys.exit(f"{file} can not be written")
    application.processEvents()


if __name__ == "__main__":
    main()
