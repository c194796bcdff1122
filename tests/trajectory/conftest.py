"""What the trajectory lane's tests share: lane names of their own, and a look at what is left."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from lanekit import segment_name
from lanekit.segments import segment_path


@pytest.fixture
def lane() -> Iterator[str]:
    """A name nobody else uses. The test must not leave its segment behind."""
    name = f"test-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    yield name
    path = segment_path(segment_name("traj", name))
    left = path.exists()
    path.unlink(missing_ok=True)
    assert not left, f"the test left {path} behind"
