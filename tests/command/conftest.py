"""What the command lane's tests share: the two ends of a lane."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from memory_channel import memory_channels
from ring_ends import RingEnd

from lanekit.command import Channel


@pytest.fixture(params=["rings", "memory"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[Channel, Channel]]:
    """A server's and a client's channel."""
    if request.param == "memory":
        yield memory_channels()
        return
    run = f"test-{uuid.uuid4().hex[:12]}"
    server = RingEnd(run, "server", 65536)
    client = RingEnd(run, "client", 65536)
    yield server.channel, client.channel
    client.close()
    server.close()
