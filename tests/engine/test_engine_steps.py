"""Stepping an engine through its lane, in the thread of a trainer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from served_engine import Serve

from lanekit import PlaceTaken, RemoteError, WaitTimeout
from lanekit.command import messages as m
from lanekit.engine import EngineClient, SimulationContract, StepArrays, VectorSimulation
from lanekit.engine.pace import Mode
from lanekit.step import StepClient
from patience import patience, until

Connect = Callable[[], EngineClient]


def random_actions(count: int, size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, (count, size)).astype(np.float32)


def test_the_lane_brings_the_numbers_of_the_same_simulation_in_process(
    serve: Serve, client: Connect
) -> None:
    serve("hopper", 6, seed=11)
    trainer = client()
    here = VectorSimulation("hopper", 6, seed=11)
    out = StepArrays.allocate(6, here.obs_size)
    np.testing.assert_array_equal(trainer.reset(seed=40), _reset(here, out, range(40, 46)))
    for step in range(120):
        actions = random_actions(6, 3, step)
        obs, rewards, dones, truncateds = trainer.step(actions)
        here.step(actions, out)
        np.testing.assert_array_equal(obs, out.obs)
        np.testing.assert_array_equal(rewards, out.rewards)
        np.testing.assert_array_equal(dones, out.dones)
        np.testing.assert_array_equal(truncateds, out.truncateds)
        over = out.dones | out.truncateds
        assert trainer.lane.final_obs is not None
        assert out.final_obs is not None
        np.testing.assert_array_equal(trainer.lane.final_obs[over], out.final_obs[over])
        np.testing.assert_array_equal(
            trainer.lane.infos["_final_info/episode_return"].astype(bool), over
        )
    assert here.steps == 120


def _reset(simulation: VectorSimulation, out: StepArrays, seeds: range) -> np.ndarray:
    simulation.reset(out, seeds=list(seeds))
    return out.obs


def test_two_halves_by_turns_bring_the_same_numbers(serve: Serve, client: Connect) -> None:
    serve("hopper", 5, seed=2, pipelined=True)
    trainer = client()
    here = VectorSimulation("hopper", 5, seed=2)
    out = StepArrays.allocate(5, here.obs_size)
    here.reset(out, seeds=[7, 8, 9, 10, 11])
    np.testing.assert_array_equal(trainer.reset(seed=7), out.obs)
    for step in range(30):
        actions = random_actions(5, 3, step)
        here.step(actions, out)
        np.testing.assert_array_equal(trainer.step(actions).obs, out.obs)


def test_only_the_chosen_environments_are_reset(serve: Serve, client: Connect) -> None:
    serve("hopper", 4)
    trainer = client()
    trainer.reset(seed=1)
    before = trainer.step(random_actions(4, 3, 0)).obs.copy()
    after = trainer.reset([1, 3], seed=5)
    np.testing.assert_array_equal(after[[0, 2]], before[[0, 2]])
    assert (after[[1, 3]] != before[[1, 3]]).any(axis=1).all()
    contract = SimulationContract(friction=(0.5, 0.6))
    again = trainer.reset([2], contract=contract, seed=9).copy()
    np.testing.assert_array_equal(again[[0, 1, 3]], after[[0, 1, 3]])
    assert trainer.last_reset is not None
    assert trainer.last_reset.env_ids.tolist() == [2]
    assert 0.5 <= trainer.last_reset.friction[0] <= 0.6
    assert trainer.last_reset.simulation_contract is not None
    assert trainer.last_reset.simulation_contract.friction_range == m.Range(0.5, 0.6)


def test_the_description_is_one_that_the_gymnasium_adapter_reads(
    serve: Serve, client: Connect
) -> None:
    serve("humanoid", 2)
    trainer = client()
    said = json.loads(trainer.config.description)
    assert said["gymnasium"] == 1
    assert said["autoreset_mode"] == "SameStep"
    assert said["observation_space"] == {
        "kind": "Box",
        "low": "-inf",
        "high": "inf",
        "shape": [trainer.config.obs_size],
        "dtype": "<f4",
    }
    assert said["action_space"]["low"] == -1.0
    assert said["action_space"]["shape"] == [trainer.config.act_size]
    assert set(said["infos"]) <= set(trainer.config.infos)
    stepping = pytest.importorskip("lanekit.integrations.stepping")
    trainer.close()
    envs = stepping.LaneVectorEnv(trainer.lane.name)
    try:
        obs, _ = envs.reset(seed=1)
        assert obs in envs.observation_space
        for _ in range(5):
            obs, _, _, _, infos = envs.step(envs.action_space.sample())
        assert obs in envs.observation_space
        assert infos["episode_length"].tolist() == [5, 5]
    finally:
        envs.close()


def test_a_second_trainer_is_told_that_the_place_is_taken(serve: Serve, client: Connect) -> None:
    serve("cartpole", 2)
    trainer = client()
    with pytest.raises(PlaceTaken):
        EngineClient(trainer.lane.name, timeout=0.0)
    trainer.close()
    with EngineClient(trainer.lane.name, timeout=patience()) as successor:
        assert successor.reset(seed=1).shape == (2, 4)


# --- modes ----------------------------------------------------------------------------------------


def test_a_pause_holds_steps_and_lets_a_number_of_them_through(
    serve: Serve, client: Connect
) -> None:
    served = serve("cartpole", 2)
    trainer = client()
    trainer.reset(seed=1)
    assert trainer.set_simulation_mode(m.SimulationMode.PAUSED) == m.SimulationMode.PAUSED
    with pytest.raises(WaitTimeout):
        trainer.step(np.zeros((2, 1), np.float32), timeout=0.05)
    assert served.simulation.steps == 0
    trainer.set_simulation_mode(m.SimulationMode.PAUSED, steps=2)
    trainer.lane.recv(patience())
    trainer.step(timeout=patience())
    with pytest.raises(WaitTimeout):
        trainer.step(timeout=0.05)
    assert served.simulation.steps == 2
    assert trainer.simulation_mode().steps_left == 0
    trainer.set_simulation_mode(m.SimulationMode.DETERMINISTIC)
    trainer.lane.recv(patience())
    assert served.simulation.steps == 3


def test_resets_and_commands_go_through_a_pause(serve: Serve, client: Connect) -> None:
    served = serve("cartpole", 2, mode=Mode.PAUSED)
    trainer = client()
    first = trainer.reset(seed=1).copy()
    assert (trainer.reset(seed=2) != first).any()
    with pytest.raises(WaitTimeout):
        trainer.step(np.zeros((2, 1), np.float32), timeout=0.05)
    assert trainer.simulation_mode().mode == m.SimulationMode.PAUSED
    assert served.simulation.steps == 0


def test_a_trainer_that_dies_in_a_pause_is_followed_by_one_that_ends_it(
    serve: Serve, lane: str
) -> None:
    serve("cartpole", 2, mode=Mode.PAUSED)
    code = (
        "import sys, time; from lanekit.step import StepClient\n"
        "client = StepClient.attach(sys.argv[1], timeout=None); client.send()\n"
        "print('sent', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, lane], stdout=subprocess.PIPE, text=True
    ) as trainer:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == "sent\n"
        trainer.kill()
    with EngineClient(lane, timeout=patience()) as successor:
        successor.set_simulation_mode(m.SimulationMode.DETERMINISTIC)
        successor.reset(seed=1)
        successor.step(np.zeros((2, 1), np.float32), timeout=patience())


def test_in_real_time_steps_wait_for_the_clock(serve: Serve, client: Connect) -> None:
    served = serve("cartpole", 2)
    trainer = client()
    trainer.reset(seed=1)
    now = [1.0]
    served.engine.pace._clock = lambda: now[0]
    trainer.set_simulation_mode(m.SimulationMode.REALTIME)
    trainer.step(np.zeros((2, 1), np.float32), timeout=patience())  # the first is made at once
    for made in range(1, 4):
        with pytest.raises(WaitTimeout):
            trainer.step(np.zeros((2, 1), np.float32), timeout=0.05)
        assert served.simulation.steps == made
        now[0] += 1.01 * trainer.schema().step_seconds
        trainer.lane.recv(patience())
        assert served.simulation.steps == made + 1


def test_without_a_trainer_the_engine_steps_by_itself_with_the_controls_sent(
    serve: Serve, client: Connect
) -> None:
    served = serve("cartpole", 2, task="free")
    trainer = client()
    trainer.send_control([0.5], env=1)
    trainer.set_simulation_mode(m.SimulationMode.FAST)
    untouched = trainer.obs.copy()
    trainer.close()
    until(lambda: abs(served.simulation.state.qpos[1, 0]) > 0.05, "a move")
    assert abs(served.simulation.state.qpos[0, 0]) < 0.01
    with StepClient.attach(trainer.lane.name, timeout=patience()) as successor:
        # What the engine did by itself stayed out of the lane.
        np.testing.assert_array_equal(successor.obs, untouched)
        steps = served.simulation.steps
        successor.reset(seed=1)
        assert served.simulation.steps >= steps


def test_a_number_of_steps_goes_only_with_a_pause(serve: Serve, client: Connect) -> None:
    serve("cartpole", 1)
    trainer = client()
    with pytest.raises(RemoteError, match="goes with the mode 'paused'"):
        trainer.set_simulation_mode(m.SimulationMode.FAST, steps=3)
