"""The events every slow-lane benchmark records: steps of an agent that balances a pole.

Standard library only: the trackers measured beside lanekit live in an environment without it.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

EPISODE_LENGTH = 200
_DIFFERENT = 4096
_START_NS = 1_700_000_000_000_000_000


class Step(NamedTuple):
    """What one step of the environment leaves to be recorded."""

    episode: int
    number: int
    action: int
    observation: list[float]
    reward: float
    terminated: bool
    time_ns: int


def _as_float32(value: float) -> float:
    """Return the digits that ``array.tolist()`` of a float32 observation shows."""
    number: float = struct.unpack("f", struct.pack("f", value))[0]
    return number


def steps(count: int) -> Iterator[Step]:
    """Make the same steps each time: 4-float observations, 0/1 actions, episodes of 200."""
    source = random.Random(1)
    seen = [[_as_float32(source.gauss(0, 0.5)) for _ in range(4)] for _ in range(_DIFFERENT)]
    for i in range(count):
        episode, number = divmod(i, EPISODE_LENGTH)
        yield Step(
            episode=episode,
            number=number,
            action=i * 7 % 3 % 2,
            observation=seen[i % _DIFFERENT],
            reward=1.0 - number / 1024,
            terminated=number == EPISODE_LENGTH - 1,
            time_ns=_START_NS + i * 1_000_000,
        )


def line(step: Step) -> str:
    """Return the step as a worker prints it, without the line's end."""
    return json.dumps(
        {
            "event_type": "step",
            "agent_id": "agent-0",
            "episode_index": step.episode,
            "step_index": step.number,
            "action": step.action,
            "observation": step.observation,
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": False,
            "time_ns": step.time_ns,
        },
        separators=(",", ":"),
    )


def write_lines(path: Path, count: int) -> int:
    """Write that many lines to a file; return its size."""
    with path.open("w", encoding="utf-8") as file:
        for step in steps(count):
            file.write(line(step))
            file.write("\n")
    return path.stat().st_size


Row = tuple[int | float | str | None, ...]


def rows(count: int) -> list[Row]:
    """Return the steps as rows of the store's `steps` table, without the columns that stay NULL."""
    track = 1 << 40
    return [
        (
            track | seq,
            step.episode,
            step.number,
            step.reward,
            int(step.terminated),
            0,
            step.time_ns,
            str(step.action),
            json.dumps(step.observation, separators=(",", ":")),
        )
        for seq, step in enumerate(steps(count), start=1)
    ]


def whole_rows(count: int) -> list[Row]:
    """Return the same with all 14 columns."""
    nothing = (None,) * 5  # info, render_hint, seed, extra, unknown
    return [row + nothing for row in rows(count)]
