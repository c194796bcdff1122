"""Tianshou trains, is watched, and is steered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_hand import (
    NUM_ENVS,
    SLOT_SHOWN,
    Tinted,
    check_goes_on_without_pictures,
    check_learned,
    check_missing,
    check_name_taken,
    check_slot_shown,
)
from watching import (
    check_lanes_are_gone,
    check_pictures,
    check_steering,
    check_training,
    train_and_watch,
)

# What the framework itself warns about is its own.
pytestmark = pytest.mark.filterwarnings("ignore", "error::lanekit.integrations.FastLaneWarning")


def test_it_learns_and_is_watched(tmp_path: Path) -> None:
    watched = train_and_watch(
        "tianshou", tmp_path, total_steps=8_000, steps_per_collect=500, seed=1
    )
    check_training(watched)
    check_pictures(watched)
    check_learned(watched)


def test_pause_resume_and_stop_reach_it(tmp_path: Path) -> None:
    check_steering("tianshou", tmp_path)


def test_environments_in_processes_of_their_own_make_a_grid(tmp_path: Path) -> None:
    watched = train_and_watch(
        "tianshou",
        tmp_path,
        environment={"MOSAIC_FASTLANE_VIDEO_MODE": "grid", "MOSAIC_FASTLANE_GRID_LIMIT": "3"},
        total_steps=3_000,
        num_envs=3,
        vector="subprocess",
    )
    check_training(watched)
    check_pictures(watched, tiles=3)
    assert {episode.agent_id for episode in watched.episodes} == {"env-0", "env-1", "env-2"}


@pytest.mark.parametrize("kind", ["DummyVectorEnv", "SubprocVectorEnv", "ShmemVectorEnv"])
def test_the_slot_asked_for_is_shown(
    run_id: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tianshou import env

    from lanekit.integrations.tianshou import watch_env_fns

    monkeypatch.setenv("MOSAIC_FASTLANE_SLOT", str(SLOT_SHOWN))
    makers: list[Any] = [Tinted(number) for number in range(NUM_ENVS)]
    envs = getattr(env, kind)(watch_env_fns(makers, run_id, rendering="in-process"))
    envs.reset()
    check_slot_shown(run_id, lambda: envs.step(np.zeros(NUM_ENVS, int)))
    envs.close()
    check_lanes_are_gone(run_id)


def test_an_environment_that_can_not_draw_trains_on(run_id: str) -> None:
    from tianshou.env import DummyVectorEnv

    from lanekit.integrations.tianshou import watch_env_fns

    makers: list[Any] = [Tinted(0, render_mode=None), Tinted(1, render_mode=None)]
    envs = DummyVectorEnv(watch_env_fns(makers, run_id, rendering="in-process"))
    envs.reset()
    check_goes_on_without_pictures(lambda: envs.step(np.zeros(2, int)))
    envs.close()


def test_a_run_whose_name_is_taken_trains_on(run_id: str) -> None:
    check_name_taken("tianshou", run_id, total_steps=2_000)


def test_without_tianshou_it_says_what_to_install() -> None:
    check_missing("tianshou")
