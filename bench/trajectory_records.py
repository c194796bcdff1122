"""The records that all ways of the trajectory benchmark carry, and how a mix of them shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

SCHEMA = {
    "tokens": "int32[:]",
    "masks": "int32[:]",
    "logprobs": "float32[:]",
    "score": "float32",
}
# How many different records a producer has at hand, so that making them costs nothing.
AT_HAND = 16

Arrays = dict[str, Any]


def make(who: int, tokens: int) -> list[Arrays]:
    """Return a producer's records. Who made them, and that the arrays belong together, shows."""
    return [
        {
            "tokens": np.full(tokens, who * 1000 + i, np.int32),
            "masks": np.full(tokens, who * 1000 + i, np.int32),
            "logprobs": np.full(tokens, who * 1000 + i, np.float32),
            "score": np.array(who * 1000 + i, np.float32),
        }
        for i in range(AT_HAND)
    ]


def size_of(tokens: int) -> int:
    """Bytes of a record's arrays."""
    return 12 * tokens + 4


@dataclass
class Account:
    """What a consumer has received, and what was wrong with it."""

    received: int = 0
    mixed: int = 0
    lost: int = 0
    repeated: int = 0
    _last: dict[int, int] = field(default_factory=dict)

    def take(
        self,
        who: int,
        number: int,
        tokens: npt.ArrayLike,
        masks: npt.ArrayLike,
        logprobs: npt.ArrayLike,
        score: float,
    ) -> None:
        """Count a record: look at both ends of its arrays, and whether it is the next one."""
        mark = who * 1000 + number % AT_HAND
        ends = (tokens[0], tokens[-1], masks[0], masks[-1], logprobs[0], logprobs[-1])  # type: ignore[index]
        self.received += 1
        if any(end != mark for end in ends) or score != mark:
            self.mixed += 1
            return
        last = self._last.get(who, number - 1)
        if number <= last:
            self.repeated += 1
        else:
            self.lost += number - last - 1
            self._last[who] = number
