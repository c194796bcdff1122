"""Vector environments: the right one is shown, or a grid in which each tile is one whole frame."""

from __future__ import annotations

import copy
import json
from typing import Any

import gymnasium
import numpy as np
import pytest
import trainer
import worlds
from heard import Heard
from trainer import Training, frames, rgb

import lanekit
from lanekit.integrations import FastLaneVectorWrapper, FastLaneWarning, wrap_env_fns
from lanekit.integrations.shadow.renderer import fitted
from patience import until
from run_lanes import lanes_of

pytestmark = pytest.mark.once

TINTS = (10, 20, 30, 40)


def check_grid(frame: lanekit.FastLaneFrame, tiles: tuple[int, ...]) -> None:
    """Each tile is exactly the picture of the step that the note says."""
    rows, columns = lanekit.fast.tile_grid(len(tiles))
    height, width = worlds.SIZE
    assert frame.array.shape == (rows * height, columns * width, 3)
    for index, step in enumerate(tiles):
        row, column = divmod(index, columns)
        tile = frame.array[row * height :, column * width :][:height, :width]
        expected = np.zeros_like(tile) if step < 0 else worlds.picture(step, TINTS[index])
        np.testing.assert_array_equal(tile, expected)


@pytest.mark.parametrize(
    ("kind", "rendering"),
    [("sync", "in-process"), ("sync", "shadow"), ("fork", "in-process"), ("fork", "shadow")],
)
def test_the_environment_asked_for_is_shown(run_id: str, kind: str, rendering: str) -> None:
    options = json.dumps({"slot": 2, "rendering": rendering})
    with Training(trainer.vector, run_id, *how(kind), options) as training:
        with training.reader() as reader:
            for frame, note in frames(reader, 4):
                assert note.rendering == rendering
                steps = note.step // 4 if kind == "sync" else note.step
                tint = frame.array[0, 0, 2]
                # A shadow draws on a copy made from the spec, tint included.
                assert tint == TINTS[2]
                low, high = map(int, frame.array[0, 0, :2])
                assert low + 251 * high <= steps
    assert training.result["warnings"] == []


def how(kind: str) -> tuple[str, str]:
    return ("sync", "-") if kind == "sync" else ("async", kind)


@pytest.mark.parametrize(
    ("kind", "rendering"), [("fork", "in-process"), ("fork", "shadow"), ("spawn", "shadow")]
)
def test_a_grid_is_composed_of_the_newest_frame_of_each_process(
    run_id: str, kind: str, rendering: str
) -> None:
    options = json.dumps({"video_mode": "grid", "rendering": rendering})
    with Training(trainer.vector, run_id, "async", kind, options) as training:
        with training.reader() as reader:
            seen = together = 0
            for frame, note in frames(reader, 10_000):
                assert note.rendering == rendering
                check_grid(frame, note.tiles)
                seen += len(note.tiles) == 4 and min(note.tiles) > 0
                together += len(note.tiles) == 4 and len(set(note.tiles)) == 1
                if seen >= 5 and together >= 2:
                    break
    assert training.result["warnings"] == []


def test_a_grid_in_one_process_shows_one_step_of_all(run_id: str) -> None:
    options = json.dumps({"video_mode": "grid", "rendering": "in-process", "grid_limit": 3})
    with Training(trainer.vector, run_id, "sync", "-", options) as training:
        with training.reader() as reader:
            for frame, note in frames(reader, 5):
                first = frame.array[0, 0]
                check_grid(frame, (int(first[0]) + 251 * int(first[1]),) * 3)
                assert note.step % 4 == 0
    assert training.result["warnings"] == []


@pytest.mark.pygame
def test_a_grid_of_one_process_can_be_drawn_by_another(run_id: str) -> None:
    makers = [lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array")] * 2
    twin = gymnasium.vector.SyncVectorEnv(makers)
    envs = FastLaneVectorWrapper(
        gymnasium.vector.SyncVectorEnv(makers), run_id, video_mode="grid", rendering="shadow"
    )
    for each in (envs, twin):
        each.reset(seed=3)
        each.step(np.zeros(2, int))
    expected = lanekit.tile_frames(list(twin.render() or ()))
    with lanekit.FastLaneReader.attach(run_id) as reader:

        def both_seen() -> bool:  # a tile is black until its environment has been drawn
            envs.publisher.look()
            frame = reader.latest_frame()
            return frame is not None and np.array_equal(rgb(frame), expected)

        until(both_seen, "a frame of both, with the pixels of render()")
    assert envs.publisher.rendering == "shadow"
    envs.close()
    envs.close()
    twin.close()


@pytest.mark.pygame
def test_a_vectorised_environment_draws_all_at_once(run_id: str) -> None:
    made = gymnasium.make_vec(
        "CartPole-v1", 3, vectorization_mode="vector_entry_point", render_mode="rgb_array"
    )
    envs = FastLaneVectorWrapper(made, run_id, video_mode="grid")
    envs.reset(seed=3)
    envs.step(np.zeros(3, int))
    with lanekit.FastLaneReader.attach(run_id) as reader:
        until(lambda: [envs.publisher.look(), reader.latest_frame()][1] is not None, "a frame")  # type: ignore[func-returns-value]
        frame = reader.latest_frame()
        assert frame is not None
        np.testing.assert_array_equal(frame.array, lanekit.tile_frames(list(made.render() or ())))
    envs.close()


def test_environments_in_other_processes_must_be_wrapped_there(run_id: str) -> None:
    envs = FastLaneVectorWrapper(gymnasium.vector.AsyncVectorEnv([worlds.Counter] * 2), run_id)
    envs.reset()
    with pytest.warns(FastLaneWarning, match="wrap_env_fns"):
        envs.step(np.zeros(2, int))
    envs.step(np.zeros(2, int))
    envs.close()


def test_probe_environments_leave_no_trace(run_id: str) -> None:
    """AsyncVectorEnv makes an environment in this process, only to ask for its spaces."""
    envs = gymnasium.vector.AsyncVectorEnv(wrap_env_fns([worlds.Counter] * 2, run_id))
    envs.reset()
    assert lanes_of(run_id) == []
    envs.step(np.zeros(2, int))
    assert lanes_of(run_id) == [run_id]
    envs.close()


def test_a_killed_environment_process_leaves_the_others_in_the_grid(run_id: str) -> None:
    options = json.dumps({"video_mode": "grid", "rendering": "in-process"})
    with Training(trainer.vector, run_id, "async", "fork", options) as training:
        with training.reader() as reader:
            for frame, note in frames(reader, 3):
                check_grid(frame, note.tiles)
        # Killing the whole family: everything goes, segments of killed processes included.
        training.process.kill()
        training.process.communicate()
    until(lambda: run_id not in lanes_of(run_id), "the run's lane removed")
    for left in lanes_of(run_id):
        lanekit.reclaim_segment(lanekit.segment_name("frame", left))


def test_a_wrapper_that_was_copied_goes_on_counting(run_id: str) -> None:
    envs = FastLaneVectorWrapper(gymnasium.vector.SyncVectorEnv([worlds.Counter] * 2), run_id)
    envs.reset()
    envs.step(np.zeros(2, int))
    copied = copy.deepcopy(envs)
    envs.close()
    copied.step(np.zeros(2, int))
    assert copied.publisher.tally is copied.tally
    assert copied.tally.steps == 4
    copied.close()


class Short(worlds.Counter):
    """Ends after so many steps, each worth as much."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.steps = 0
        return super().reset(seed=seed)

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.steps, float(self.length), False, self.steps == self.length, {}


def short_envs(mode: str) -> gymnasium.vector.SyncVectorEnv:
    modes = gymnasium.vector.AutoresetMode
    return gymnasium.vector.SyncVectorEnv(
        [lambda: Short(2), lambda: Short(3)], autoreset_mode=modes[mode]
    )


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
def test_telemetry_hears_of_every_step_and_episode_and_of_no_reset(run_id: str, mode: str) -> None:
    heard = Heard()
    envs = FastLaneVectorWrapper(short_envs(mode), run_id, telemetry=heard)
    envs.reset()
    for _ in range(12):
        _, _, terminated, truncated, _ = envs.step(np.zeros(2, int))
        over = np.logical_or(terminated, truncated)
        if mode == "DISABLED" and over.any():
            envs.reset(options={"reset_mask": over})
    envs.close()
    steps_of_an_episode = {"env-0": 2, "env-1": 3}
    for agent, length in steps_of_an_episode.items():
        steps = [step[1:] for step in heard.steps if step[0] == agent]
        assert steps == [
            (number // length, number % length, float(length), number % length == length - 1)
            for number in range(len(steps))
        ]
        told = [episode[1:] for episode in heard.episodes if episode[0] == agent]
        assert told == [(number, length**2, length) for number in range(len(told))]
        # A reset at the next step takes the place of one.
        calls = length + (mode == "NEXT_STEP")
        assert len(told) == 12 // calls
    assert envs.tally.steps == len(heard.steps)
    assert envs.tally.episodes == len(heard.episodes)
    assert set(envs.tally.returns) == {4.0, 9.0}


def test_an_episode_cut_short_by_a_reset_is_not_told_and_not_added_to_the_next(run_id: str) -> None:
    heard = Heard()
    envs = FastLaneVectorWrapper(short_envs("NEXT_STEP"), run_id, telemetry=heard)
    envs.reset()
    envs.step(np.zeros(2, int))
    envs.step(np.zeros(2, int))  # environment 0 is over, and would be reset by the next step
    envs.reset()
    for _ in range(3):
        envs.step(np.zeros(2, int))
    envs.close()
    assert heard.episodes == [("env-0", 0, 4.0, 2), ("env-0", 1, 4.0, 2), ("env-1", 1, 9.0, 3)]
    assert list(envs.tally.returns) == [4.0, 4.0, 9.0]


def test_a_slot_that_does_not_exist_is_told_at_once() -> None:
    envs = gymnasium.vector.SyncVectorEnv([worlds.Counter] * 2)
    with pytest.raises(ValueError, match="slot 2 does not exist"):
        FastLaneVectorWrapper(envs, "run", slot=2)


def test_tiles_of_different_sizes_get_a_margin() -> None:
    large, small = np.ones((4, 6, 3), np.uint8), np.ones((2, 3, 3), np.uint8)
    whole = fitted([small, None, large])
    assert [tile.shape for tile in whole] == [(4, 6, 3)] * 3
    assert [int(tile.sum()) for tile in whole] == [18, 0, 72]
