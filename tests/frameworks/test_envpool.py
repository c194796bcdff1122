"""EnvPool: one object that steps, resets and draws many environments."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import envpool
import numpy as np
import pytest
from watching import check_pictures, check_steering, check_training, train_and_watch

import lanekit
from lanekit.integrations import FastLaneWarning
from lanekit.integrations.envpool import FastLaneEnvPoolWrapper, watch_envpool
from run_lanes import lanes_of

GRID = {"MOSAIC_FASTLANE_VIDEO_MODE": "grid", "MOSAIC_FASTLANE_GRID_LIMIT": "4"}


def test_it_trains_and_is_watched(tmp_path: Path) -> None:
    watched = train_and_watch("envpool", tmp_path, total_steps=4_096, num_envs=4, seed=1)
    check_training(watched)
    check_pictures(watched)
    assert set(watched.renderings) == {"in-process"}
    assert set(watched.steps.agent) == {"env-0", "env-1", "env-2", "env-3"}


def test_pause_resume_and_stop_reach_it(tmp_path: Path) -> None:
    check_steering("envpool", tmp_path)


def test_a_grid_shows_all_environments(tmp_path: Path) -> None:
    watched = train_and_watch("envpool", tmp_path, environment=GRID, total_steps=6_144, num_envs=4)
    check_training(watched)
    check_pictures(watched, tiles=4)


# --- the wrapper, without a training --------------------------------------------------------------


@pytest.fixture
def run_id() -> Iterator[str]:
    run = f"envpool-{uuid.uuid4().hex[:12]}"
    yield run
    assert lanes_of(run) == []


class Heard:
    """Telemetry that adds up."""

    def __init__(self) -> None:
        self.steps: dict[tuple[str, int], int] = {}
        self.returns: dict[tuple[str, int], float] = {}

    def step(self, episode_index: int, step_index: int, **content: Any) -> None:
        episode = (content["agent_id"], episode_index)
        assert step_index == self.steps.get(episode, 0), "a step is missing or told twice"
        self.steps[episode] = step_index + 1

    def episode(self, episode_index: int, **content: Any) -> None:
        self.returns[content["agent_id"], episode_index] = content["episode_return"]


def make_pool(**options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of gymnasium, about the precision of EnvPool's spaces
        pool = envpool.make_gymnasium("CartPole-v1", render_mode="rgb_array", seed=1, **options)
        assert pool.observation_space is not None
        return pool


@pytest.mark.parametrize("batch_size", [4, 2])
def test_every_step_and_episode_is_told_and_no_reset(run_id: str, batch_size: int) -> None:
    heard = Heard()
    envs: Any = watch_envpool(make_pool(num_envs=4, batch_size=batch_size), run_id, telemetry=heard)
    lengths: list[int] = []
    envs.async_reset()
    for _ in range(400):
        _, rewards, terminated, truncated, info = envs.recv()
        lengths += info["elapsed_step"][terminated | truncated].tolist()
        envs.send(np.zeros(len(rewards), int), info["env_id"])
    envs.close()
    assert len(lengths) > 50
    assert sorted(heard.returns.values()) == sorted(lengths)
    assert {episode: heard.steps[episode] for episode in heard.returns} == heard.returns
    assert envs.tally.steps == sum(heard.steps.values())
    assert envs.tally.episodes == len(lengths)


def test_the_environment_asked_for_is_shown(run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_FASTLANE_SLOT", "2")
    envs: Any = watch_envpool(make_pool(num_envs=3), run_id, every_step=True)
    envs.reset()
    envs.step(np.array([0, 0, 1]))
    with lanekit.FastLaneReader.attach(run_id) as reader:
        envs.step(np.array([0, 0, 1]))
        frame = reader.latest_frame()
        assert frame is not None
        np.testing.assert_array_equal(frame.array, envs.unwrapped.render(env_ids=[2])[0])
        assert (frame.array != envs.unwrapped.render(env_ids=[0])[0]).any()
    envs.close()
    envs.close()


def test_a_grid_of_a_pool_in_motion_is_refused_in_words(run_id: str) -> None:
    pool = make_pool(num_envs=4, batch_size=2)
    with pytest.warns(FastLaneWarning, match="without batch_size"):
        envs = FastLaneEnvPoolWrapper(pool, run_id, video_mode="grid")
    assert envs.settings.video_mode == "single"
    envs.close()


def test_what_is_no_pool_is_refused_in_words() -> None:
    import gymnasium

    with pytest.raises(TypeError, match=r"make_gymnasium\(\)"):
        FastLaneEnvPoolWrapper(gymnasium.make_vec("CartPole-v1", 2))  # type: ignore[arg-type]
