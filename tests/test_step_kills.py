"""Each step exactly once, over many steps and over SIGKILL at any instant of either end.

The roles at the end of this file run in processes of their own: `python <this file> ROLE ...`.
Those that kill many children fork them from a small single-threaded process that holds no lanekit
handle which the children use: each child creates or attaches for itself. `python -m
tests.step_campaign` runs the same with millions of steps and thousands of kills.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import mmap
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lanekit
from lanekit import StepClient, StepLaneConfig, StepServer, segment_name
from lanekit.segments import segment_path
from lanekit.step import inspect_steps
from patience import patience, until
from role_processes import Processes, fork, kill, outcome

pytestmark = pytest.mark.once  # the core does the work, whatever the Python
LAST_LIFE = 1 << 30  # survivors end when they have met this peer
FRAME_SEQ = 1152  # docs/layout.md
U64 = npt.NDArray[np.uint64]


def path_of(lane: str) -> Path:
    return segment_path(segment_name("step", lane))


def wait_for(first: subprocess.Popen[str], other: subprocess.Popen[str]) -> None:
    """Wait until the first role has ended; if one fails, say so without waiting for the other."""
    while first.poll() is None:
        if other.poll():
            outcome(other)
        time.sleep(0.01)
    if first.returncode:
        outcome(first)


@pytest.fixture
def lane() -> Iterator[str]:
    name = f"step-kills-{uuid.uuid4().hex}"
    yield name
    path_of(name).unlink(missing_ok=True)


# --- each step once -------------------------------------------------------------------------------

LEDGER_ENVS, LEDGER_ACT = 5, 2


class Ledger:
    """A chain over all actions of each environment: one lost, doubled or swapped changes it."""

    def __init__(self) -> None:
        self.state: U64 = np.arange(LEDGER_ENVS, dtype=np.uint64)
        self._weights = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)

    def enter(self, envs: slice, actions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        state = self.state[envs]
        state *= np.uint64(6364136223846793005)
        state += (actions.view(np.uint64) * self._weights).sum(axis=1, dtype=np.uint64)
        return state.view(np.int64)


def ledger_config(pipelined: bool) -> StepLaneConfig:
    return StepLaneConfig(
        *(LEDGER_ENVS, 2, LEDGER_ACT),
        obs_dtype=np.int64,
        act_dtype=np.int64,
        pipelined=pipelined,
    )


class SequenceWord:
    """`frame_seq` as it lies in the file, past all of lanekit."""

    def __init__(self, lane: str) -> None:
        with open(path_of(lane), "rb") as file:
            memory = mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_READ)
        self.word: U64 = np.frombuffer(memory, np.uint64, 1, FRAME_SEQ)

    def __int__(self) -> int:
        return int(self.word[0])


def step_a_ledger(client: StepClient, sequence: SequenceWord, steps: int) -> None:
    """Keep as many exchanges under way as the lane has halves, and check each result."""
    chance = np.random.default_rng(7)
    pool = chance.integers(-(2**62), 2**62, (64, LEDGER_ENVS, LEDGER_ACT))
    ledger = Ledger()
    under_way: list[tuple[int, slice, npt.NDArray[np.int64]]] = []
    halves = 2 if client.config.pipelined else 1
    for number in range(1, steps + 1):
        envs = client.next_envs
        actions = pool[number % 64, envs]
        assert client.send(actions).number == number
        under_way.append((number, envs, ledger.enter(envs, actions).copy()))
        if len(under_way) < halves and number < steps:
            continue
        while under_way and (len(under_way) == halves or number == steps):
            oldest, envs, expected = under_way.pop(0)
            obs = client.recv(patience(250)).obs
            assert (obs[:, 1] == oldest).all(), f"exchange {oldest} brought that of {obs[:, 1]}"
            assert (obs[:, 0] == expected).all(), f"an action before {oldest} is lost or doubled"
            # Ahead only by what is under way, and there only if the server has been quick.
            assert oldest <= int(sequence) <= oldest + len(under_way)
    assert int(sequence) == steps


@pytest.mark.parametrize(
    ("wait", "pipelined", "steps"),
    [
        ("hybrid", False, 20_000),
        ("hybrid", True, 20_000),
        ("block", False, 5_000),
        ("block", True, 5_000),
        ("spin", False, 300),  # without a core of its own it waits for the end of a time slice
    ],
)
def test_each_step_happens_exactly_once(
    lane: str, processes: Processes, wait: Any, pipelined: bool, steps: int
) -> None:
    processes.start(serve_a_ledger, lane, wait, int(pipelined))
    with StepClient.attach(lane, timeout=patience(250), wait=wait) as client:
        step_a_ledger(client, SequenceWord(lane), steps)
        assert (client.state.sent, client.state.completed) == (steps, steps)


# --- kills ----------------------------------------------------------------------------------------

ENVS, OBS, ACT = 1024, 6, 12


def kill_config(pipelined: bool) -> StepLaneConfig:
    return StepLaneConfig(
        *(ENVS, OBS, ACT), obs_dtype=np.int64, act_dtype=np.int64, pipelined=pipelined
    )


def word_of(life: int, number: int) -> int:
    return life << 32 | number


@pytest.mark.parametrize("pipelined", [False, True])
def test_half_written_actions_are_never_stepped_while_clients_are_killed(
    lane: str, processes: Processes, seed: int, pipelined: bool
) -> None:
    found = kill_many_clients(processes, lane, 200, seed, pipelined)
    assert found["killer"]["kills"] == 200
    assert found["server"]["lives"] > 30, "most clients died before their first step"
    assert found["server"]["exchanges"] == found["killer"]["exchanges"]


def test_half_written_observations_are_never_taken_while_servers_are_killed(
    lane: str, processes: Processes, seed: int
) -> None:
    found = kill_many_servers(processes, lane, 60, seed)
    assert found["killer"]["kills"] == 60
    assert found["client"]["lives"] > 20, "most servers died before their first step"
    assert found["client"]["lost"] > 20
    assert not path_of(lane).exists()


def kill_many_clients(
    processes: Processes, lane: str, kills: int, seed: int, pipelined: bool
) -> dict[str, Any]:
    server = processes.start(serve_all_lives, lane, int(pipelined))
    killer = processes.start(kill_clients, lane, kills, seed)
    wait_for(killer, server)
    return {"killer": outcome(killer), "server": outcome(server)}


def kill_many_servers(processes: Processes, lane: str, kills: int, seed: int) -> dict[str, Any]:
    client = processes.start(step_all_lives, lane)
    killer = processes.start(kill_servers, lane, kills, seed)
    wait_for(client, killer)  # it ends when it has met the last server
    return {"killer": outcome(killer), "client": outcome(client)}


# --- roles ----------------------------------------------------------------------------------------


def serve_a_ledger(lane: str, wait: Any, pipelined: str) -> None:
    ledger = Ledger()
    with StepServer.create(lane, ledger_config(pipelined == "1"), wait=wait) as server:
        for number in itertools.count(1):
            exchange = server.wait_actions()
            assert exchange is not None
            assert exchange.number == number
            envs = exchange.envs
            server.obs[envs, 0] = ledger.enter(envs, server.actions[envs])
            server.obs[envs, 1] = number
            server.commit()


def same(array: npt.NDArray[np.int64], word: int) -> bool:
    return bool((array == word).all())


def step_for_ever(lane: str, life: int, counts: U64, steps: float = np.inf) -> None:
    """Be a client until killed: write the actions in pieces, so that kills come in between."""
    with StepClient.attach(lane, timeout=patience(250)) as client:
        halves = 2 if client.config.pipelined else 1
        for number in itertools.count(1):
            if number > steps:
                break
            envs, word = client.next_envs, word_of(life, number)
            if number % 3 == 0:
                client.seeds[envs] = word
                client.resets[envs] = 2
            for piece in np.array_split(client.actions[envs], 4):
                piece[:] = word
            counts[0] = number
            client.send()
            if client.under_way == halves or number == steps:
                oldest = number - client.under_way + 1
                assert same(client.recv(patience(250)).obs, word_of(life, oldest))
                counts[1] = oldest
        while client.under_way:
            client.recv(patience(250))


def serve_all_lives(lane: str, pipelined: str) -> None:
    """Serve one client after the other, check all that comes, end after the last one's steps."""
    halves = 2 if pipelined == "1" else 1
    lives: set[int] = set()
    lost = number = 0
    life, count = 0, 0
    with StepServer.create(lane, kill_config(halves == 2)) as server:
        while not (life == LAST_LIFE and count == 10):
            try:
                exchange = server.wait_actions(patience(250))
            except lanekit.PeerLost:
                lost += 1
                continue
            assert exchange is not None
            number += 1
            assert exchange.number == number
            envs = exchange.envs
            word = int(server.actions[envs.start, 0])
            assert same(server.actions[envs], word), f"exchange {number} has half-written actions"
            before = (life, count)
            life, count = word >> 32, word & 0xFFFFFFFF
            lives.add(life)
            if life == before[0]:
                assert count == before[1] + 1, f"step {before[1]} of client {life}, then {count}"
            else:
                assert life > before[0]
                assert count == 1, f"client {life} began with step {count}"
            flag = 2 if count % 3 == 0 else 0
            assert same(server.resets[envs], flag), f"flags of another client in exchange {number}"
            if flag:
                assert same(server.seeds[envs], word)
            for piece in np.array_split(server.obs[envs], 4):
                piece[:] = word
            server.commit()
        sys.stdin.read()
    print(json.dumps({"lives": len(lives), "lost": lost, "exchanges": number}))


def kill_clients(lane: str, kills: str, seed: str) -> None:
    chance = random.Random(int(seed))
    counts = np.frombuffer(mmap.mmap(-1, 16), np.uint64)  # sent, received: shared with the children
    segment = segment_name("step", lane)
    while True:
        with contextlib.suppress(lanekit.SegmentNotFound, lanekit.SegmentNotReady):
            inspect_steps(segment)
            break
        time.sleep(0.01)
    sent = 0
    for life in range(1, int(kills) + 1):
        counts[:] = 0
        child = fork(lambda life=life: step_for_ever(lane, life, counts))  # type: ignore[misc]
        if chance.random() < 0.9:  # else it may be killed while it attaches
            until(lambda: counts[1], "its first step", 250, pause=0.0005)
        time.sleep(chance.random() * 0.005)
        kill(child)
        state = inspect_steps(segment).state
        # Of what it was about to send, the last may have been sent or not; nothing else is open.
        assert counts[1] <= state.sent - sent <= counts[0], f"{counts} and {state}"
        assert state.sent - sent >= int(counts[0]) - 1
        sent = state.sent
    step_for_ever(lane, LAST_LIFE, counts, steps=10)
    print(json.dumps({"kills": int(kills), "exchanges": sent + 10}))


def serve_for_ever(lane: str, life: int, served: U64) -> None:
    with StepServer.create(lane, kill_config(life % 2 == 0)) as server:
        for number in itertools.count(1):
            while True:
                try:
                    exchange = server.wait_actions(patience(250))
                    break
                except lanekit.PeerLost:
                    continue
            assert exchange is not None
            envs = exchange.envs
            server.rewards[envs] = server.actions[envs, 0] & 0xFFFF
            for piece in np.array_split(server.obs[envs], 4):
                piece[:] = word_of(life, number)
            server.commit()
            served[0] = number


def step_all_lives(lane: str) -> None:
    """Step one server after the other, check all that comes, end after ten steps of the last."""
    lives: set[int] = set()
    lost = steps = 0
    number = life = 0
    while not (life == LAST_LIFE and number >= 10):
        try:
            client = StepClient.attach(lane, timeout=patience(250))
        except lanekit.PeerLost:  # it died meanwhile
            continue
        with client, contextlib.suppress(lanekit.PeerLost):
            number = 0
            while not (life == LAST_LIFE and number >= 10):
                steps += 1
                client.actions[client.next_envs] = steps
                client.send()
                obs, rewards, _, _ = client.recv(patience(250))
                number += 1
                life = int(obs[0, 0]) >> 32
                lives.add(life)
                word = word_of(life, number)
                assert same(obs, word), f"step {number} of server {life}: half-written observations"
                assert (rewards == steps & 0xFFFF).all(), f"not the answer to action {steps}"
                assert client.state.completed == number
        lost += 1
    print(json.dumps({"lives": len(lives), "lost": lost, "steps": steps}))


def kill_servers(lane: str, kills: str, seed: str) -> None:
    chance = random.Random(int(seed))
    served = np.frombuffer(mmap.mmap(-1, 8), np.uint64)  # shared with the children
    for life in range(1, int(kills) + 1):
        served[0] = 0
        child = fork(lambda life=life: serve_for_ever(lane, life, served))  # type: ignore[misc]
        if chance.random() < 0.9:  # else it may be killed while it creates the lane
            until(lambda: served[0], "its first step", 250, pause=0.0005)
        time.sleep(chance.random() * 0.005)
        kill(child)
    child = fork(lambda: serve_for_ever(lane, LAST_LIFE, served))
    sys.stdin.read()
    kill(child)
    lanekit.reclaim_segment(segment_name("step", lane))
    print(json.dumps({"kills": int(kills)}))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
