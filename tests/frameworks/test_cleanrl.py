"""A script in the style of CleanRL: trained, watched and steered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from by_hand import (
    NUM_ENVS,
    SLOT_SHOWN,
    Tinted,
    check_goes_on_without_pictures,
    check_name_taken,
    check_refusing_to_draw,
    check_slot_shown,
)
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from watching import (
    GRID,
    check_lanes_are_gone,
    check_pictures,
    check_steering,
    check_training,
    train_and_watch,
)

from lanekit.integrations.cleanrl import watch
from patience import patience

WORKER = "lanekit.integrations.workers.cleanrl"
FEW = {"total_steps": 256, "num_envs": 2}


def test_it_trains_and_is_watched(tmp_path: Path) -> None:
    watched = train_and_watch("cleanrl", tmp_path, total_steps=10_000, seed=1)
    check_training(watched)
    check_pictures(watched)


def test_it_learns(tmp_path: Path) -> None:
    watched = train_and_watch("cleanrl", tmp_path, total_steps=40_000, num_envs=4, seed=1)
    check_training(watched)
    first = watched.summary["episode_returns"][:50]
    assert watched.summary["mean_return"] > 3 * sum(first) / len(first)


def test_pause_resume_and_stop_reach_it(tmp_path: Path) -> None:
    check_steering("cleanrl", tmp_path)


@pytest.mark.parametrize("vector", ["sync", "subprocess"])
def test_a_grid_shows_all_environments(vector: str, tmp_path: Path) -> None:
    watched = train_and_watch(
        "cleanrl", tmp_path, environment=GRID, total_steps=10_000, num_envs=4, vector=vector
    )
    check_training(watched)
    check_pictures(watched, tiles=4)
    assert set(watched.steps.agent) == {"env-0", "env-1", "env-2", "env-3"}


@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_the_index_in_the_thunk_is_the_slot(
    vector: type[AsyncVectorEnv], run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_FASTLANE_SLOT", str(SLOT_SHOWN))

    def thunk(idx: int) -> Callable[[], gymnasium.Env[Any, Any]]:
        return lambda: watch(Tinted(idx)(), idx, run_id)

    with closing(vector([thunk(idx) for idx in range(NUM_ENVS)])) as envs:
        envs.reset()
        check_slot_shown(run_id, lambda: envs.step(envs.action_space.sample()))


def test_an_environment_that_can_not_draw_trains_on(run_id: str) -> None:
    env = watch(Tinted(0, render_mode=None)(), 0, run_id, rendering="in-process")
    with closing(env):
        env.reset()
        check_goes_on_without_pictures(lambda: env.step(0))


def test_a_run_id_in_use_is_no_reason_not_to_train(run_id: str) -> None:
    check_name_taken("cleanrl", run_id, total_steps=6_000)


def test_an_environment_that_refuses_a_render_mode_is_trained_without(
    run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_refusing_to_draw("cleanrl", run_id, monkeypatch, num_envs=2)


def test_without_a_daemon_the_training_goes_on_under_its_proxy(run_id: str, tmp_path: Path) -> None:
    target = f"unix:{tmp_path}/nobody.sock"
    done = subprocess.run(
        [sys.executable, "-m", WORKER, "--grpc", "--grpc-target", target],
        env={
            **os.environ,
            "LANEKIT_STATE": str(tmp_path),
            "LANEKIT_CONFIG_JSON": json.dumps({"run_id": run_id, **FEW}),
        },
        capture_output=True,
        text=True,
        timeout=patience(240),
        check=False,
    )
    assert done.returncode == 75, done.stderr[-4000:]
    assert "run_completed" in next(tmp_path.rglob("journal*")).read_text()
    check_lanes_are_gone(run_id)
