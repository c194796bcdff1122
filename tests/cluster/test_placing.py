"""Runs on the nodes of a cluster: placed, watched, steered, listed, and lost with their node."""

from __future__ import annotations

import json
import os
import signal
import socket
import uuid
from typing import Any

import psutil
import pytest
import ray
from daemon_process import free_port
from postgres_server import running_server
from raylets import Raylets

from lanekit import FastLaneReader
from lanekit.errors import ClusterError, DaemonError, NodeLost, RunExists, RunNotFound, WorkerError
from lanekit.integrations.ray import NodeDaemon, RemoteDaemon, find_run, place_run, placed_runs
from lanekit.integrations.ray.connecting import NAMESPACE
from lanekit.integrations.ray.placing import RunHolder, actor_name
from lanekit.slow import DaemonClient, RunStore
from lanekit.slow.certificates import make_certificates
from lanekit.slow.store.records import RunRecord
from patience import until

ENDLESS = {"total_steps": 10_000_000, "pause": 0.01}


def new_id() -> str:
    return f"run-{uuid.uuid4().hex[:8]}"


def state_of(placed: Any) -> str:
    return str(RunRecord.from_message(RemoteDaemon(placed).run(placed.run_id)).state)


def wait_for(placed: Any, *states: str) -> str:
    return str(until(lambda: (s := state_of(placed)) in states and s, seconds=120, pause=0.3))


def test_a_run_is_trained_on_the_node_that_was_asked_for_and_followed_from_here(
    raylets: Raylets,
) -> None:
    run_id = new_id()
    said, complained = raylets.lanekit(
        *("run", "--cluster", f"ray:{raylets.address}", "--node", raylets.node("one").node_id),
        *("--worker", "stepping", "--steps", "200", "--run", run_id),
    )
    assert said.splitlines()[0] == run_id
    assert said.splitlines()[-1].startswith(f"{run_id} completed after ")
    assert "200 steps" in said.splitlines()[-1]
    assert raylets.node("one").node_id[:8] in complained
    with raylets.places["one"].store() as store:
        assert store.run(run_id).steps == 200
    for other in ("head", "two"):
        assert not (raylets.places[other].state / "placed.jsonl").exists()


def test_runs_of_all_nodes_are_listed_in_one_place_and_steered_from_there(
    raylets: Raylets,
) -> None:
    cluster = ("--cluster", f"ray:{raylets.address}")
    placed = {
        name: place_run(
            "stepping", {"run_id": new_id(), **ENDLESS}, node=raylets.node(name).node_id
        )
        for name in ("one", "two")
    }
    listed = json.loads(raylets.lanekit("runs", *cluster, "--json")[0])
    where = {entry["run_id"]: entry["node_id"] for entry in listed}
    for name, run in placed.items():
        assert where[run.run_id] == raylets.node(name).node_id
    table = raylets.lanekit("runs", *cluster)[0]
    assert all(run.run_id in table and run.daemon in table for run in placed.values())
    assert find_run(placed["two"].run_id).node == raylets.node("two")

    raylets.lanekit("control", *cluster, placed["one"].run_id, "stop")
    assert wait_for(placed["one"], "completed") == "completed"
    said, _ = raylets.lanekit("control", *cluster, placed["two"].run_id, "cancel")
    assert said == f"run {placed['two'].run_id}: cancelled\n"
    with pytest.raises(RunNotFound, match="lanekit runs --cluster ray"):
        find_run("no-such-run")


def test_ray_counts_a_run_until_it_is_over(raylets: Raylets) -> None:
    node = raylets.node("one")
    first = place_run("stepping", {"run_id": new_id(), **ENDLESS}, cpus=2, node=node.node_id)
    with pytest.raises(ClusterError, match="no node had room for it in 3 s"):
        place_run("stepping", {"run_id": new_id()}, cpus=2, node=node.node_id, timeout=3)
    RemoteDaemon(first).control_run(first.run_id, "stop")
    second = place_run(
        "stepping", {"run_id": new_id(), "total_steps": 5}, cpus=2, node=node.node_id
    )
    assert wait_for(first, "completed") == "completed"
    assert wait_for(second, "completed") == "completed"


def test_a_run_outlives_the_actor_that_holds_its_resources_and_the_daemons_death(
    raylets: Raylets,
) -> None:
    placed = place_run(
        "stepping", {"run_id": new_id(), **ENDLESS}, node=raylets.node("two").node_id
    )
    wait_for(placed, "running")
    ray.kill(ray.get_actor(actor_name(placed.run_id), namespace=NAMESPACE))
    pid = raylets.places["two"].daemon_pid()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")
    # The next run on this node brings a daemon, which finds the first one as it was.
    again = place_run(
        "stepping", {"run_id": new_id(), "total_steps": 5}, node=raylets.node("two").node_id
    )
    assert wait_for(again, "completed") == "completed"
    before = RemoteDaemon(placed).run(placed.run_id).steps
    until(lambda: RemoteDaemon(placed).run(placed.run_id).steps > before, pause=0.3)
    RemoteDaemon(placed).cancel_run(placed.run_id)


def test_a_holder_that_is_never_told_what_to_start_frees_what_it_holds(raylets: Raylets) -> None:
    options = {"name": "forgotten", "namespace": NAMESPACE, "lifetime": "detached", "num_cpus": 1}
    holder = ray.remote(RunHolder).options(**options).remote(0.5)
    assert holder is not None

    def gone() -> bool:
        try:
            ray.get_actor("forgotten", namespace=NAMESPACE)
        except ValueError:
            return True
        return False

    until(gone)


def test_frames_of_a_placed_run_are_on_its_nodes_fast_lane(raylets: Raylets) -> None:
    placed = place_run(
        "stepping", {"run_id": new_id(), **ENDLESS}, node=raylets.node("one").node_id
    )

    def frame() -> Any:
        try:
            with FastLaneReader.attach(placed.run_id) as reader:
                return reader.latest_frame()
        except Exception:
            return None

    assert until(frame, seconds=120).width > 0
    RemoteDaemon(placed).cancel_run(placed.run_id)


def test_nodes_share_a_database_and_their_frames_are_watched_from_one_place(
    raylets: Raylets,
) -> None:
    """Two nodes, one PostgreSQL, TLS and a token before each daemon's port."""
    addresses = sorted({"127.0.0.1", raylets.node("one").address})
    certificates = make_certificates(raylets.root / "certs", addresses)
    token = raylets.root / "shared.token"
    token.touch(mode=0o600)
    token.write_text("one-token-for-all-nodes")
    placed = []
    with running_server() as server:
        url = server.fresh_store()
        for name in ("left", "right"):
            daemon = NodeDaemon(
                store=url,
                port=free_port(),
                token_file=str(token),
                tls_cert=str(certificates.certificate),
                tls_key=str(certificates.key),
            )
            node = raylets.add(name, cpus=1)
            run = {"run_id": new_id(), **ENDLESS}
            placed.append(place_run("stepping", run, node=node.node_id, daemon=daemon))
        for run, node in zip(placed, ("left", "right"), strict=True):
            assert not run.daemon.startswith("unix:")
            assert not (raylets.places[node].state / "lanekit.db").exists()
            with DaemonClient(
                run.daemon, token=token.read_text(), ca_file=certificates.authority
            ) as client:
                with client.watch_frames(run.run_id) as stream:
                    frame = next(update.frame for update in stream if update.frame is not None)
                assert frame.picture.width > 0
                # Either daemon knows the runs of both: their store is the same.
                assert {each.run_id for each in client.list_runs()} == {p.run_id for p in placed}
            for wrong in (None, "another-token-altogether"):
                with DaemonClient(
                    run.daemon, token=wrong, ca_file=certificates.authority
                ) as stranger:
                    with pytest.raises(DaemonError, match="token"):
                        stranger.list_lanes()
        with RunStore.open(url) as store:
            for run in placed:
                until(lambda run=run: store.run(run.run_id).steps > 0)
        for run in placed:
            RemoteDaemon(run).cancel_run(run.run_id)
        for name in ("left", "right"):
            raylets.kill(name)


def test_a_run_id_is_used_once_on_the_whole_cluster(raylets: Raylets) -> None:
    placed = place_run(
        "stepping", {"run_id": new_id(), "total_steps": 5}, node=raylets.node("one").node_id
    )
    wait_for(placed, "completed")
    with pytest.raises(RunExists, match="choose another id"):
        place_run("stepping", {"run_id": placed.run_id}, node=raylets.node("two").node_id)


def test_a_node_that_dies_ends_its_runs_and_says_so(raylets: Raylets) -> None:
    raylets.add("mortal", cpus=1)
    placed = place_run(
        "stepping", {"run_id": new_id(), **ENDLESS}, node=raylets.node("mortal").node_id
    )
    wait_for(placed, "running")
    raylets.kill("mortal")
    with pytest.raises(NodeLost, match=f"{placed.run_id}.*has ended with it"):
        RemoteDaemon(placed).run(placed.run_id)
    found, missing = placed_runs()
    assert placed.run_id not in [run.run_id for run in found]
    assert missing == []
    again = place_run("stepping", {"run_id": placed.run_id, "total_steps": 5})
    assert wait_for(again, "completed") == "completed"


def test_a_worker_that_is_not_installed_on_a_node_is_named_with_the_node(raylets: Raylets) -> None:
    bare = raylets.add("bare", cpus=1, installed=False)
    with pytest.raises(WorkerError, match=f"{bare.node_id[:8]}.*stepping.*every node") as refused:
        place_run("stepping", {"run_id": new_id()}, node=bare.node_id)
    assert "bin/python" in str(refused.value)
    raylets.kill("bare")


def test_a_daemon_that_can_not_listen_is_an_error_with_its_own_words(raylets: Raylets) -> None:
    node = raylets.add("busy", cpus=1)
    token = raylets.root / "token"
    token.touch(mode=0o600)
    token.write_text("a" * 32)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for daemon, problem in (
            (NodeDaemon(port=port, insecure_loopback=True), "needs --token-file"),
            (NodeDaemon(port=port, insecure_loopback=True, token_file=str(token)), str(port)),
        ):
            with pytest.raises(ClusterError, match=rf"can not be started(.|\n)*{problem}"):
                place_run("stepping", {"run_id": new_id()}, node=node.node_id, daemon=daemon)
    listening = NodeDaemon(port=free_port(), insecure_loopback=True, token_file=str(token))
    placed = place_run(
        "stepping", {"run_id": new_id(), "total_steps": 3}, node=node.node_id, daemon=listening
    )
    assert placed.daemon == f"127.0.0.1:{listening.port}"
    assert wait_for(placed, "completed") == "completed"
    # Another store was asked for than the daemon there has.
    other = NodeDaemon(store="postgresql://me:secret@db/lanekit", token_file=str(token))
    with pytest.raises(ClusterError, match="leave these options out") as refused:
        place_run("stepping", {"run_id": new_id()}, node=node.node_id, daemon=other)
    assert "postgresql://me@db/lanekit" in str(refused.value)
    assert "secret" not in f"{refused.value} {other}"
    raylets.kill("busy")


def test_what_no_node_has_is_refused_at_once(raylets: Raylets) -> None:
    with pytest.raises(ClusterError, match="no node has 64 CPUs and 0 GPUs; there are: 1 CPUs"):
        place_run("stepping", {}, cpus=64)
    with pytest.raises(ClusterError, match="no live node 'elsewhere'"):
        place_run("stepping", {}, node="elsewhere")
    with pytest.raises(ClusterError, match="nodes are called"):
        place_run("stepping", {}, node=raylets.node("one").hostname)


def test_a_run_that_fails_is_told_with_its_last_words(raylets: Raylets) -> None:
    run_id = new_id()
    said, complained = raylets.lanekit(
        *("run", "--cluster", f"ray:{raylets.address}", "--worker", "stepping", "--run", run_id),
        *("--set", "fail_at=3"),
        status=1,
    )
    assert said.splitlines()[-1].startswith(f"{run_id} failed after ")
    assert "the pole is broken" in complained


def test_misuse_is_told_before_anything_is_placed(raylets: Raylets) -> None:
    cluster = ("run", "--cluster", f"ray:{raylets.address}", "--worker", "stepping")
    assert "two places" in raylets.lanekit(*cluster, "--daemon", "unix:/d.sock", status=2)[1]
    assert "total_steps is at least 1" in raylets.lanekit(*cluster, "--steps", "0", status=2)[1]
    assert "no node has 99" in raylets.lanekit(*cluster, "--cpus", "99", status=1)[1]
