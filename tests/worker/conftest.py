"""What the worker tests share: real runs of small trainings, and places for distributions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_distributions import Site
from training_process import TRAININGS, Start, TrainingProcess


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts small trainings; none outlives the test."""
    running: list[TrainingProcess] = []

    def begin(
        kind: str, *options: str, variables: dict[str, str] | None = None, **settings: Any
    ) -> TrainingProcess:
        file = tmp_path / f"config-{len(running)}.json"
        file.write_text(json.dumps({"run_id": "a-run", **settings}))
        process = TrainingProcess(
            [sys.executable, str(TRAININGS), kind, "--config", str(file), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "QUICK_BEATS": "1", **(variables or {})},
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A place for distributions, on the path of processes that get its variables."""
    return Site(tmp_path / "site")
