"""XuanCe trains, is watched, and is steered."""

from __future__ import annotations

from argparse import Namespace
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_hand import (
    NUM_ENVS,
    SLOT_SHOWN,
    check_goes_on_without_pictures,
    check_learned,
    check_missing,
    check_name_taken,
    check_refusing_to_draw,
    check_slot_shown,
    register_worlds,
    tint_of,
)
from watching import (
    check_lanes_are_gone,
    check_pictures,
    check_steering,
    check_training,
    lanes_of,
    train_and_watch,
)

# What the framework itself warns about is its own.
pytestmark = pytest.mark.filterwarnings("ignore", "error::lanekit.integrations.FastLaneWarning")

FIRST_SEED = 5


def test_it_learns_and_is_watched(tmp_path: Path) -> None:
    watched = train_and_watch("xuance", tmp_path, total_steps=10_000, num_envs=2, seed=1)
    check_training(watched)
    check_pictures(watched)
    check_learned(watched)
    assert not list(tmp_path.glob("**/events.out*")), "TensorBoard files nobody asked for"


def test_pause_resume_and_stop_reach_it(tmp_path: Path) -> None:
    check_steering("xuance", tmp_path)


def test_environments_in_processes_of_their_own_make_a_grid(tmp_path: Path) -> None:
    watched = train_and_watch(
        "xuance",
        tmp_path,
        environment={"MOSAIC_FASTLANE_VIDEO_MODE": "grid", "MOSAIC_FASTLANE_GRID_LIMIT": "3"},
        total_steps=3_000,
        num_envs=3,
        vector="subprocess",
    )
    check_training(watched)
    check_pictures(watched, tiles=3)
    assert {episode.agent_id for episode in watched.episodes} == {"env-0", "env-1", "env-2"}


def tinted_config(vectorize: str, **options: Any) -> Namespace:
    """A configuration for environments whose tint tells their number, by a class of the user's."""
    from xuance.environment import REGISTRY_ENV
    from xuance.environment.single_agent_env.gym import Gym_Env

    class TintedEnv(Gym_Env):  # type: ignore[misc]
        def __init__(self, config: Any) -> None:
            super().__init__(config, tint=tint_of(config.env_seed - FIRST_SEED))

    register_worlds()
    REGISTRY_ENV["Tinted"] = TintedEnv
    return Namespace(
        env_name="Tinted",
        env_id="LimitedCounter-v0",
        env_seed=FIRST_SEED,
        vectorize=vectorize,
        parallels=NUM_ENVS,
        **options,
    )


@pytest.mark.parametrize("vectorize", ["DummyVecEnv", "SubprocVecEnv"])
def test_the_slot_asked_for_is_shown(
    run_id: str, vectorize: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xuance import make_envs

    from lanekit.integrations.xuance import watch

    monkeypatch.setenv("MOSAIC_FASTLANE_SLOT", str(SLOT_SHOWN))
    config = tinted_config(vectorize)
    watch(config, run_id, rendering="in-process")
    assert config.render_mode == "rgb_array"
    envs = make_envs(config)
    envs.reset()
    check_slot_shown(run_id, lambda: envs.step(np.zeros(NUM_ENVS, int)))
    envs.close()
    check_lanes_are_gone(run_id)


def test_environments_to_test_on_are_not_watched(run_id: str) -> None:
    from xuance import make_envs

    from lanekit.integrations.xuance import watch

    config = tinted_config("DummyVecEnv")
    watch(config, run_id, rendering="in-process")
    test_envs = make_envs(deepcopy(config))
    test_envs.reset()
    test_envs.step(np.zeros(NUM_ENVS, int))
    assert lanes_of(run_id) == []
    test_envs.close()


def test_an_environment_that_can_not_draw_trains_on(run_id: str) -> None:
    from xuance import make_envs

    from lanekit.integrations.xuance import watch

    config = tinted_config("DummyVecEnv", render_mode=None)
    watch(config, run_id, rendering="in-process")
    envs = make_envs(config)
    envs.reset()
    check_goes_on_without_pictures(lambda: envs.step(np.zeros(NUM_ENVS, int)))
    envs.close()


def test_an_environment_that_refuses_a_render_mode_is_trained_without(
    run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_refusing_to_draw("xuance", run_id, monkeypatch, num_envs=2, horizon_size=64)


def test_an_environment_that_xuance_can_not_make_is_told_at_once() -> None:
    from lanekit.integrations.xuance import watch

    with pytest.raises(ValueError, match="'Nowhere' is None"):
        watch(Namespace(env_name="Nowhere", env_seed=1), "run")


def test_a_run_whose_name_is_taken_trains_on(run_id: str) -> None:
    check_name_taken("xuance", run_id, total_steps=2_000)


def test_without_xuance_it_says_what_to_install() -> None:
    check_missing("xuance")
