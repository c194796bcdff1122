"""Process groups: one for each worker, signalled as a whole."""

from __future__ import annotations

import contextlib
import os
import signal


def send_signal(groups: set[int], number: signal.Signals) -> None:
    """Signal process groups; those that are gone meanwhile need none."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)


def alive(groups: set[int]) -> set[int]:
    """Return the groups that still have a process."""
    left = set()
    for group in groups:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            continue
        left.add(group)
    return left
