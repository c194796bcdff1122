"""The arrays of a step lane as torch tensors: the same memory, not a copy."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from lanekit import StepClient, StepLaneConfig, StepServer, segment_name
from lanekit.segments import segment_path
from patience import patience

DTYPES = ["uint8", "int8", "int32", "int64", "float16", "float32", "float64", "bool", "complex64"]


@pytest.fixture
def lane() -> Iterator[str]:
    name = f"step-torch-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    yield name
    segment_path(segment_name("step", name)).unlink(missing_ok=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("take", [torch.from_numpy, torch.from_dlpack])
def test_a_tensor_is_the_shared_memory_itself(lane: str, dtype: str, take: object) -> None:
    assert callable(take)
    config = StepLaneConfig(4, 3, 2, obs_dtype=dtype, act_dtype=dtype)
    with StepServer.create(lane, config) as server, StepClient.attach(lane) as client:
        obs, actions = take(client.obs), take(client.actions)
        assert obs.data_ptr() == client.base + client.offsets["obs"]
        assert obs.dtype == getattr(torch, dtype)
        assert obs.is_contiguous()
        actions.fill_(1)
        client.send()
        exchange = server.wait_actions(patience())
        assert exchange is not None
        assert (server.actions == 1).all()
        server.obs[:] = np.arange(12).reshape(4, 3).astype(dtype)
        server.commit()
        client.recv(patience())
        assert torch.equal(obs, torch.arange(12).reshape(4, 3).to(obs.dtype))
    del server, client
    obs.fill_(0)  # holds the memory
    assert not obs.any()


def test_a_network_steps_a_lane_through_tensors(lane: str) -> None:
    """A linear policy: observations in, actions straight into shared memory."""
    policy = torch.nn.Linear(3, 2)
    with StepServer.create(lane, 8, 3, 2) as server, StepClient.attach(lane) as client:
        obs, actions = torch.from_numpy(client.obs), torch.from_numpy(client.actions)
        for n in range(20):
            with torch.no_grad():
                actions.copy_(policy(obs))
            client.send()
            assert server.wait_actions(patience()) is not None
            server.obs[:, :2] = np.tanh(server.actions) + n
            server.commit()
            client.recv(patience())
            assert torch.allclose(obs[:, :2], torch.tanh(actions) + n)
