"""What the window says while it has nothing to show: how things are, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass

from lanekit.viewer.window.commands import WindowActions
from lanekit.viewer.window.empty_state import EmptyState


@dataclass(frozen=True)
class Situation:
    """What decides about the words."""

    has_runs: bool
    answers: bool
    reason: str
    """Why the daemon does not answer; empty while that is not known."""
    can_start: bool


def tell_what_to_do(empty: EmptyState, now: Situation, actions: WindowActions) -> None:
    """Say what a newcomer can do next, with buttons for it."""
    if now.has_runs:
        empty.tell(
            "Choose a run",
            "Double-click a run to watch it. Select several, and put them side by side with "
            "Ctrl+G.",
            actions["picture"],
            actions["side_by_side"],
        )
    elif now.answers:
        empty.tell(
            "No runs yet",
            "Start one here, or in a terminal: lanekit demo, or lanekit run --worker NAME. "
            "It appears by itself.",
            actions["new_run"],
        )
    elif not now.reason:
        empty.tell("Looking for the daemon …", "")
    elif now.can_start:
        empty.tell(
            "No daemon runs",
            "The daemon starts runs and keeps what they report. Pictures of runs that were "
            "started without one appear here, too.",
            actions["start_daemon"],
            actions["new_run"],
        )
    else:
        empty.tell("No daemon answers", now.reason)
