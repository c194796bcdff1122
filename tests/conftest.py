"""What the tests share: run ids of their own, and a look at what they leave behind."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lanekit import segment_name
from lanekit.segments import segment_path

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture
def run_id() -> Iterator[str]:
    """A run id nobody else uses. The test must not leave its segment behind."""
    run = f"test-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    yield run
    path = segment_path(segment_name("frame", run))
    left = path.exists()
    path.unlink(missing_ok=True)
    assert not left, f"the test left {path} behind"
