"""Stable-Baselines3, and SBX, which is used alike: trained, watched and steered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_hand import (
    NUM_ENVS,
    SLOT_SHOWN,
    Tinted,
    check_goes_on_without_pictures,
    check_name_taken,
    check_slot_shown,
)
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv
from watching import (
    GRID,
    check_pictures,
    check_steering,
    check_training,
    lanes_of,
    train_and_watch,
)

from lanekit.integrations.stable_baselines3 import WatchCallback, WatchedEnv

# What the framework itself warns about is its own.
pytestmark = pytest.mark.filterwarnings("ignore", "error::lanekit.integrations.FastLaneWarning")

SMALL: dict[str, Any] = {"hyperparameters": {"n_steps": 256}}


@pytest.mark.parametrize("worker", ["sb3", "sbx"])
def test_it_trains_and_is_watched(worker: str, tmp_path: Path) -> None:
    watched = train_and_watch(worker, tmp_path, total_steps=6_144, seed=1)
    check_training(watched)
    check_pictures(watched)
    assert watched.steps.agent.tolist() == ["env-0"] * len(watched.steps)


@pytest.mark.parametrize("worker", ["sb3", "sbx"])
def test_pause_resume_and_stop_reach_it(worker: str, tmp_path: Path) -> None:
    check_steering(worker, tmp_path)


@pytest.mark.parametrize("vector", ["sync", "subprocess"])
def test_a_grid_shows_all_environments(vector: str, tmp_path: Path) -> None:
    watched = train_and_watch(
        "sb3", tmp_path, environment=GRID, total_steps=6_144, num_envs=4, vector=vector, **SMALL
    )
    check_training(watched)
    check_pictures(watched, tiles=4)
    assert set(watched.steps.agent) == {"env-0", "env-1", "env-2", "env-3"}


@pytest.fixture
def vec_env(run_id: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., VecEnv]]:
    """Makes vector environments whose pictures tell their numbers, one of which is shown."""
    monkeypatch.setenv("MOSAIC_FASTLANE_SLOT", str(SLOT_SHOWN))
    made: list[VecEnv] = []

    def make(kind: str, **options: Any) -> VecEnv:
        makers = [partial(make_watched, run_id, number, options) for number in range(NUM_ENVS)]
        # A fork server that runs already would not see the variable.
        made.append(SubprocVecEnv(makers, "spawn") if kind == "spawn" else DummyVecEnv(makers))
        made[0].reset()
        return made[0]

    yield make
    made[0].close()


def make_watched(run_id: str, number: int, options: dict[str, Any]) -> WatchedEnv:
    return WatchedEnv(Tinted(number, **options)(), run_id, rendering="in-process")


def step(envs: VecEnv) -> None:
    envs.step(np.zeros(NUM_ENVS, int))


@pytest.mark.parametrize("kind", ["dummy", "spawn"])
def test_the_callback_tells_each_environment_its_slot(
    kind: str, vec_env: Callable[..., VecEnv], run_id: str
) -> None:
    envs = vec_env(kind)
    WatchCallback().init_callback(PPO("MlpPolicy", envs, n_steps=8, batch_size=8, device="cpu"))
    check_slot_shown(run_id, partial(step, envs))


def test_without_the_callback_the_environments_of_one_process_are_counted(
    vec_env: Callable[..., VecEnv], run_id: str
) -> None:
    check_slot_shown(run_id, partial(step, vec_env("dummy")))


def test_without_the_callback_other_processes_show_nothing_and_say_why(
    vec_env: Callable[..., VecEnv], run_id: str, capfd: pytest.CaptureFixture[str]
) -> None:
    envs = vec_env("spawn")
    for _ in range(200):
        step(envs)
    assert lanes_of(run_id) == []
    envs.close()
    assert capfd.readouterr().err.count("callback=WatchCallback()") == NUM_ENVS


def test_an_environment_that_can_not_draw_trains_on(vec_env: Callable[..., VecEnv]) -> None:
    check_goes_on_without_pictures(partial(step, vec_env("dummy", render_mode=None)))


def test_a_callback_without_watched_environments_only_steers() -> None:
    envs = make_vec_env("CartPole-v1", 2)
    model = PPO("MlpPolicy", envs, n_steps=8, batch_size=8, device="cpu")
    model.learn(32, callback=WatchCallback())
    assert model.num_timesteps == 32
    model.learn(1_000_000, callback=WatchCallback(keep_going=lambda: False))
    assert model.num_timesteps == 2, "one step of each"


def test_another_algorithm_with_options_of_its_own(tmp_path: Path) -> None:
    watched = train_and_watch(
        "sb3",
        tmp_path,
        algorithm="DQN",
        total_steps=3_000,
        hyperparameters={"learning_starts": 500, "buffer_size": 5_000},
    )
    check_training(watched)
    check_pictures(watched)


def test_a_run_id_in_use_is_no_reason_not_to_train(run_id: str) -> None:
    check_name_taken("sb3", run_id, total_steps=2_048)
