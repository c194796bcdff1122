"""A step lane when an end dies or leaves, at every stage of an exchange."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

import lanekit
from lanekit import StepClient, segment_name
from lanekit.segments import segment_path
from patience import patience
from step_peers import Peers, create, exists, in_thread, kill, said, serve_one


@pytest.fixture
def lane() -> Iterator[str]:
    name = f"step-deaths-{uuid.uuid4().hex}"
    yield name
    segment_path(segment_name("step", name)).unlink(missing_ok=True)


# What a client does until it is killed, and how many exchanges it has sent by then.
CLIENT_STAGES = {
    "attached": ("client = attach(); here()", 0),
    "half of the actions written": (
        "client = attach(); client.actions[:32] = 9; client.resets[3] = 1; here()",
        0,
    ),
    "all written, nothing sent": (
        "client = attach(); client.actions[:] = 9; client.resets[:] = 2; here()",
        0,
    ),
    "one exchange sent": ("client = attach(); client.actions[:] = 5; client.send(); here()", 1),
    "in its wait": (
        """
        client = attach()
        client.actions[:] = 5
        threading.Thread(target=lambda: client.step(), daemon=True).start()
        while lanekit.step.inspect_steps(client.segment).state.sent == 0: time.sleep(0.001)
        here()
        """,
        1,
    ),
}


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("stage", CLIENT_STAGES)
def test_a_client_killed_at_any_stage_leaves_a_server_that_goes_on(
    lane: str, peers: Peers, stage: str, pipelined: bool
) -> None:
    body, sent = CLIENT_STAGES[stage]
    if pipelined and stage == "in its wait":
        sent = 2  # a whole step is both halves
    with create(lane, pipelined) as server:
        victim = peers.start_until_here(lane, body, pipelined)
        assert server.state.client_alive
        kill(victim)
        for n in range(1, sent + 1):  # what was sent is stepped, once, though nobody waits for it
            asked = serve_one(server)
            assert asked.number == n
            assert (server.actions[asked.envs] == 5).all()
        with pytest.raises(lanekit.PeerLost, match=f"pid {victim.pid}.* died; {sent} exchanges"):
            server.wait_actions(patience())
        assert server.wait_actions(0) is None  # told once: what it was still writing is not stepped
        assert not server.state.client_alive
        assert (server.state.sent, server.state.completed) == (sent, sent)
        with StepClient.attach(lane) as successor:
            assert (successor.resets == 0).all(), "flags that the dead client had written"
            successor.actions[:] = 6
            for n in range(sent + 1, sent + 4):
                assert successor.send().number == n
                assert serve_one(server).number == n
                assert (successor.recv(patience()).obs == n).all()


@pytest.mark.parametrize("taken", [False, True])
def test_a_successor_waits_until_what_the_dead_client_had_sent_is_completed(
    lane: str, peers: Peers, taken: bool
) -> None:
    with create(lane) as server:
        kill(peers.start_until_here(lane, CLIENT_STAGES["one exchange sent"][0], False))
        if taken:
            assert server.wait_actions(patience()) is not None
        with pytest.raises(lanekit.SegmentNotReady, match="what the client before had sent"):
            StepClient.attach(lane)
        successor = in_thread(lambda: StepClient.attach(lane, timeout=patience(120)))
        if not taken:
            assert server.wait_actions(patience()) is not None
        server.commit()
        with successor() as client:
            assert client.state.completed == 1


# What a server does until it is killed, and how many exchanges it has completed by then.
SERVER_STAGES = {
    "created": ("server = create(); here()", 0),
    "in its wait": (
        """
        server = create()
        threading.Thread(target=server.wait_actions, daemon=True).start()
        here()
        """,
        0,
    ),
    "actions taken": ("server = create(); server.wait_actions(); here()", 0),
    "half of the observations written": (
        "server = create(); server.wait_actions(); server.obs[:32] = 1; here()",
        0,
    ),
    "all written, nothing committed": (
        "server = create(); server.wait_actions(); server.obs[:] = 1; here()",
        0,
    ),
    "committed": (
        "server = create(); server.wait_actions(); server.obs[:] = 1; server.commit(); here()",
        1,
    ),
}


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("stage", SERVER_STAGES)
def test_a_server_killed_at_any_stage_leaves_a_client_that_can_start_anew(
    lane: str, peers: Peers, stage: str, pipelined: bool
) -> None:
    body, completed = SERVER_STAGES[stage]
    victim = peers.start(lane, body, *(["pipelined"] if pipelined else []))
    with StepClient.attach(lane, timeout=patience()) as client:
        client.actions[:] = 1
        halves = 2 if pipelined else 1
        for _ in range(halves):
            client.send()
        assert said(victim) == "here"
        kill(victim)
        for n in range(1, completed + 1):  # completed before it died: still to be had
            assert (client.recv(patience()).obs == n).all()
        for call in (client.recv, client.recv):
            if completed == halves:
                break  # nothing is under way
            with pytest.raises(lanekit.PeerLost, match=f"{completed} of {halves} exchanges"):
                call(60)
        assert (client.state.sent, client.state.completed) == (halves, completed)
        if completed == halves:
            with pytest.raises(lanekit.PeerLost):
                client.step()
        with pytest.raises(lanekit.PeerLost, match="start it again"):
            StepClient.attach(lane)
        client.obs.sum()  # what it left can be looked at
        with create(lane, pipelined) as server:  # takes over the name of the dead one
            with pytest.raises(lanekit.PeerLost):
                client.recv(patience()) if client.under_way else client.step()
            client.close()
            with StepClient.attach(lane) as anew:
                for n in (1, 2, 3):
                    anew.send()
                    serve_one(server)
                    assert (anew.recv(patience()).obs == n).all()
    assert not exists(lane)


def test_an_attach_waits_for_the_successor_of_a_dead_server(lane: str, peers: Peers) -> None:
    kill(peers.start_until_here(lane, SERVER_STAGES["created"][0], False))
    waiting = in_thread(lambda: StepClient.attach(lane, timeout=patience(120)))
    with create(lane), waiting() as client:
        assert client.state.sent == 0


def test_a_server_that_leaves_can_say_why(lane: str) -> None:
    server = create(lane)
    with StepClient.attach(lane) as client:
        client.send()
        server.fail("the solver diverged in environment 7 – " + "x" * 2000)
        with pytest.raises(lanekit.PeerLost, match=r"ended with: the solver diverged.*0 of 1"):
            client.recv(patience())
        with pytest.raises(lanekit.SegmentInvalidated):
            server.wait_actions(0)
    server.close()
    server.close()
    with create(lane) as server, StepClient.attach(lane) as client:
        server.close()
        with pytest.raises(lanekit.PeerLost, match="died or left"):
            client.step()


def test_a_server_that_leaves_wakes_a_client_that_waits(lane: str) -> None:
    server = create(lane)
    with StepClient.attach(lane, wait="block") as client:
        waiting = in_thread(client.step)
        while server.state.sent == 0:
            time.sleep(0.001)
        server.close()
        with pytest.raises(lanekit.PeerLost):
            waiting()
