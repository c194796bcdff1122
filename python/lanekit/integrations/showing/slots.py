"""Which of a run's environments is this one? Its slot is its index in the vector environment.

A framework that knows the index passes it. Otherwise: the processes of gymnasium's AsyncVectorEnv
carry it in their name, and environments that one process makes are numbered in the order they are
made, a closed one's number being free again.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import weakref
from typing import Any

_WORKER_NAME = re.compile(r"Worker<\w+>-(\d+)")
_taken: set[int] = set()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_taken.clear)


def slot_of_this_process() -> int | None:
    """Return the index that this process has in an AsyncVectorEnv, None if it is in none."""
    named = _WORKER_NAME.fullmatch(multiprocessing.current_process().name)
    return None if named is None else int(named.group(1))


class SlotClaim:
    """The smallest number that no other environment of this process has."""

    def __init__(self, env: Any) -> None:
        self.slot = next(n for n in range(len(_taken) + 1) if n not in _taken)
        _taken.add(self.slot)
        self._finalizer = weakref.finalize(env, _taken.discard, self.slot)

    def release(self) -> None:
        """Let the next environment have the number. May be called twice."""
        self._finalizer()


def claim_slot(env: Any) -> SlotClaim | int:
    """Return an environment's slot: known from its process, or claimed until it is closed."""
    known = slot_of_this_process()
    return SlotClaim(env) if known is None else known
