"""The programs of docs/engine.md do what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lanekit.command import METHODS
from lanekit.engine import EngineClient, SimulationContract
from lanekit.engine.contract import RANGES
from lanekit.engine.model_file import built_in_models
from lanekit.engine.tasks import TASKS
from patience import patience


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "engine.md").read_text(encoding="utf-8")


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_pages_programs_run_as_written(
    page: str, engine_process: Callable[..., subprocess.Popen[str]], lane: str
) -> None:
    trainer, own_task = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    line = re.search(r"^\$ lanekit engine (.*)$", page, re.MULTILINE)
    assert line is not None
    assert "--num-envs 1024" in line[1]
    engine_process(*line[1].replace("1024", "8").split())
    assert run(trainer.replace('"humanoid"', repr(lane))) == "humanoid-walk 49 17\n(8, 49) True\n"
    assert run(own_task.replace('"swing", "cart', f'"{lane}-own", "cart')) == "swing 4\n"


def test_the_page_tells_of_every_model_task_range_and_client_method(page: str) -> None:
    for name in (*built_in_models(), *TASKS, *RANGES, *SimulationContract().__dict__):
        assert f"`{name}`" in page, name
    methods = {name for name in vars(EngineClient) if not name.startswith("_")}
    lane_methods = {"step", "reset", "obs", "images", "config", "num_envs", "close"}
    for name in methods - lane_methods:
        assert re.search(rf"`{name}[`(]", page), name


def test_the_engine_answers_every_method_of_the_schema(
    page: str, serve: Callable[..., object], lane: str
) -> None:
    served = serve("cartpole", 1)
    handled = set(served.engine.commands._handlers)  # type: ignore[attr-defined]
    assert handled == {method.name for method in METHODS.values()}
