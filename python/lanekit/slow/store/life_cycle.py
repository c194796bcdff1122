"""What a worker's life-cycle events say about its stream, and its streams about the run.

A stream is over with its worker's exit, or with the worker's own word that the run completed or
failed. A run is over when none of its streams is open: failed if any of them failed, else lost if
any was lost, else completed. ``run_started`` opens a stream again. Its other events do not, since
events of different kinds are committed in no order: steps may follow the exit of who made them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from lanekit.slow.proto import telemetry_pb2 as pb

TERMINAL = frozenset({"completed", "failed", "cancelled", "lost"})
"""States of a run that has ended."""
OPEN, SILENT, ASIDE, CONTINUED = "open", "silent", "aside", "continued"
"""States of a stream, beside completed, failed and lost: see the schema."""
DAEMON_STREAM = "daemon"
"""The stream of the daemon's own events in each run; no worker can have it."""
_SHARED_DAEMON_STREAM = re.compile(r"daemon_[0-9a-f]{12}", re.ASCII)

_CONTROLLED = {"pause": "paused", "resume": "running"}
_ENDINGS = frozenset({"run_completed", "run_failed", "worker_exited"})


@dataclass(slots=True)
class StateChange:
    """The columns of a run that change; None: as before."""

    state: str | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    exit_status: int | None = None
    reason: str | None = None


@dataclass(slots=True)
class StreamEnd:
    """How a stream ended, as it is stored."""

    state: str
    ended_ns: int
    exit_status: int | None
    reason: str


def daemon_stream(daemon: str = "") -> str:
    """The stream of a daemon's own events; `daemon`: which one of those that share a store."""
    return f"{DAEMON_STREAM}_{daemon}" if daemon else DAEMON_STREAM


def is_daemon_stream(stream_id: str) -> bool:
    """Tell whether a stream is a daemon's own, and no worker's."""
    return stream_id == DAEMON_STREAM or _SHARED_DAEMON_STREAM.fullmatch(stream_id) is not None


def ends_stream(event: pb.RunEvent) -> bool:
    """Tell whether an event is a stream's last word about its worker."""
    return event.name in _ENDINGS


def stream_end(event: pb.RunEvent, before: StreamEnd | None) -> StreamEnd:
    """How the stream stands ended after `event`, which ends it; `before`: it was ended already."""
    payload, at = _payload(event.payload_json), event.wall_time_ns
    if event.name != "worker_exited":
        if before is not None:
            return before
        if event.name == "run_completed":
            return StreamEnd("completed", at, None, "")
        return StreamEnd("failed", at, None, _text(payload.get("error", "")))
    status = payload.get("status")
    if isinstance(status, bool) or not isinstance(status, int) or abs(status) >= 2**31:
        status = None
    if before is not None:
        return StreamEnd(before.state, before.ended_ns, status, before.reason)
    reason = _text(payload.get("reason", ""))
    if status is None:
        return StreamEnd("lost", at, None, reason)
    if status == 0:
        return StreamEnd("completed", at, 0, reason)
    return StreamEnd("failed", at, status, reason or _exit_reason(status))


def run_end(ends: Sequence[StreamEnd]) -> StateChange:
    """What a run is whose streams have all ended like this."""
    failed = [end for end in ends if end.state == "failed"]
    lost = [end for end in ends if end.state in ("lost", SILENT)]
    state = "failed" if failed else "lost" if lost else "completed"
    of_note = failed or lost or ends
    statuses = [end.exit_status for end in of_note if end.exit_status is not None]
    return StateChange(
        state,
        ended_ns=max(end.ended_ns for end in ends),
        exit_status=next((status for status in statuses if status), 0 if statuses else None),
        reason=next((end.reason for end in of_note if end.reason), ""),
    )


def controlled_state(event: pb.RunEvent) -> str | None:
    """The state that a worker says it took on command."""
    if event.name != "control_applied":
        return None
    return _CONTROLLED.get(str(_payload(event.payload_json).get("action", "")).lower())


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
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text.replace("\0", "\ufffd")  # which no text in PostgreSQL can hold
