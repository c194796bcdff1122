"""The records that all ways of the trajectory benchmark carry, and how a mix of them shows."""

from __future__ import annotations

import struct
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

Array = npt.NDArray[Any]
Arrays = dict[str, Any]
WHO_AND_NUMBER = struct.Struct("=IQ")
"""What goes along with a record, where it goes as bytes."""


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


# Both ends of the three long arrays, and the score. Looking costs every way the same; so it has to
# be quick, or it would be what is measured.
Seen = tuple[float, float, float, float, float, float, float]


def look_at(tokens: Array, masks: Array, logprobs: Array, score: Array) -> Seen:
    """Look at a record that came as arrays."""
    return (
        tokens.item(0),
        tokens.item(-1),
        masks.item(0),
        masks.item(-1),
        logprobs.item(0),
        logprobs.item(-1),
        score.item(),
    )


def look_at_lists(tokens: list[int], masks: list[int], logprobs: list[float], score: float) -> Seen:
    """Look at a record that came as lists."""
    return (tokens[0], tokens[-1], masks[0], masks[-1], logprobs[0], logprobs[-1], score)


@dataclass
class Account:
    """What a consumer has received, and what was wrong with it."""

    received: int = 0
    mixed: int = 0
    lost: int = 0
    repeated: int = 0
    _last: dict[int, int] = field(default_factory=dict)

    def take(self, who: int, number: int, seen: Seen) -> None:
        """Count a record: whether its arrays belong together, and whether it is the next one."""
        mark = who * 1000 + number % AT_HAND
        self.received += 1
        if seen != (mark,) * 7:
            self.mixed += 1
            return
        last = self._last.get(who, number - 1)
        if number <= last:
            self.repeated += 1
        else:
            self.lost += number - last - 1
            self._last[who] = number
