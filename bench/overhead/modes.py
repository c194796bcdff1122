"""What is compared: the frameworks, the ways to train, and in which order they take turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FRAMEWORKS = {
    "cleanrl": "torch",
    "sb3": "stable-baselines3",
    "sbx": "sbx-rl",
    "tianshou": "tianshou",
    "torchrl": "torchrl",
    "rllib": "ray",
    "xuance": "xuance",
}
"""The ready-made workers, and the distribution whose version is that of the framework."""

FRAME_HZ = 60.0


@dataclass(frozen=True, eq=False)
class Mode:
    """One way to train."""

    label: str
    options: dict[str, Any] = field(default_factory=dict)
    """What the worker's configuration gets."""
    watched: bool = False
    """Whether a viewer looks meanwhile."""


BARE, AGAIN, UNWATCHED, SHADOW, IN_PROCESS, EVERY_STEP = MODES = (
    Mode("bare", {"frames": "off"}),
    Mode("bare again", {"frames": "off"}),
    Mode("wrapped, unwatched", {"frames": "on_demand"}),
    Mode("watched, shadow", {"frames": "on_demand", "rendering": "shadow"}, watched=True),
    Mode("watched, in-process", {"frames": "on_demand", "rendering": "in-process"}, watched=True),
    Mode("every step", {"frames": "every_step", "rendering": "in-process"}, watched=True),
)
"""The second bare one is compared like the rest: it shows what the method finds in nothing."""

COMPARED = MODES[1:]


def order(turn: int) -> list[Mode]:
    """Return the order of the modes in one turn.

    In as many turns as there are modes each of them has each place once, and follows each other
    one once: neither the place nor what went before favours any.
    """
    count = len(MODES)
    zigzag = [(i + 1) // 2 if i % 2 else (count - i // 2) % count for i in range(count)]
    return [MODES[(place + turn) % count] for place in zigzag]
