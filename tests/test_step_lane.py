"""The step lane between two ends of one process: what each call promises.

With both ends in one process an exchange is send, wait_actions, commit, recv, in this order, and
nothing waits. What needs two processes is in the other test_step_*.py.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lanekit
from lanekit import StepClient, StepLaneConfig, StepServer
from lanekit.step import inspect_steps
from patience import patience


def exchange(server: StepServer, client: StepClient) -> lanekit.StepExchange:
    """Let the server complete what the client has sent; it copies the actions' first column."""
    asked = server.wait_actions(patience())
    assert asked is not None
    envs = asked.envs
    server.obs[envs] = server.actions[envs, :1].astype(server.obs.dtype)
    server.commit()
    return asked


# --- exchanges ------------------------------------------------------------------------------------


def test_an_exchange_carries_everything_both_ways(lane: str) -> None:
    with StepServer.create(lane, 6, 3, 2) as server, StepClient.attach(lane) as client:
        for n in range(1, 200):
            actions = np.full((6, 2), n, np.float32)
            sent = client.send(actions)
            asked = server.wait_actions(patience())
            assert asked == sent == (n, "step", 0, slice(0, 6))
            assert np.array_equal(server.actions, actions)
            server.obs[:], server.rewards[:] = 2 * n, -n
            server.dones[:], server.truncateds[:] = n % 2 == 0, n % 3 == 0
            server.commit()
            obs, rewards, dones, truncateds = client.recv(patience())
            assert (obs == 2 * n).all()
            assert (rewards == -n).all()
            assert (dones == (n % 2 == 0)).all()
            assert (truncateds == (n % 3 == 0)).all()
            assert client.state == server.state
            assert (client.state.sent, client.state.completed) == (n, n)
        assert (dones.dtype, truncateds.dtype) == (np.bool_, np.bool_)


def test_reset_flags_and_seeds_arrive_and_are_cleared(lane: str) -> None:
    asked: list[tuple[str, list[int], list[int]]] = []
    with StepServer.create(lane, 4, 2, 1) as server, StepClient.attach(lane) as client:

        def reset(*arguments: Any, **options: Any) -> npt.NDArray[Any]:
            """Send a reset whose answer is there already when the client looks for it."""
            with pytest.raises(lanekit.WaitTimeout):
                client.reset(*arguments, **options, timeout=0)
            exchange = server.wait_actions(patience())
            assert exchange is not None
            seeds = server.seeds[server.resets == 2].tolist()
            asked.append((exchange.request, server.resets.tolist(), seeds))
            server.obs[server.resets != 0] = 7
            server.commit()
            return client.recv(patience()).obs

        assert (reset() == 7).all()
        reset(seed=10)
        reset([2, 0], seed=[5, 2**64 - 1])
        reset(np.array([False, True, False, True]))
        reset([3, 1], seed=[None, 8])
        reset([])
        assert asked == [
            ("reset", [1, 1, 1, 1], []),
            ("reset", [2, 2, 2, 2], [10, 11, 12, 13]),
            ("reset", [2, 0, 2, 0], [2**64 - 1, 5]),
            ("reset", [0, 1, 0, 1], []),
            ("reset", [0, 2, 0, 1], [8]),
            ("reset", [0, 0, 0, 0], []),
        ]
        client.resets[1] = 1  # with a step: the flagged are reset, the others stepped
        client.send(np.zeros((4, 1), np.float32))
        exchange = server.wait_actions(patience())
        assert exchange is not None
        assert (exchange.request, server.resets.tolist()) == ("step", [0, 1, 0, 0])
        server.commit()
        assert client.resets.tolist() == [0, 0, 0, 0]
        client.recv(patience())


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        ([[4]], {}, ValueError, "from 0 to 3"),
        ([[-1]], {}, ValueError, "from 0 to 3"),
        ([[0.5]], {}, TypeError, "whole numbers or a mask"),
        ([[True, False]], {}, ValueError, "4 entries"),
        ([[0, 1]], {"seed": [1]}, ValueError, "2 environments are reset, but 1 seeds"),
        ([[0, 1]], {"seed": [1, -1]}, ValueError, "from 0 to 2"),
        ([[0, 1]], {"seed": [1, 2**64]}, ValueError, "from 0 to 2"),
        ([[0, 1]], {"seed": 2**64 - 1}, ValueError, "from 0 to 2"),
    ],
)
def test_a_reset_that_is_refused_flags_nothing(
    lane: str, arguments: Any, options: Any, error: type[Exception], says: str
) -> None:
    with StepServer.create(lane, 4, 2, 1) as server, StepClient.attach(lane) as client:
        with pytest.raises(error, match=says):
            client.reset(*arguments, **options)
        assert server.resets.tolist() == [0, 0, 0, 0]
        assert client.state.sent == 0


def test_halves_take_turns_and_each_is_stepped_once(lane: str) -> None:
    config = StepLaneConfig(5, 1, 1, obs_dtype=np.int64, act_dtype=np.int64, pipelined=True)
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        assert client.next_envs == slice(0, 3)
        client.send(np.full((3, 1), 1))
        for n in range(2, 100):
            half = slice(0, 3) if n % 2 else slice(3, 5)
            assert client.next_envs == half
            sent = client.send(np.full((half.stop - half.start, 1), n))
            assert sent == (n, "step", (n - 1) % 2, half)
            asked = exchange(server, client)  # the half before, while ours waits
            assert asked.number == n - 1
            assert (client.recv(patience()).obs == n - 1).all()
            assert client.under_way == 1
        # The server has seen nothing of the half that is under way.
        before = server.obs[half].copy()
        assert (before == n - 2).all()


def test_a_pipelined_lane_can_also_be_stepped_whole(lane: str) -> None:
    config = StepLaneConfig(5, 1, 1, obs_dtype=np.int64, act_dtype=np.int64, pipelined=True)
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        for n in range(1, 20):
            with pytest.raises(lanekit.WaitTimeout):
                client.step(np.full((5, 1), n), timeout=0)
            assert client.under_way == 2
            exchange(server, client)
            exchange(server, client)
            client.recv(patience())
            assert (client.recv(patience()).obs == n).all()
            assert (client.obs == n).all()
            assert server.state.completed == 2 * n


def test_calls_out_of_turn_are_refused_and_say_what_to_do(lane: str) -> None:
    with StepServer.create(lane, 2, 1, 1) as server, StepClient.attach(lane) as client:
        with pytest.raises(lanekit.OutOfTurn, match=r"call send\(\) first"):
            client.recv(0)
        with pytest.raises(lanekit.OutOfTurn, match="nothing to commit"):
            server.commit()
        client.send()
        for call in (client.send, client.step, client.reset):
            with pytest.raises(lanekit.OutOfTurn, match=r"recv\(\) its results first"):
                call()
        assert server.wait_actions(patience()) is not None
        with pytest.raises(lanekit.OutOfTurn, match=r"call commit\(\) first"):
            server.wait_actions(0)
        server.commit()
        client.recv(patience())
        assert server.wait_actions(0) is None
        assert (server.state.sent, server.state.completed) == (1, 1)


@pytest.mark.parametrize("pipelined", [False, True])
def test_actions_under_way_are_not_overwritten_by_a_call_that_is_refused(
    lane: str, pipelined: bool
) -> None:
    """Else the engine could step a mix of two batches."""
    with (
        StepServer.create(lane, 4, 1, 1, pipelined=pipelined) as server,
        StepClient.attach(lane) as client,
    ):
        with pytest.raises(lanekit.WaitTimeout):
            client.step(np.full((4, 1), 1, np.float32), timeout=0)
        two = np.full((4, 1), 2, np.float32)
        with pytest.raises(lanekit.OutOfTurn):
            client.step(two)
        with pytest.raises(lanekit.OutOfTurn):
            client.send(two[client.next_envs])
        assert (server.actions == 1).all()
        assert client.under_way == (2 if pipelined else 1)
        if pipelined:  # one half is free again: a whole step still is not possible
            exchange(server, client)
            client.recv(patience())
            with pytest.raises(lanekit.OutOfTurn):
                client.step(two)
            assert (server.actions == 1).all()
            assert client.under_way == 1


def test_actions_of_another_shape_or_kind_are_refused_before_anything_is_sent(lane: str) -> None:
    with (
        StepServer.create(lane, 4, 1, 2, act_dtype=np.int32) as server,
        StepClient.attach(lane) as client,
    ):
        with pytest.raises(ValueError, match=re.escape("(4, 2) are expected, got (3, 2)")):
            client.step(np.zeros((3, 2), np.int32))
        with pytest.raises(TypeError, match="int32, which float64 does not fit"):
            client.step(np.zeros((4, 2)))
        assert client.state.sent == 0
        client.send(np.arange(8, dtype=np.int64).tolist())  # as many: takes the lane's shape
        assert server.actions.ravel().tolist() == list(range(8))


# --- names and states -----------------------------------------------------------------------------


def test_the_state_can_be_asked_while_another_thread_steps(lane: str) -> None:
    with StepServer.create(lane, 4, 2, 1) as server, StepClient.attach(lane) as client:
        stepper = threading.Thread(target=client.step)
        stepper.start()
        while client.state.sent == 0:
            pass
        # The engine does not answer before all of this has been told.
        assert (client.state.sent, client.state.completed) == (1, 0)
        assert (client.under_way, client.failure) == (1, "")
        assert stepper.is_alive()
        exchange(server, client)
        stepper.join()
        assert client.under_way == 0
        assert client.state.completed == 1


def test_the_environment_names_the_lane(lane: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCKY_SHM_NAME", lane)
    with StepServer.create(None, 2, 1, 1) as server, StepClient.attach() as client:
        assert server.name == client.name == lane
    monkeypatch.delenv("LUCKY_SHM_NAME")
    with pytest.raises(ValueError, match="LUCKY_SHM_NAME"):
        StepClient.attach()


def test_a_lane_can_be_looked_at_from_outside(lane: str) -> None:
    config = StepLaneConfig(4, 3, 2, obs_dtype=np.uint8, pipelined=True)
    with StepServer.create(lane, config) as server:
        found = inspect_steps(server.segment)
        assert (found.num_envs, found.obs_size, found.act_size) == (4, 3, 2)
        assert (found.obs_dtype, found.act_dtype, found.pipelined) == ("|u1", "<f4", True)
        assert found.state == lanekit.StepState(0, 0, 0, False)
        with StepClient.attach(lane) as client:
            client.send()
            assert inspect_steps(server.segment).state == lanekit.StepState(1, 0, os.getpid(), True)


def test_arrays_are_the_same_objects_every_time(lane: str) -> None:
    """So that a loop makes no garbage."""
    with StepServer.create(lane, 4, 3, 2) as server, StepClient.attach(lane) as client:
        for _ in range(2):
            with pytest.raises(lanekit.WaitTimeout):
                client.step(timeout=0)
            exchange(server, client)
            assert client.recv(patience()).obs.base is not None
        references = sys.getrefcount(client.obs)
        for _ in range(50):
            client.send()
            exchange(server, client)
            client.recv(patience())
        assert sys.getrefcount(client.obs) <= references + 1


def test_no_command_ring_is_needed(lane: str) -> None:
    with StepServer.create(lane, 4, 3, 2, command_ring=0) as server:
        with StepClient.attach(lane) as client:
            client.send()
            exchange(server, client)
            client.recv(patience())
        with StepClient.attach(lane) as client:
            assert client.state.completed == 1
