"""What a worker's life-cycle events say about the state of its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from lanekit.slow.proto import telemetry_pb2 as pb

TERMINAL = frozenset({"completed", "failed", "cancelled", "lost"})
"""States that a run does not leave by itself."""

_CONTROLLED = {"pause": "paused", "resume": "running"}
_INTERPRETED = frozenset(
    {"run_started", "control_applied", "run_completed", "run_failed", "worker_exited"}
)


@dataclass(slots=True)
class StateChange:
    """The columns of a run that an event changes; None: as before."""

    state: str | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    exit_status: int | None = None
    reason: str | None = None


def interpret(event: pb.RunEvent, state: str) -> StateChange | None:
    """What `event` changes of a run that is in `state`; None: nothing."""
    if event.name not in _INTERPRETED:
        return None
    payload = _payload(event.payload_json)
    at = event.wall_time_ns
    if event.name == "worker_exited":
        return _exited(payload, state, at)
    if event.name == "run_started":
        if state == "submitted":
            return StateChange("running", started_ns=at)
        # A run whose worker was given up as lost turns out to be alive.
        return StateChange("running") if state == "lost" else None
    if state in TERMINAL:
        return None
    if event.name == "control_applied":
        wanted = _CONTROLLED.get(str(payload.get("action", "")).lower())
        return StateChange(wanted) if wanted else None
    if event.name == "run_completed":
        return StateChange("completed", ended_ns=at)
    return StateChange("failed", ended_ns=at, reason=_text(payload.get("error", "")))


def _exited(payload: dict[str, Any], state: str, at: int) -> StateChange:
    status = payload.get("status")
    if isinstance(status, bool) or not isinstance(status, int) or abs(status) >= 2**31:
        status = None
    change = StateChange(exit_status=status)
    if state not in TERMINAL:
        change.ended_ns = at
        change.reason = _text(payload.get("reason", ""))
        if status is None:
            change.state = "lost"
        elif status == 0:
            change.state = "completed"
        else:
            change.state = "failed"
            change.reason = change.reason or _exit_reason(status)
    return change


def _exit_reason(status: int) -> str:
    if status < 0:
        return f"the worker was ended by signal {-status}"
    return f"the worker ended with status {status}"


def _payload(text: bytes) -> dict[str, Any]:
    try:
        payload = msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        return {}
    return payload if isinstance(payload, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
