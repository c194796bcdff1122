"""A step lane when something goes wrong: who comes twice, comes early or is slow.

What happens when an end dies is in test_step_deaths.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lanekit
from lanekit import StepClient, StepLaneConfig, StepServer, segment_name
from lanekit.segments import segment_path
from patience import patience
from step_peers import (
    ACT,
    ENVS,
    OBS,
    PREAMBLE,
    Peers,
    create,
    exists,
    finish,
    in_thread,
    said,
    serve_one,
)


@pytest.fixture
def lane() -> Iterator[str]:
    name = f"step-faults-{uuid.uuid4().hex}"
    yield name
    segment_path(segment_name("step", name)).unlink(missing_ok=True)


# --- coming early, coming twice -------------------------------------------------------------------


def test_attaching_before_the_server_is_there_is_an_error_or_a_wait(lane: str) -> None:
    with pytest.raises(lanekit.SegmentNotFound, match="start its server first"):
        StepClient.attach(lane)
    with pytest.raises(lanekit.SegmentNotFound):
        StepClient.attach(lane, timeout=0.05)
    waiting = in_thread(lambda: StepClient.attach(lane, timeout=patience(120)))
    with create(lane) as server, waiting() as client:
        client.send()
        serve_one(server)
        client.recv(patience())


def test_a_lane_has_one_client_at_a_time(lane: str, peers: Peers) -> None:
    with create(lane) as server:
        with StepClient.attach(lane) as client:
            with pytest.raises(lanekit.PlaceTaken, match="another trainer is attached"):
                StepClient.attach(lane)
            told = peers.start(
                lane,
                """
                try:
                    StepClient.attach(lane)
                except lanekit.PlaceTaken:
                    print("taken", flush=True)
                with StepClient.attach(lane, timeout=None) as client:
                    client.actions[:] = 2
                    print(client.step().obs[0, 0], client.state.sent, flush=True)
                """,
            )
            assert said(told) == "taken"
            client.actions[:] = 1
            client.send()
            serve_one(server)
            client.recv(patience())
        assert serve_one(server).number == 2
        assert (server.actions == 2).all()
        assert finish(told) == "2.0 2\n"


def test_a_lane_has_one_server_at_a_time(lane: str) -> None:
    with create(lane) as server:
        with pytest.raises(lanekit.SegmentExists, match=f"process {os.getpid()} serves") as refusal:
            create(lane)
        assert refusal.value.owner_pid == os.getpid()
        with StepClient.attach(lane) as client:
            client.send()
            serve_one(server)
            client.recv(patience())


def test_a_client_that_expects_another_shape_is_told_and_does_not_keep_the_place(lane: str) -> None:
    with create(lane):
        with pytest.raises(ValueError, match="num_envs 64 instead of 63, act_size 4 instead of 5"):
            StepClient.attach(lane, num_envs=63, obs_size=OBS, act_size=5)
        with StepClient.attach(lane, num_envs=ENVS, obs_size=OBS, act_size=ACT):
            pass


def test_a_frame_lane_of_the_same_name_is_another_thing(lane: str) -> None:
    with lanekit.FastLaneWriter.create(lane, lanekit.FastLaneConfig(8, 4)):
        with pytest.raises(lanekit.SegmentNotFound):
            StepClient.attach(lane)
        with create(lane):
            with StepClient.attach(lane):
                pass


# --- slow peers, signals --------------------------------------------------------------------------


@pytest.mark.parametrize("wait", ["hybrid", "spin", "block"])
def test_a_slow_peer_is_a_timeout_after_which_everything_goes_on(lane: str, wait: Any) -> None:
    with (
        StepServer.create(lane, ENVS, OBS, ACT, wait=wait) as server,
        StepClient.attach(lane, wait=wait) as client,
    ):
        assert server.wait_actions(0.02) is None
        with pytest.raises(lanekit.WaitTimeout, match=r"exchange 1 .*recv\(\) waits on"):
            client.step(timeout=0.02)
        with pytest.raises(lanekit.WaitTimeout):
            client.recv(0)
        assert client.under_way == 1
        serve_one(server)
        assert (client.recv(0.5).obs == 1).all()
        with pytest.raises(ValueError, match="NaN"):
            client.step(timeout=float("nan"))
        with pytest.raises(TypeError, match="number of seconds"):
            server.wait_actions("soon")  # type: ignore[arg-type]
        assert client.under_way == 0


def test_a_wait_of_unknown_kind_is_refused(lane: str) -> None:
    with pytest.raises(ValueError, match="hybrid, spin, block"):
        StepServer.create(lane, ENVS, OBS, ACT, wait="nap")  # type: ignore[arg-type]
    assert not exists(lane)
    with create(lane):
        with pytest.raises(ValueError, match="hybrid, spin, block"):
            StepClient.attach(lane, wait="nap")  # type: ignore[arg-type]
        with StepClient.attach(lane):
            pass


def test_ctrl_c_ends_a_clients_wait_and_the_exchange_can_be_taken_up_again(
    lane: str, peers: Peers
) -> None:
    body = """
    client = attach()
    try:
        client.step()
    except KeyboardInterrupt:
        print("interrupted", client.under_way, flush=True)
    print(client.recv().obs[0, 0], client.step().obs[0, 0], flush=True)
    """
    with create(lane) as server:
        process = peers.start(lane, body)
        assert server.wait_actions(patience()) is not None
        time.sleep(0.05)  # so that it is in its wait; if not yet, the answer is the same
        process.send_signal(signal.SIGINT)
        assert said(process) == "interrupted 1"
        server.obs[:] = 1
        server.commit()
        serve_one(server)
        assert finish(process) == "1.0 2.0\n"


def test_ctrl_c_ends_a_servers_wait(lane: str, peers: Peers) -> None:
    body = """
    with create() as server:
        try:
            print("ready", flush=True)
            server.wait_actions()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        exchange = server.wait_actions()
        server.obs[:] = 3
        server.commit()
        sys.stdin.read()
    """
    process = peers.start(lane, body)
    assert said(process) == "ready"
    time.sleep(0.05)  # so that it is in its wait; if not yet, the answer is the same
    process.send_signal(signal.SIGINT)
    assert said(process) == "interrupted"
    with StepClient.attach(lane) as client:
        assert (client.step(timeout=patience()).obs == 3).all()
    finish(process)
    assert process.returncode == 0
    assert not exists(lane)


@pytest.mark.parametrize("ending", ["sys.exit(3)", "os.kill(os.getpid(), signal.SIGTERM)"])
def test_a_server_process_that_ends_takes_its_segment_with_it(
    lane: str, peers: Peers, ending: str
) -> None:
    process = peers.start(lane, f"server = create(); attach().send(); {ending}; time.sleep(60)")
    finish(process)
    assert not exists(lane)


# --- fork and threads -----------------------------------------------------------------------------


def test_handles_inherited_over_fork_refuse_and_the_parent_goes_on(lane: str, peers: Peers) -> None:
    body = """
    import warnings
    warnings.simplefilter("ignore")
    server, client = create(), attach()
    client.send()
    server.wait_actions()
    child = os.fork()
    if child == 0:
        calls = (client.step, client.send, client.recv, client.reset, lambda: client.state,
                 server.commit, server.wait_actions, lambda: server.fail("x"), lambda: server.state)
        for call in calls:
            try:
                call()
            except lanekit.HandleForked:
                print("refused", flush=True)
        client.close()
        server.close()
        sys.exit(0)  # runs every finalizer that the parent would run
    os.waitpid(child, 0)
    server.obs[:] = 8
    server.commit()
    print(client.recv().obs[0, 0], client.state.client_alive, flush=True)
    """
    process = peers.start(lane, body)
    assert finish(process) == "refused\n" * 9 + "8.0 True\n"
    assert process.returncode == 0
    assert not exists(lane)


def test_two_threads_in_one_handle_get_an_error_not_a_mixed_step(lane: str) -> None:
    with create(lane) as server, StepClient.attach(lane) as client:
        waiting = in_thread(lambda: client.step(timeout=patience(120)))
        while server.state.sent == 0:
            time.sleep(0.001)
        errors = 0
        for _ in range(50):
            try:
                client.send()
            except lanekit.ConcurrentUse:
                errors += 1
            except lanekit.OutOfTurn:  # between two slices of the other thread's wait
                pass
        assert errors > 0
        assert (server.state.sent, server.state.completed) == (1, 0)
        serve_one(server)
        assert (waiting().obs == 1).all()


@pytest.mark.parametrize("end", ["client", "server"])
def test_closing_from_another_thread_ends_a_wait(lane: str, end: str) -> None:
    with create(lane) as server, StepClient.attach(lane) as client:
        handle = client if end == "client" else server
        waiting = in_thread(client.step if end == "client" else server.wait_actions)
        if end == "client":
            while server.state.sent == 0:
                time.sleep(0.001)
        handle.close()
        with pytest.raises((lanekit.HandleClosed, lanekit.SegmentInvalidated)):
            waiting()
        with pytest.raises(lanekit.HandleClosed):
            _ = handle.state  # type: ignore[attr-defined]


def test_an_end_of_a_lane_does_not_travel(lane: str) -> None:
    import copy
    import pickle

    with create(lane) as server, StepClient.attach(lane) as client:
        for end in (server, client):
            for travel in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="belongs to its process"):
                    travel(end)


# --- memory ---------------------------------------------------------------------------------------


def private_shared_memory(size: str) -> list[str]:
    """Return the command prefix that runs something with a small /dev/shm of its own."""
    unshare = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    mount = f"mount -t tmpfs -o size={size} tmpfs /dev/shm"
    probe = subprocess.run([*unshare, "sh", "-c", mount], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"needs root, or user namespaces: {probe.stderr.decode().strip()}")
    return [*unshare, "sh", "-c", f'{mount} && exec "$@"', "sh"]


def test_full_shared_memory_is_a_clear_error_that_leaves_nothing_behind(lane: str) -> None:
    body = """
    found = {}
    try:
        StepServer.create(lane, 4096, 1000, 12)
    except lanekit.OutOfSharedMemory as error:
        found["message"] = str(error)
    found["left"] = os.listdir("/dev/shm")
    with create() as server, attach() as client:
        with open("/dev/shm/filler", "wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                found["full"] = os.statvfs("/dev/shm").f_bavail == 0
        client.send(np.full(client.actions.shape, 2, np.float32))  # its memory was reserved
        server.wait_actions()
        server.obs[:] = server.actions[:, :1]
        server.commit()
        found["stepped"] = bool((client.recv().obs == 2).all())
    print(json.dumps(found))
    """
    script = PREAMBLE + textwrap.dedent(body)
    done = subprocess.run(
        [*private_shared_memory("8m"), sys.executable, "-c", script, lane],
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    needed = StepLaneConfig(4096, 1000, 12).size
    assert f"needs {needed / 2**20:.1f} MiB of shared memory" in found["message"]
    assert "fewer environments or a smaller image need less" in found["message"]
    assert (found["left"], found["full"], found["stepped"]) == ([], True, True)


def test_a_lane_of_many_environments_costs_its_size_and_no_more(lane: str) -> None:
    config = StepLaneConfig(4096, 100, 12)
    with StepServer.create(lane, config) as server:
        path = segment_path(server.segment)
        assert path.stat().st_size == config.size
        assert path.stat().st_blocks * 512 <= config.size + 4096
        hot = 4096 * (100 * 4 + 12 * 4 + 4 + 3 + 8)
        assert config.size < hot + 2 * 512 * 1024 + 16384
        assert np.shares_memory(server.obs[0], server.obs)
