"""The workers and integrations of RL frameworks where no framework is installed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from lanekit.worker.discovery import GROUP, BrokenWorker, InstalledWorker, describe
from patience import patience

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKERS: dict[str, str] = {
    name: place
    for name, place in PROJECT["entry-points"][GROUP].items()
    if place.startswith("lanekit.integrations.workers.")
}

# What each worker trains with: the package, and the name it is imported by.
FRAMEWORKS = {
    "cleanrl": ("torch", "torch"),
    "sb3": ("stable-baselines3", "stable_baselines3"),
    "sbx": ("sbx-rl", "sbx"),
    "tianshou": ("tianshou", "tianshou"),
    "torchrl": ("torchrl", "torchrl"),
    "rllib": ("ray", "ray"),
    "xuance": ("xuance", "xuance"),
    "envpool": ("envpool", "envpool"),
}
ABSENT = f"""
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in {[module for _, module in FRAMEWORKS.values()]}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program where no framework is installed, whatever is installed here."""
    command = [sys.executable, "-c", ABSENT + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)


def test_every_worker_is_announced_and_has_an_extra() -> None:
    assert WORKERS.keys() == FRAMEWORKS.keys() <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_says_what_it_is_or_which_package_it_lacks(name: str) -> None:
    package, _ = FRAMEWORKS[name]
    found = describe(EntryPoint(name, WORKERS[name], GROUP))
    if isinstance(found, BrokenWorker):
        assert (found.reason, found.remedy) == (
            f"{package} is not installed",
            f"pip install {package}",
        )
        return
    assert isinstance(found, InstalledWorker)
    assert found.metadata.upstream_library == package
    assert found.capabilities.worker_type == name


@pytest.mark.parametrize("name", WORKERS)
def test_a_workers_options_are_known_without_its_framework(name: str) -> None:
    module = WORKERS[name].partition(":")[0]
    done = run(f"import {module} as m; print(m.Config(run_id='a').to_dict()['env_id'])")
    assert (done.stdout.strip(), done.stderr) == ("CartPole-v1", "")


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("stable_baselines3", "sb3"),
        ("sbx", "sb3"),
        ("tianshou", "tianshou"),
        ("torchrl", "torchrl"),
        ("rllib", "rllib"),
        ("xuance", "xuance"),
    ],
)
def test_an_integration_names_the_package_that_it_lacks(module: str, extra: str) -> None:
    done = run(f"import lanekit.integrations.{module}")
    assert done.returncode == 1
    assert f"pip install 'lanekit[{extra}]'" in done.stderr.splitlines()[-1], done.stderr
