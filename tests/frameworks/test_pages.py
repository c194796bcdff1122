"""What the page about the frameworks says is run, not believed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from watching import PATIENCE, check_lanes_are_gone

PAGE = Path(__file__).resolve().parents[2] / "docs" / "frameworks.md"
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
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "lanekit can not" not in done.stderr
    check_lanes_are_gone(run_id)


def test_every_worker_has_its_line_on_the_page() -> None:
    from lanekit.worker.discovery import discover_workers

    page = PAGE.read_text("utf-8")
    own = [worker.name for worker in discover_workers() if worker.distribution == "lanekit"]
    assert len(own) >= 8
    for name in own:
        assert f"| `{name}` | `lanekit[{name}]` |" in page
