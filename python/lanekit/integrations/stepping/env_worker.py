"""One of the processes in which a server runs its environments.

It reads from its standard input who it is and what to make. It then is the server of a small lane
of its own, through which the process that started it says when to step: waiting, and noticing that
the other one has died, is the lane's. What its environments bring it writes straight into the
trainer's lane.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from lanekit._core import WaitStrategy
from lanekit.errors import PeerLost, debugging
from lanekit.integrations.stepping.description import LaneDescription
from lanekit.integrations.stepping.env_rows import EnvironmentFailed, EnvRows, words_of
from lanekit.integrations.stepping.shared_rows import LanePlace, SharedRows
from lanekit.step import StepLaneConfig, StepServer

# What the one byte of its lane's actions says.
MAKE, STEP, RESET, END = range(4)
ORDERS = StepLaneConfig(1, 1, 1, act_dtype=np.uint8, obs_dtype=np.uint8, command_ring=0)

_LOOK_EVERY = 0.05


@dataclass(frozen=True)
class WorkerIdentity:
    """What the process must know before anything can go wrong."""

    path: list[str]
    """Where the process that started it finds its modules."""
    orders: str
    """The name of its own lane."""
    parent: int
    wait: WaitStrategy


@dataclass(frozen=True)
class WorkerTask:
    """Which environments it runs."""

    maker: Any
    """Gymnasium's wrapper of the function that makes one, which can be pickled."""
    first: int
    count: int
    description: LaneDescription
    place: LanePlace


def main() -> int:
    """Serve until told to end, or until the process that started this one is gone."""
    given = sys.stdin.buffer
    identity: WorkerIdentity = pickle.load(given)
    sys.path[:] = identity.path
    with StepServer.create(identity.orders, ORDERS, wait=identity.wait) as orders:
        work = _Work(orders, identity.parent)
        try:
            work.go_on(given)
        except Exception as error:
            if debugging():  # what the other process tells is one line
                traceback.print_exception(error)
            orders.fail(str(error) if isinstance(error, EnvironmentFailed) else words_of(error))
            return 1
    return 0


class _Work:
    def __init__(self, orders: StepServer, parent: int) -> None:
        self._orders = orders
        self._parent = parent

    def go_on(self, given: IO[bytes]) -> None:
        # Not before somebody is there to hear how that went.
        if self._next_order() != MAKE:
            return
        task: WorkerTask = pickle.load(given)
        maker: Callable[[], Any] = task.maker.fn
        rows = EnvRows([maker] * task.count, task.first, SharedRows(task.place), task.description)
        try:
            self._orders.commit()
            while (order := self._next_order()) in (STEP, RESET):
                rows.exchange("step" if order == STEP else "reset")
                self._orders.commit()
        finally:
            rows.close()
        if order == END:
            self._orders.commit()

    def _next_order(self) -> int | None:
        """Wait for an order; None when nobody is left to give one."""
        while True:
            try:
                exchange = self._orders.wait_actions(_LOOK_EVERY)
            except PeerLost:
                return None
            if exchange is not None:
                return int(self._orders.actions[0, 0])
            if os.getppid() != self._parent:
                return None
