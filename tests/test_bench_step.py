"""The step lane's benchmark runs to its end, with a few steps: right numbers, not fast ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from patience import patience

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any], Path]:
    """What a tiny run printed, and what it wrote down."""
    out = tmp_path_factory.mktemp("bench")
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-m", "bench", "step", "--tiny", "--out", str(out)]
    done = subprocess.run(
        [*command, "--only", "round_trip", "crowded", "growth"],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        timeout=patience(280),
        check=True,
    )
    return done.stdout, json.loads((out / "step.json").read_text(encoding="utf-8")), out


def test_every_way_of_stepping_is_timed(bench: tuple[str, dict[str, Any], Path]) -> None:
    printed, record, _ = bench
    found = record["results"]["round_trip"]
    lanes = [name for name in found["calls"] if name.startswith("lanekit")]
    assert len(lanes) == 9
    for name in lanes:
        assert 0 < found["calls"][name]["p50_us"] <= found["calls"][name]["p99_us"]
        assert name in printed
    assert found["bytes"] == 4096 * (100 * 4 + 12 * 4 + 4 + 2)
    assert set(record["results"]["crowded"]["pairs"]) >= {"lanekit, hybrid", "lanekit, block"}


def test_a_peer_that_is_not_there_is_listed_with_its_reason(
    bench: tuple[str, dict[str, Any], Path],
) -> None:
    printed, record, _ = bench
    about = record["results"]["round_trip"]["about"]
    assert "No module named" in about["no_such_peer"]["failed"]
    assert "No module named" in printed
    for peer, module in (("gymnasium_async", "gymnasium"), ("grpc_bytes", "grpc")):
        assert ("failed" in about[peer]) == (find_spec(module) is None), about[peer]


def test_no_process_and_no_memory_is_left(bench: tuple[str, dict[str, Any], Path]) -> None:
    left = [name for name in os.listdir("/dev/shm") if name.startswith("lanekit-step-bench-")]
    alive = []
    for name in left:
        pid = int(name.split("-")[3])
        if not Path(f"/proc/{pid}").exists():  # else somebody else's run
            alive.append(name)
    assert not alive


def test_the_growth_is_drawn(bench: tuple[str, dict[str, Any], Path]) -> None:
    pytest.importorskip("matplotlib")
    _, record, out = bench
    growth = record["results"]["growth"]
    assert set(growth["p50_us"]["lanekit, touch"]) == {"1", "64"}
    picture = out / "growth.png"
    command = [sys.executable, "-m", "bench.step_plot", str(out / "step.json"), str(picture)]
    root = Path(__file__).resolve().parent.parent
    subprocess.run(command, cwd=root, timeout=patience(120), check=True)
    assert picture.read_bytes().startswith(b"\x89PNG")
