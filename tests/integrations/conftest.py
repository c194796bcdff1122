"""What the wrappers' tests share: a run id of which no lane may be left."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
import worlds

from lanekit import segment_name
from lanekit.segments import segment_path
from patience import until
from run_lanes import lanes_of


@pytest.fixture(autouse=True, scope="session")
def _worlds() -> None:
    worlds.register()


@pytest.fixture
def run_id() -> Iterator[str]:
    """A run id nobody else uses; when its helpers have ended, no lane of it may be left."""
    run = f"test-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    yield run
    try:
        until(lambda: not lanes_of(run), "all lanes of the run removed")
    finally:
        for left in lanes_of(run):
            segment_path(segment_name("frame", left)).unlink(missing_ok=True)
