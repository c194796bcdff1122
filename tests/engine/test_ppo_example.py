"""The example trainer: its gradients are right, and it runs against a real engine.

docs/engine.md has the command for the long run, this one is shorter.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from patience import patience


@pytest.fixture
def example(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("engine_ppo", root / "examples/engine_ppo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gradients_are_those_of_small_differences(example: ModuleType) -> None:
    rng = np.random.default_rng(0)
    network = example.Network([3, 8, 8, 2], 1.0, rng)
    network.params = [param.astype(np.float64) for param in network.params]
    x, wanted = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))

    def loss() -> float:
        return 0.5 * float(((network.forward(x)[0] - wanted) ** 2).sum())

    found, kept = network.forward(x)
    gradients = network.backward(kept, found - wanted)
    for param, gradient in zip(network.params, gradients, strict=True):
        for place in np.ndindex(param.shape):
            before = param[place]
            param[place] = before + 1e-6
            above = loss()
            param[place] = before - 1e-6
            below = loss()
            param[place] = before
            assert gradient[place] == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-6)


def test_it_trains_through_the_lanes_and_writes_its_curve(
    root: Path, tmp_path: Path, engine_process: Callable[..., subprocess.Popen[str]], lane: str
) -> None:
    engine_process("--model", "cartpole", "--num-envs", "16")
    log = tmp_path / "curve.csv"
    command = [sys.executable, str(root / "examples" / "engine_ppo.py"), "--attach", lane]
    command += ["--steps", "30000", "--horizon", "32", "--log", str(log)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=patience(240), check=False
    )
    assert done.returncode == 0, done.stderr
    assert "mean return" in done.stdout
    header, *rows = log.read_text().splitlines()
    assert header.startswith("steps,seconds,mean_return")
    returns = [float(row.split(",")[2]) for row in rows]
    # Balancing at random ends after some thirty steps; it must have learned something by then.
    assert max(returns[-5:]) > 2 * returns[5]
