"""The frameworks' tests train for real and take their time; what they share is in watching.py."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("stable_baselines3") is None:
    raise pytest.UsageError("the RL frameworks are not installed here: run `make test-frameworks`")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test time for the start of a framework: some compile first."""
    for item in items:
        if item.path.parent.name == "frameworks":
            item.add_marker(pytest.mark.timeout(600))
