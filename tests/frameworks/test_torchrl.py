"""TorchRL trains, is watched, and is steered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
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
    tint_of,
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
    watched = train_and_watch("torchrl", tmp_path, total_steps=7_000, frames_per_batch=500, seed=1)
    check_training(watched)
    check_pictures(watched)
    check_learned(watched)


def test_pause_resume_and_stop_reach_it(tmp_path: Path) -> None:
    check_steering("torchrl", tmp_path)


def test_environments_in_processes_of_their_own_make_a_grid(tmp_path: Path) -> None:
    watched = train_and_watch(
        "torchrl",
        tmp_path,
        environment={"MOSAIC_FASTLANE_VIDEO_MODE": "grid", "MOSAIC_FASTLANE_GRID_LIMIT": "3"},
        total_steps=1_500,
        frames_per_batch=300,
        num_envs=3,
        vector="subprocess",
    )
    check_training(watched)
    check_pictures(watched, tiles=3)
    assert {episode.agent_id for episode in watched.episodes} == {"env-0", "env-1", "env-2"}


class TintedBySlot:
    """Makes TorchRL environments by their slot; also in processes of their own."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def __call__(self, slot: int) -> Any:
        from lanekit.integrations.torchrl import watched

        return watched(Tinted(slot), self._run_id, rendering="in-process")(slot=slot)


@pytest.mark.parametrize("kind", ["SerialEnv", "ParallelEnv"])
def test_the_slot_asked_for_is_shown(
    run_id: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchrl import envs as torchrl_envs

    from lanekit.integrations.torchrl import slots

    monkeypatch.setenv("MOSAIC_FASTLANE_SLOT", str(SLOT_SHOWN))
    vector_class = getattr(torchrl_envs, kind)
    envs = vector_class(NUM_ENVS, TintedBySlot(run_id), create_env_kwargs=slots(NUM_ENVS))
    now = envs.reset()

    def step() -> None:
        nonlocal now
        _, now = envs.step_and_maybe_reset(envs.rand_action(now))

    check_slot_shown(run_id, step)
    assert tint_of(0) != tint_of(SLOT_SHOWN)
    envs.close()
    check_lanes_are_gone(run_id)


def test_an_environment_that_can_not_draw_trains_on(run_id: str) -> None:
    from lanekit.integrations.torchrl import watched

    env = watched(Tinted(0, render_mode=None), run_id, rendering="in-process")()
    now = env.reset()

    def step() -> None:
        nonlocal now
        _, now = env.step_and_maybe_reset(env.rand_action(now))

    check_goes_on_without_pictures(step)
    env.close()


def test_a_trainer_stops_after_the_batch_in_which_it_is_asked_to(run_id: str) -> None:
    import torch
    from tensordict import TensorDict
    from torchrl.collectors import Collector
    from torchrl.trainers import Trainer

    from lanekit.integrations.torchrl import controlled, watched

    make_env = watched(lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array"), run_id)
    weight = torch.nn.Parameter(torch.zeros(()))
    asked = []

    def keep_going() -> bool:
        asked.append(len(asked))
        return False

    trainer = Trainer(
        collector=Collector(make_env(), None, frames_per_batch=50, total_frames=5_000),
        total_frames=5_000,
        frame_skip=1,
        optim_steps_per_batch=1,
        loss_module=lambda batch: TensorDict({"loss": weight * batch["next", "reward"].sum()}),
        optimizer=torch.optim.SGD([weight], lr=0.1),
        progress_bar=False,
    )
    controlled(trainer, keep_going).train()
    assert asked == [0]
    assert trainer.collected_frames == 50
    assert weight.item() != 0, "the batch was still learned from"
    check_lanes_are_gone(run_id)


def test_a_run_whose_name_is_taken_trains_on(run_id: str) -> None:
    check_name_taken("torchrl", run_id, total_steps=2_000)


def test_it_learns_with_the_threads_that_it_was_given(
    run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from lanekit.integrations.workers.torchrl import Config, Runtime

    seen: list[int] = []

    class Noting(torch.optim.Adam):
        def step(self, *arguments: Any, **options: Any) -> Any:
            seen.append(torch.get_num_threads())
            return super().step(*arguments, **options)

    monkeypatch.setattr(torch.optim, "Adam", Noting)
    before = torch.get_num_threads()
    config = Config(run_id=run_id, total_steps=300, frames_per_batch=100, epochs=1, telemetry="off")
    Runtime(config).train()
    torch.set_num_threads(before)
    assert len(seen) == 6, "two parts of each batch"
    assert set(seen) == {config.threads} == {1}


def test_without_torchrl_it_says_what_to_install() -> None:
    check_missing("torchrl")
