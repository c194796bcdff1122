"""A trainer's vector environment behind a lane does what Gymnasium's own would, bit by bit."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import gymnasium
import lane_worlds
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers import vector as vector_wrappers
from lane_serving import check_nothing_left, served

from lanekit import OutOfTurn, PlaceTaken, SegmentNotFound, StepServer, WaitTimeout
from lanekit.integrations import LaneVectorEnv
from lanekit.integrations.stepping import LaneDescription
from patience import patience

pytestmark = pytest.mark.once

MODES = list(AutoresetMode)
STEPS = 300


@pytest.fixture
def name(run_id: str) -> Iterator[str]:
    """A lane's name that nobody else uses, and of which nothing may be left."""
    yield run_id
    check_nothing_left(run_id)


def short(env_id: str, **kwargs: Any) -> Callable[[], gymnasium.Env[Any, Any]]:
    """Make the environment with episodes that end within the test."""
    return lambda: gymnasium.make(env_id, max_episode_steps=40, **kwargs)


def counted() -> gymnasium.Env[Any, Any]:
    return RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))


WORLDS: dict[str, tuple[Callable[[], Any], dict[str, str]]] = {
    "CartPole": (counted, {"episode/r": "float64", "episode/l": "int64"}),
    "Pendulum": (short("Pendulum-v1"), {}),
    "Acrobot": (short("Acrobot-v1"), {}),
    "FrozenLake": (short("FrozenLake-v1"), {}),
    "Slots": (lane_worlds.Slots, lane_worlds.INFOS),
    "Switches": (lane_worlds.Switches, lane_worlds.INFOS),
    "Pictures": (lane_worlds.Pictures, lane_worlds.INFOS),
    "Scalar": (lane_worlds.Scalar, lane_worlds.INFOS),
}


def in_process(make: Callable[[], Any], num_envs: int, mode: AutoresetMode) -> SyncVectorEnv:
    return SyncVectorEnv([make] * num_envs, autoreset_mode=mode)


def carried(infos: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """What of Gymnasium's infos the lane was told to carry."""
    inner: dict[str, set[str]] = {}
    for name in names:
        first, _, rest = name.partition("/")
        inner.setdefault(first, set()).add(rest)
    found = {}
    for key, value in infos.items():
        bare = key.removeprefix("_")
        if bare == "final_info" and isinstance(value, dict):
            found[key] = carried(value, names)
        elif bare in ("final_info", "final_obs"):
            found[key] = value
        elif bare in inner and isinstance(value, dict):
            found[key] = {k: v for k, v in value.items() if k.removeprefix("_") in inner[bare]}
        elif bare in inner:
            found[key] = value
    return found


def check_same(found: Any, expected: Any, where: str = "") -> None:
    """The same keys, types and bits; nothing about the order of keys."""
    if isinstance(expected, dict):
        assert set(found) == set(expected), where
        for key in expected:
            check_same(found[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, np.ndarray) and expected.dtype == object:
        assert found.dtype == object, where
        for mine, theirs in zip(found, expected, strict=True):
            assert (mine is None) == (theirs is None), where
            np.testing.assert_array_equal(mine, theirs, where)
    else:
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), where
        assert found.tobytes() == expected.tobytes(), where


def check_like_in_process(
    lane: VectorEnv[Any, Any, Any],
    local: VectorEnv[Any, Any, Any],
    infos: dict[str, str],
    steps: int = STEPS,
) -> int:
    """Step both with the same actions; return how many episodes ended."""
    episodes = 0
    mode = local.metadata["autoreset_mode"]
    local.action_space.seed(5)
    found, expected = lane.reset(seed=11), local.reset(seed=11)
    check_same(found[0], expected[0], "reset")
    check_same(found[1], carried(expected[1], infos), "reset")
    for number in range(steps):
        actions = local.action_space.sample()
        found, expected = lane.step(actions), local.step(actions)
        for which, mine, theirs in zip(
            ("observations", "rewards", "terminated", "truncated"), found, expected, strict=False
        ):
            check_same(mine, theirs, f"step {number}: {which}")
        if "episode" in found[4]:
            found[4]["episode"].pop("t", None)  # how long it took, if a wrapper here says so
        check_same(found[4], carried(expected[4], infos), f"step {number}: infos")
        over = expected[2] | expected[3]
        episodes += int(over.sum())
        if mode is AutoresetMode.DISABLED and over.any():
            seeds = [number * 10 + i if i % 2 else None for i in range(local.num_envs)]
            found = lane.reset(seed=seeds, options={"reset_mask": over.copy()})
            expected = local.reset(seed=seeds, options={"reset_mask": over.copy()})
            check_same(found[0], expected[0], f"reset after {number}")
            check_same(found[1], carried(expected[1], infos), f"reset after {number}")
    return episodes


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("world", WORLDS)
def test_results_are_those_of_an_environment_in_this_process(
    name: str, world: str, mode: AutoresetMode
) -> None:
    make, infos = WORLDS[world]
    local = in_process(make, 3, mode)
    with served(make, 3, name, autoreset_mode=mode, infos=infos):
        lane = LaneVectorEnv(name)
        assert lane.single_observation_space == local.single_observation_space
        assert lane.single_action_space == local.single_action_space
        assert lane.observation_space == local.observation_space
        assert lane.action_space == local.action_space
        assert (lane.metadata, lane.num_envs) == (local.metadata, local.num_envs)
        assert check_like_in_process(lane, local, infos) > 10
        lane.close()
    local.close()


@pytest.mark.parametrize(
    ("world", "mode", "workers"),
    [
        ("CartPole", AutoresetMode.NEXT_STEP, 2),
        ("Pictures", AutoresetMode.SAME_STEP, 3),
        ("Slots", AutoresetMode.DISABLED, 5),
    ],
)
def test_several_processes_write_the_same_into_one_lane(
    name: str, world: str, mode: AutoresetMode, workers: int
) -> None:
    make, infos = WORLDS[world]
    local = in_process(make, 5, mode)
    with served(make, 5, name, autoreset_mode=mode, infos=infos, workers=workers) as server:
        assert len(set(server.worker_pids)) == workers
        lane = LaneVectorEnv(name)
        assert check_like_in_process(lane, local, infos) > 10
        lane.close()
    local.close()


def test_it_is_what_gymnasiums_wrappers_expect(name: str) -> None:
    def wrapped(envs: VectorEnv[Any, Any, Any]) -> VectorEnv[Any, Any, Any]:
        counting = vector_wrappers.RecordEpisodeStatistics(envs)
        return vector_wrappers.NormalizeObservation(vector_wrappers.ClipReward(counting, -1, 0.5))

    infos = {"episode/r": "f8", "episode/l": "i8"}  # of the wrapper, on this side
    with served("CartPole-v1", 2, name):
        lane = wrapped(LaneVectorEnv(name))
        local = wrapped(gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync"))
        assert isinstance(lane.unwrapped, VectorEnv)
        assert check_like_in_process(lane, local, infos) > 5
        lane.close()
        assert lane.unwrapped.closed


def test_it_keeps_gymnasiums_promises_about_what_it_returns(name: str) -> None:
    """What Gymnasium's own tests ask of a vector environment."""
    with served("FrozenLake-v1", 3, name):
        with pytest.raises(TypeError):
            LaneVectorEnv(name, True)  # type: ignore[misc]
        envs = LaneVectorEnv(name)
        observations, infos = envs.reset(seed=1)
        assert observations in envs.observation_space
        assert infos == {}
        again, _ = envs.reset(seed=[1, 2, 3])
        assert data_equivalence(observations, again, exact=True)
        for _ in range(20):
            observations, rewards, terminated, truncated, infos = envs.step(
                envs.action_space.sample()
            )
            assert observations in envs.observation_space
            assert (rewards.dtype, rewards.shape) == (np.float64, (3,))
            for flags in (terminated, truncated):
                assert (flags.dtype, flags.shape) == (np.bool_, (3,))
        assert envs.metadata["autoreset_mode"] is envs.autoreset_mode
        assert envs.unwrapped is envs
        assert repr(envs) == f"LaneVectorEnv({name!r}, FrozenLake-v1, num_envs=3)"
        envs.close()
        envs.close()
        assert envs.closed


def test_a_function_that_makes_environments_can_hold_on_to_something(name: str) -> None:
    length = 7

    class Timed(lane_worlds.Scalar):
        def step(self, action: Any) -> Any:
            obs, reward, _, _, info = super().step(action)
            return obs, reward, False, self.left % length == 0, info

    with served(Timed, 2, name, workers=2):  # which no other process could import
        envs = LaneVectorEnv(name)
        envs.reset(seed=1)
        assert sum(envs.step(np.zeros(2, int))[3].sum() for _ in range(2 * length)) > 0
        envs.close()


def test_observations_can_be_the_shared_memory_itself(name: str) -> None:
    with served(lane_worlds.Pictures, 2, name) as server:
        envs = LaneVectorEnv(name, copy=False)
        first, _ = envs.reset(seed=1)
        kept = first.copy()
        address = envs._client.base + envs._client.offsets["obs"]
        assert first.ctypes.data == address
        second = envs.step(envs.action_space.sample())[0]
        assert second.ctypes.data == address
        np.testing.assert_array_equal(first, second)
        assert not np.array_equal(kept, second)
        np.testing.assert_array_equal(server.lane.obs.reshape(second.shape), second)
        envs.close()
        np.testing.assert_array_equal(first, second)  # a view never dangles


def test_what_was_returned_is_the_trainers_to_keep(name: str) -> None:
    local = in_process(lane_worlds.Pictures, 2, AutoresetMode.SAME_STEP)
    with served(lane_worlds.Pictures, 2, name, autoreset_mode="SameStep", infos=lane_worlds.INFOS):
        envs = LaneVectorEnv(name)
        kept, expected = [envs.reset(seed=1)], [local.reset(seed=1)]
        for _ in range(20):
            actions = local.action_space.sample()
            kept.append(envs.step(actions))
            expected.append(local.step(actions))
        envs.close()
        for mine, theirs in zip(kept, expected, strict=True):
            for which in range(len(theirs) - 1):
                check_same(mine[which], theirs[which])
            check_same(mine[-1], carried(theirs[-1], lane_worlds.INFOS))


def test_an_environment_may_keep_its_action(name: str) -> None:
    kept = []

    class Keeping(lane_worlds.Pictures):
        def step(self, action: Any) -> Any:
            kept.append(action)
            return super().step(action)

    with served(Keeping, 1, name):
        envs = LaneVectorEnv(name)
        envs.reset(seed=1)
        for number in range(3):
            envs.step(np.full((1, 2), number / 4, np.float32))
        envs.close()
    assert [action.tolist() for action in kept] == [[0, 0], [0.25, 0.25], [0.5, 0.5]]


def test_seeds_belong_to_numbers_of_environments_also_when_some_are_reset(name: str) -> None:
    mask = np.array([False, True, False, True])
    local = in_process(lane_worlds.Scalar, 4, AutoresetMode.DISABLED)
    with served(lane_worlds.Scalar, 4, name, autoreset_mode="Disabled"):
        envs = LaneVectorEnv(name)
        for seed in (3, [5, None, 2**64 - 1, 8], np.int64(4)):
            plain = seed if isinstance(seed, list) else int(seed)
            for options in (None, {}, {"reset_mask": mask}):
                given = None if options is None else dict(options)
                found, _ = envs.reset(seed=seed, options=options)  # type: ignore[arg-type]
                expected, _ = local.reset(seed=plain, options=given)
                if not isinstance(seed, list):
                    check_same(found, expected)
                else:
                    check_same(found[[0, 2, 3]], expected[[0, 2, 3]])
        assert "reset_mask" in {"reset_mask": mask}
        envs.close()


def test_pictures_come_with_the_steps_if_asked_for(name: str) -> None:
    local = in_process(
        lambda: lane_worlds.Scalar(render_mode="rgb_array"), 2, AutoresetMode.NEXT_STEP
    )
    options = {"image": True, "workers": 2}
    with served("lane_worlds:Scalar-v0", 2, name, **options):
        envs = LaneVectorEnv(name)
        assert envs.render_mode == "rgb_array"
        envs.reset(seed=2)
        local.reset(seed=2)
        for _ in range(20):
            actions = local.action_space.sample()
            envs.step(actions)
            local.step(actions)
            for mine, theirs in zip(envs.render(), local.render(), strict=True):
                np.testing.assert_array_equal(mine, theirs)
        envs.close()


def test_a_step_can_be_begun_and_waited_for_later(name: str) -> None:
    gate = threading.Event()
    with served(lambda: lane_worlds.Gated(gate), 2, name):
        envs = LaneVectorEnv(name, timeout=patience())
        envs.reset(seed=1)
        envs._timeout = 0.05  # from now on: what comes next is not to be in time
        with pytest.raises(OutOfTurn, match="step_async"):
            envs.step_wait()
        envs.step_async(np.zeros(2, int))
        with pytest.raises(WaitTimeout):
            envs.step_wait()
        with pytest.raises(WaitTimeout):
            envs.step_wait(timeout=0)
        with pytest.raises(OutOfTurn, match="reset\\(\\) drops"):
            envs.step(np.zeros(2, int))
        with pytest.raises(OutOfTurn, match="step_wait"):
            envs.step_async(np.zeros(2, int))
        gate.set()
        assert envs.step_wait(timeout=patience())[0].shape == (2,)
        gate.clear()
        with pytest.raises(WaitTimeout, match="not completed in time"):
            envs.step(np.zeros(2, int))
        gate.set()
        envs._timeout = 60
        envs.reset(seed=1)  # what was under way is dropped
        envs.step(np.zeros(2, int))
        envs.close()


def test_misuse_is_told_and_leaves_everything_as_it_was(name: str) -> None:
    with served(lane_worlds.Pictures, 2, name, autoreset_mode=AutoresetMode.DISABLED):
        envs = LaneVectorEnv(name)
        good = np.zeros((2, 2), np.float32)
        with pytest.raises(ResetNeeded, match="environments 0, 1 have to be reset first"):
            envs.step(good)
        envs.reset(seed=1, options={"reset_mask": np.array([True, False])})
        with pytest.raises(ResetNeeded, match="environments 1 have"):
            envs.step(good)
        envs.reset(seed=1)
        for wrong in (np.zeros(2), good.T[:1], np.zeros((3, 2)), 1.0):
            with pytest.raises(ValueError, match="actions have shape"):
                envs.step(wrong)
        with pytest.raises(TypeError, match="float32"):
            envs.step(np.zeros((2, 2), complex))
        with pytest.raises(ValueError, match="a seed is from 0"):
            envs.reset(seed=-1)
        with pytest.raises(ValueError, match="as many seeds"):
            envs.reset(seed=[1])
        with pytest.raises(ValueError, match="no options of a reset but"):
            envs.reset(options={"low": 1})
        with pytest.raises(TypeError, match="array of bool"):
            envs.reset(options={"reset_mask": [True, False]})
        with pytest.raises(TypeError, match="array of bool, not int64"):
            envs.reset(options={"reset_mask": np.array([0, 1])})
        for mask in (np.zeros(2, bool), np.ones(3, bool)):
            with pytest.raises(ValueError, match="at least one of them true"):
                envs.reset(options={"reset_mask": mask})
        with pytest.raises(NotImplementedError, match="image=True"):
            envs.render()
        for refused in (
            lambda: envs.call("render"),
            lambda: envs.get_attr("left"),
            lambda: envs.set_attr("left", 3),
        ):
            with pytest.raises(NotImplementedError, match="live in another process"):
                refused()
        with pytest.raises(TypeError, match="can not be pickled"):
            copy.deepcopy(envs)
        over = np.zeros(2, bool)
        while not over.any():
            _, _, terminated, truncated, _ = envs.step(good)
            over = terminated | truncated
        with pytest.raises(ResetNeeded, match="autoreset is disabled"):
            envs.step(good)
        envs.reset(options={"reset_mask": over})
        envs.step(good)
        envs.close()
        for closed in (lambda: envs.step(good), envs.reset, envs.render, envs.step_wait):
            with pytest.raises(ClosedEnvironmentError):
                closed()


def test_a_lane_has_one_trainer_and_the_next_one_begins_anew(name: str) -> None:
    with pytest.raises(SegmentNotFound, match="start its server first"):
        LaneVectorEnv(name, timeout=0)
    with served("CartPole-v1", 2, name):
        first = LaneVectorEnv(name)
        with pytest.raises(PlaceTaken):
            LaneVectorEnv(name, timeout=0)
        first.reset(seed=1)
        for _ in range(5):
            first.step(np.zeros(2, int))
        first.close()
        second = LaneVectorEnv(name)
        with pytest.raises(ResetNeeded):
            second.step(np.zeros(2, int))
        second.reset(seed=1)
        second.close()


def test_without_a_name_the_environment_variable_gives_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCKY_SHM_NAME", name)
    with served("CartPole-v1", 1, None):  # type: ignore[arg-type]
        envs = LaneVectorEnv()
        envs.reset(seed=1)
        envs.close()
    monkeypatch.delenv("LUCKY_SHM_NAME")
    with pytest.raises(ValueError, match="LUCKY_SHM_NAME"):
        LaneVectorEnv()


def test_the_lane_is_as_large_as_its_spaces(name: str) -> None:
    with served(lane_worlds.Pictures, 2, name, autoreset_mode="SameStep", infos=["left"]) as server:
        config = server.lane.config
        assert (config.obs_size, config.obs_dtype) == (7 * 5 * 3, np.uint8)
        assert (config.act_size, config.act_dtype) == (2, np.float32)
        assert config.reward_dtype == np.float64
        assert config.final_obs
        assert isinstance(LaneVectorEnv(name).single_observation_space, spaces.Box)


def test_an_engine_that_steps_in_two_halves_is_stepped_whole(name: str) -> None:
    description = LaneDescription(
        spaces.Box(-9, 9, (2,)), spaces.Discrete(9), AutoresetMode.NEXT_STEP
    )
    config = replace(description.lane_config(5, None), pipelined=True)
    with StepServer.create(name, config) as engine:

        def serve() -> None:
            for _ in range(2 * 3):
                exchange = engine.wait_actions(patience())
                assert exchange is not None
                engine.obs[exchange.envs] = engine.actions[exchange.envs]
                engine.rewards[exchange.envs] = exchange.number
                engine.commit()

        thread = threading.Thread(target=serve)
        thread.start()
        envs = LaneVectorEnv(name)
        envs.reset()
        for step in (envs.step, lambda actions: [envs.step_async(actions), envs.step_wait()][1]):
            observations, rewards, *_ = step(np.arange(5))
            assert observations[:, 1].tolist() == [0, 1, 2, 3, 4]
            assert (np.diff(rewards) == [0, 0, 1, 0]).all()
        thread.join()
        envs.close()
