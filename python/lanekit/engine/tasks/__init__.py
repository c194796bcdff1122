"""Tasks: what is observed, what is rewarded, and when an episode ends."""

from __future__ import annotations

import mujoco

from lanekit.engine.tasks.cartpole import Cartpole
from lanekit.engine.tasks.free import Free
from lanekit.engine.tasks.halfcheetah import HalfCheetah
from lanekit.engine.tasks.hopper import Hopper
from lanekit.engine.tasks.humanoid import HumanoidStand, HumanoidWalk
from lanekit.engine.tasks.task import Rows, StateArrays, Task
from lanekit.errors import ModelError

TASKS: dict[str, type[Task]] = {
    kind.name: kind for kind in (Free, Cartpole, HalfCheetah, Hopper, HumanoidStand, HumanoidWalk)
}
"""All tasks by name; add your own before an engine is made."""

_OF_MODELS = {
    "cartpole": "cartpole",
    "halfcheetah": "halfcheetah",
    "hopper": "hopper",
    "humanoid": "humanoid-walk",
}


def task_for(model: mujoco.MjModel, built_in: str, name: str | None) -> Task:
    """Return the task of that name, by default the one that a built-in model is for."""
    chosen = name or _OF_MODELS.get(built_in, "free")
    if chosen not in TASKS:
        raise ModelError(f"unknown task {chosen!r}; known are {', '.join(TASKS)}")
    return TASKS[chosen](model)


__all__ = ["TASKS", "Rows", "StateArrays", "Task", "task_for"]
