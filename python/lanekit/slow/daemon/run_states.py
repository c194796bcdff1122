"""Which states of a run are final, and how people call them."""

from __future__ import annotations

from lanekit.slow.proto import telemetry_pb2 as pb

ENDED = frozenset(
    {
        pb.RUN_STATE_COMPLETED,
        pb.RUN_STATE_FAILED,
        pb.RUN_STATE_CANCELLED,
        pb.RUN_STATE_LOST,
    }
)


def ended(run: pb.Run) -> bool:
    """Tell whether a run is over."""
    return run.state in ENDED


def state_word(run: pb.Run) -> str:
    """Return the state as people read it: ``running``."""
    return pb.RunState.Name(run.state).removeprefix("RUN_STATE_").lower()
