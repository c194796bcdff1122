"""The cluster's tests: real raylets, several on this machine, each with a daemon of its own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("ray") is None:
    raise pytest.UsageError("Ray is not installed here: run `make test-cluster`")

sys.path.insert(0, str(Path(__file__).parent.parent / "slow"))

from raylets import Raylets


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give Ray time to start, and let it warn about itself."""
    for item in items:
        if item.path.parent.name == "cluster":
            item.add_marker(pytest.mark.timeout(600))
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture
def short_root() -> Iterator[Path]:
    """A directory for sockets, whose paths have to be short."""
    with tempfile.TemporaryDirectory(prefix="lk-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def raylets() -> Iterator[Raylets]:
    """A head and two more nodes; `bare` has no worker installed."""
    cluster = Raylets()
    try:
        cluster.add("one", cpus=2)
        cluster.add("two", cpus=2)
        yield cluster
    finally:
        cluster.close()
