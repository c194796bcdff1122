"""Waiting in a test: for as long as it takes, but not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(
    condition: Callable[[], Any], what: str = "it", timeout: float = 120.0, pause: float = 0.01
) -> Any:
    """Wait until the condition gives something true, and return that; fail if it never does."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {timeout:.0f} s in vain for {what}"
        time.sleep(pause)
    return value
