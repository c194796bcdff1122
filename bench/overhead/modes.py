"""What is compared: the frameworks, the ways to train, and in which order they take turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TURN_STEPS = 256
"""How many steps a mode trains before it is another one's turn."""


class Framework(NamedTuple):
    """A ready-made worker, and how it is set up here."""

    library: str
    """The distribution whose version is that of the framework."""
    options: dict[str, Any]
    """Such that a turn has one rollout and what is learned from it."""


FRAMEWORKS = {
    "cleanrl": Framework("torch", {"rollout_steps": TURN_STEPS}),
    "sb3": Framework("stable-baselines3", {"hyperparameters": {"n_steps": TURN_STEPS}}),
    "sbx": Framework("sbx-rl", {"hyperparameters": {"n_steps": TURN_STEPS}}),
    "tianshou": Framework("tianshou", {"steps_per_collect": TURN_STEPS}),
    "torchrl": Framework("torchrl", {"frames_per_batch": TURN_STEPS}),
    "rllib": Framework("ray", {"rollout_steps": TURN_STEPS}),
    "xuance": Framework("xuance", {"horizon_size": TURN_STEPS}),
}

JAX = {"sbx"}
"""Those made of JAX, which compiles, and which only a core of its own keeps to one thread, as the
others keep themselves."""

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


def order(turn: int, modes: Sequence[Mode] = MODES) -> list[Mode]:
    """Return the order of the modes in one turn.

    In as many turns as there are modes (twice as many, if their number is odd) each of them has
    each place equally often, and follows each other one equally often within a turn: neither the
    place nor what went before favours any.
    """
    count = len(modes)
    zigzag = [(i + 1) // 2 if i % 2 else (count - i // 2) % count for i in range(count)]
    row = [modes[(place + turn) % count] for place in zigzag]
    return row[::-1] if count % 2 and turn // count % 2 else row
