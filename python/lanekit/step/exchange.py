"""What the two ends of a step lane say about their exchanges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from lanekit._core import CData, lib

StepRequest = Literal["step", "reset"]


class StepExchange(NamedTuple):
    """One exchange: what the client asked for."""

    number: int
    """Exchanges are numbered from 1, over all clients of a server."""
    request: StepRequest
    """"step": reset the flagged environments and step the others; "reset": only the former."""
    half: int
    envs: slice
    """The environments that it concerns: all, or those of one half."""


@dataclass(frozen=True)
class StepState:
    """How far a lane has come."""

    sent: int
    """Exchanges that clients have asked for."""
    completed: int
    """Exchanges that the server has committed."""
    client_pid: int
    """0: nobody is attached."""
    client_alive: bool


def exchange_of(found: CData) -> StepExchange:
    """Return the core's structure as a tuple."""
    first = found.first_env
    request: StepRequest = "step" if found.request == lib.LK_STEP_STEP else "reset"
    return StepExchange(found.number, request, found.half, slice(first, first + found.env_count))


def state_of(found: CData) -> StepState:
    """Return the core's structure as a dataclass."""
    return StepState(
        sent=found.sent,
        completed=found.completed,
        client_pid=found.client_pid,
        client_alive=found.client_pid != 0 and found.client != lib.LK_DEAD,
    )
