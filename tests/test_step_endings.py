"""How the ends of a step lane part: without the extras, and with a reason."""

from __future__ import annotations

import numpy as np
import pytest

from lanekit import PeerLost, StepClient, StepServer, segment_name
from lanekit.segments import segment_path


def test_a_lane_without_extras_serves_and_ends(run_id: str) -> None:
    with StepServer.create(run_id, 2, 3, 1, command_ring=0) as server:
        with StepClient.attach(run_id) as client:
            client.send(np.ones((2, 1)))
            assert server.wait_actions(1.0) is not None
            server.obs[:] = 7
            server.commit()
            assert (client.recv(1.0).obs == 7).all()
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


def test_a_way_to_wait_that_does_not_exist_is_refused_before_anything_is_made(run_id: str) -> None:
    with pytest.raises(ValueError, match="wait is one of"):
        StepServer.create(run_id, 1, 1, 1, wait="sleep")  # type: ignore[arg-type]
    assert not segment_path(segment_name("step", run_id)).exists()
    with StepServer.create(run_id, 1, 1, 1) as server:
        with pytest.raises(ValueError, match="wait is one of"):
            StepClient.attach(run_id, wait="sleep")  # type: ignore[arg-type]
        assert server.state.client_pid == 0
