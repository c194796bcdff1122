"""How the ends of a step lane part: without the extras, and with a reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lanekit import OutOfTurn, PeerLost, SegmentNotFound, StepClient, StepServer, segment_name
from lanekit.segments import segment_path
from patience import patience


def test_a_lane_without_extras_serves_and_ends(run_id: str) -> None:
    with StepServer.create(run_id, 2, 3, 1, command_ring=0) as server:
        with StepClient.attach(run_id) as client:
            client.send(np.ones((2, 1)))
            assert server.wait_actions(patience()) is not None
            server.obs[:] = 7
            server.commit()
            assert (client.recv(patience()).obs == 7).all()
        segment = server.segment
    assert not segment_path(segment).exists()


def test_the_reason_that_a_server_gives_can_be_read_by_itself(run_id: str) -> None:
    server = StepServer.create(run_id, 1, 1, 1)
    with StepClient.attach(run_id) as client:
        assert client.failure == ""
        client.send([0.0])
        server.fail("the arm fell off – ümläut")
        with pytest.raises(PeerLost, match="ended with: the arm fell off – ümläut"):
            client.recv()
        assert client.failure == "the arm fell off – ümläut"
        server.close()
        assert client.failure == "the arm fell off – ümläut"


def test_a_lost_server_is_told_to_whoever_goes_on(run_id: str) -> None:
    server = StepServer.create(run_id, 1, 1, 1)
    with StepClient.attach(run_id) as client:
        client.send([0.0])
        with pytest.raises(OutOfTurn, match="still under way"):
            client.step([0.0])
        server.fail("the arm fell off")
        server.close()
        goings_on: list[Callable[[], object]] = [
            client.recv,
            client.step,
            client.reset,
            client.send,
            lambda: client.step([0.0]),
            lambda: client.send([0.0]),
            client.recv,
        ]
        for go_on in goings_on:
            with pytest.raises(PeerLost, match=r"ended with: the arm fell off; 0 of 1"):
                go_on()


@pytest.mark.parametrize(
    ("timeout", "says"),
    [
        (0.0, "no such lane; start .*with timeout="),
        (0.01, "lane after 0.01 s; .*a longer timeout="),
    ],
)
def test_a_lane_that_is_not_there_is_told_with_how_to_serve_one(
    run_id: str, timeout: float, says: str
) -> None:
    with pytest.raises(SegmentNotFound, match=says) as refused:
        StepClient.attach(run_id, timeout=timeout)
    assert f"`lanekit serve ENV_ID --name {run_id}`" in str(refused.value)
    assert "`lanekit ls`" in str(refused.value)


def test_a_way_to_wait_that_does_not_exist_is_refused_before_anything_is_made(run_id: str) -> None:
    with pytest.raises(ValueError, match="wait is one of"):
        StepServer.create(run_id, 1, 1, 1, wait="sleep")  # type: ignore[arg-type]
    assert not segment_path(segment_name("step", run_id)).exists()
    with StepServer.create(run_id, 1, 1, 1) as server:
        with pytest.raises(ValueError, match="wait is one of"):
            StepClient.attach(run_id, wait="sleep")  # type: ignore[arg-type]
        assert server.state.client_pid == 0
