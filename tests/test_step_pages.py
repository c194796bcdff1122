"""The code on the step lane's page runs as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from patience import patience


@pytest.fixture
def code(root: Path) -> list[str]:
    """The page's Python blocks, with names that no other run of the tests uses."""
    page = (root / "docs" / "step-lane.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    mark = uuid.uuid4().hex[:8]
    return [re.sub(r'"((?:pipelined-)?engine)"', rf'"\1-{mark}"', block) for block in blocks]


def start(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def test_the_engine_and_the_trainer_of_the_page_find_each_other(code: list[str]) -> None:
    engine, trainer = (re.sub(r"timeout=\d+", "timeout=None", block) for block in code[:2])
    assert engine != code[0]
    with start(engine) as served, start(trainer) as trained:
        out, _ = trained.communicate(timeout=patience(120))
        served.terminate()  # removes the lane
    assert trained.returncode == 0
    # 0.25 is added in each step; beyond 10 an episode ends, and a reset begins it at 0.
    value, total = 0.0, 0.0
    for _ in range(100):
        value = 0.0 if value > 10 else value + 0.25
        total += value
    assert out == f"{total:.1f}\n"


def test_the_halves_of_the_page_are_stepped_by_turns(code: list[str]) -> None:
    with start(code[2]) as process:
        out, _ = process.communicate(timeout=patience(120))
    assert (process.returncode, out) == (0, "20.0 20.0\n")


def test_the_page_describes_every_option(root: Path) -> None:
    from dataclasses import fields

    from lanekit import StepLaneConfig

    page = (root / "docs" / "step-lane.md").read_text(encoding="utf-8")
    for field in fields(StepLaneConfig):
        assert re.search(rf"`{field.name}`|\b{field.name}\b", page), field.name
