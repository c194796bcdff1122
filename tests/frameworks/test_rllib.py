"""RLlib trains, is watched, and is steered; also with environments in Ray's processes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import gymnasium
import psutil
import pytest
from by_hand import check_missing, check_refusing_to_draw
from ray.rllib.env.env_context import EnvContext
from watching import (
    HERE,
    Training,
    check_lanes_are_gone,
    check_pictures,
    check_returns,
    check_steering,
    check_training,
    train_and_watch,
)

from lanekit.integrations import FastLaneTelemetryWrapper
from lanekit.integrations.rllib import watched as watched_by_rllib
from patience import until

# What the framework itself warns about is its own.
pytestmark = pytest.mark.filterwarnings("ignore", "error::lanekit.integrations.FastLaneWarning")

SMALL: dict[str, Any] = {
    "rollout_steps": 256,
    "hyperparameters": {"num_epochs": 2, "minibatch_size": 128},
}
GRID = {"MOSAIC_FASTLANE_VIDEO_MODE": "grid", "MOSAIC_FASTLANE_GRID_LIMIT": "4"}


def test_it_trains_and_is_watched(tmp_path: Path) -> None:
    watched = train_and_watch("rllib", tmp_path, num_envs=2, total_steps=2_000, seed=1, **SMALL)
    check_training(watched)
    check_pictures(watched)
    assert set(watched.steps.agent) == {"env-0", "env-1"}


def test_iterations_in_which_one_episode_or_none_ends_do_not_spoil_the_returns(
    tmp_path: Path,
) -> None:
    # MountainCar's episodes have 200 steps, which an untrained policy uses up: of five iterations
    # of 128 steps three end one, which RLlib tells as a number instead of a list.
    short = {**SMALL, "rollout_steps": 128}
    env = {"env_id": "MountainCar-v0", "frames": "off"}
    with Training("rllib", tmp_path, total_steps=640, seed=1, **env, **short) as training:
        watched = training.end()
    assert watched.run.state == "completed", (watched.run, watched.errors[-4000:])
    check_returns(watched)
    assert watched.summary["episode_returns"] == [-200.0, -200.0, -200.0]


def test_pause_resume_and_stop_reach_it(tmp_path: Path) -> None:
    check_steering("rllib", tmp_path, **SMALL)


def test_a_script_with_env_runners_is_shown_as_a_grid_and_told_once(tmp_path: Path) -> None:
    script = [sys.executable, str(HERE / "rllib_script.py")]
    with Training("rllib", tmp_path, command=script, environment=GRID) as training:
        training.until_seen(10)
        training.control("pause")
        training.until_state("paused")
        training.control("resume")
        training.until_steps(training.run().steps + 1)
        training.control("stop")
        watched = training.end()
    assert watched.run.state == "completed", (watched.run, watched.errors[-4000:])
    assert watched.run.rejected_lines == 0
    assert watched.summary["evaluated"] > 0
    # Its own count has no evaluation in it, and neither have the steps that were told.
    check_returns(watched)
    check_pictures(watched, tiles=4)
    assert set(watched.steps.agent) == {"env-0", "env-1", "env-2", "env-3"}
    check_lanes_are_gone(watched.run.run_id)


def test_sigterm_ends_it_and_all_of_ray(tmp_path: Path) -> None:
    with Training("rllib", tmp_path, num_envs=2, num_env_runners=1, **SMALL) as training:
        training.until_seen(1)
        worker = worker_of(training.run_id)
        family = worker.children(recursive=True)
        assert any("raylet" in process.name() for process in family)
        os.kill(worker.pid, signal.SIGTERM)
        watched = training.end()
    assert watched.summary["status"] == "stopped"
    check_returns(watched)
    check_lanes_are_gone(watched.run.run_id)
    until(lambda: not any(process.is_running() for process in family), "their ends")


def worker_of(run_id: str) -> psutil.Process:
    """The process that trains, not those that it or its proxy started."""
    for process in psutil.process_iter():
        try:
            command, environment = process.cmdline(), process.environ()
        except psutil.Error:
            continue
        trains = command[1:3] == ["-m", "lanekit.integrations.workers.rllib"]
        if trains and environment.get("LANEKIT_RUN_ID") == run_id:
            return process
    raise AssertionError("the worker is not running")


def slot_of(env: gymnasium.Env[Any, Any]) -> int:
    assert isinstance(env, FastLaneTelemetryWrapper)
    return env.settings.slot


def test_environments_are_counted_over_all_runners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_FASTLANE_VIDEO_MODE", "grid")
    monkeypatch.setenv("MOSAIC_FASTLANE_GRID_LIMIT", "9")
    create = watched_by_rllib("CartPole-v1", "some-run")

    def slots(worker_index: int, num_workers: int) -> list[int]:
        context = EnvContext({}, worker_index=worker_index, num_workers=num_workers)
        envs = [create(context) for _ in range(3)]
        found = [slot_of(env) for env in envs]
        for env in envs:
            env.close()  # the next runner is in another process, and begins with 0, too
        return found

    assert slots(0, 0) == [0, 1, 2]
    assert slots(1, 2) == [0, 2, 4]
    assert slots(2, 2) == [1, 3, 5]


def test_a_request_for_a_whole_vector_environment_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match="use 'sync' or 'async'"):
        watched_by_rllib("CartPole-v1")({"num_envs": 2})


def test_an_environment_that_refuses_a_render_mode_is_trained_without(
    run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_refusing_to_draw("rllib", run_id, monkeypatch, **SMALL)


def test_the_environments_own_arguments_are_taken_from_the_configuration() -> None:
    context = EnvContext({"render_mode": "rgb_array", "sutton_barto_reward": True}, worker_index=0)
    env = watched_by_rllib("CartPole-v1", "some-run")(context)
    assert env.render_mode == "rgb_array"
    env.close()


def test_without_rllib_it_says_what_to_install() -> None:
    check_missing("rllib", "ray")
