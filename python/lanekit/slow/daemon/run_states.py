"""A run's state: whether it is final, and how people call it."""

from __future__ import annotations

from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.store.life_cycle import TERMINAL
from lanekit.slow.store.run_rows import state_name


def ended(run: pb.Run) -> bool:
    """Tell whether a run is over."""
    return state_word(run) in TERMINAL


def state_word(run: pb.Run) -> str:
    """Return the state as people read it: ``running``."""
    return state_name(run.state)


def possible_actions(state: str, archived: bool) -> frozenset[str]:
    """Return what can be asked of a run in this state, by the names of the actions."""
    if state in TERMINAL:
        return frozenset({"unarchive" if archived else "archive"})
    found = {"stop", "cancel"}
    if state == "running":
        found.add("pause")
    elif state == "paused":
        found.add("resume")
    return frozenset(found)
