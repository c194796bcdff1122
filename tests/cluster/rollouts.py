"""What produces on the nodes; imported there by Ray's processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from lanekit.integrations.ray import RemoteTrajectoryWriter

SCHEMA = {"tokens": "int32[:]", "score": "float64"}


def arrays(n: int, size: int = 0) -> dict[str, Any]:
    """Return a record whose every value derives from its number."""
    return {"tokens": np.arange(n, n + (size or n % 50), dtype=np.int32), "score": n / 4}


def is_right(record: Any, size: int = 0) -> bool:
    """Tell whether a record is the one that its metadata says."""
    expected = arrays(record.meta["n"], size)
    return all(np.array_equal(record[name], value) for name, value in expected.items())


def produce(
    lane: str, producer: str, last: int, *, window: int = 1, size: int = 0, die_at: int = 0
) -> int:
    """Put the records up to `last` that have not arrived; returns with how many it began."""
    with RemoteTrajectoryWriter.attach(
        lane, producer=producer, schema=SCHEMA, window=window
    ) as writer:
        began = writer.arrived
        for n in range(began + 1, last + 1):
            assert writer.put(arrays(n, size), {"who": producer, "n": n}) == n
            if n == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return began


def do_again(lane: str, producer: str, last: int, die_at: int, marker: str) -> list[int]:
    """A task that does all its work anew when it is retried, having died in the middle once."""
    with RemoteTrajectoryWriter.attach(lane, producer=producer, replay=True, window=4) as writer:
        numbers = []
        for n in range(1, last + 1):
            numbers.append(writer.put(arrays(n), {"who": producer, "n": n}))
            if n == die_at and not Path(marker).exists():
                Path(marker).touch()
                writer.flush()
                os.kill(os.getpid(), signal.SIGKILL)
    return numbers


class Actor:
    """A rollout actor that Ray restarts when it dies."""

    def __init__(self, lane: str, producer: str) -> None:
        self._writer = RemoteTrajectoryWriter.attach(lane, producer=producer)

    def roll_out(self, last: int) -> int:
        """Put what has not arrived up to `last`, slowly."""
        for n in range(self._writer.arrived + 1, last + 1):
            self._writer.put(arrays(n), {"who": self._writer.producer, "n": n})
            time.sleep(0.005)
        return self._writer.arrived

    def pid(self) -> int:
        """Return the process to kill."""
        return os.getpid()
