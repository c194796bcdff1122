"""What the page is told, as plain values that become JSON. Times are milliseconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lanekit.slow.daemon.access import Caller, words_for
from lanekit.slow.daemon.run_states import possible_actions, state_word
from lanekit.slow.display_rows import AgentSteps, EpisodeBlock
from lanekit.slow.proto import telemetry_pb2 as pb
from lanekit.slow.replay.tape import Contents, Tape
from lanekit.slow.store.life_cycle import DAEMON_STREAM

LONGEST_PAYLOAD = 2000
"""Characters of a log entry's payload that the page gets; the store keeps all of it."""


def run_message(run: pb.Run, caller: Caller) -> dict[str, Any]:
    """Return a run as the list shows it to this caller."""
    state = state_word(run)
    return {
        "id": run.run_id,
        "state": state,
        "created": run.created_wall_time_ns // 1_000_000,
        "started": run.started_wall_time_ns // 1_000_000,
        "ended": run.ended_wall_time_ns // 1_000_000,
        "exitStatus": run.exit_status if run.HasField("exit_status") else None,
        "reason": words_for(caller, run.reason),
        "command": list(run.command),
        "archived": run.archived,
        "steps": run.steps,
        "episodes": run.episodes,
        "rejectedLines": run.rejected_lines,
        "actions": sorted(possible_actions(state, run.archived)),
        "workers": [
            {"id": worker.worker_id, "host": worker.host, "pid": worker.pid}
            for worker in run.workers
            if worker.stream_id != DAEMON_STREAM
        ],
    }


def episodes_message(block: EpisodeBlock, next_cursor: int) -> dict[str, Any]:
    """Return finished episodes as columns."""
    names = list(dict.fromkeys(block.agents))
    place = {name: number for number, name in enumerate(names)}
    return {
        "kind": "episodes",
        "agents": names,
        "agent": [place[name] for name in block.agents],
        "episode": block.episode.tolist(),
        "returns": _numbers(block.returns),
        "length": block.length.tolist(),
        "ending": block.ending.tolist(),
        "next": next_cursor,
    }


def steps_message(
    steps: Mapping[str, AgentSteps], skipped: int, next_cursor: int
) -> dict[str, Any]:
    """Return the rewards of steps, by agent, and the newest steps in full."""
    newest = sorted((row for each in steps.values() for row in each.newest), key=_position)
    return {
        "kind": "steps",
        "skipped": skipped,
        "rewards": {agent: _numbers(each.rewards) for agent, each in steps.items()},
        "newest": [
            {
                "agent": row.agent_id,
                "episode": row.episode,
                "step": row.step,
                "reward": row.reward,
                "action": row.action,
                "observation": row.observation,
                "ending": int(row.terminated) + 2 * int(row.truncated),
            }
            for row in newest
        ],
        "next": next_cursor,
    }


def events_message(events: Sequence[pb.RunEvent], next_cursor: int) -> dict[str, Any]:
    """Return entries of a run's log."""
    return {
        "kind": "events",
        "events": [
            {
                "name": event.name,
                "time": event.wall_time_ns // 1_000_000,
                "worker": event.worker_id,
                "payload": event.payload_json.decode("utf-8", "replace")[:LONGEST_PAYLOAD],
            }
            for event in events
        ],
        "next": next_cursor,
    }


def contents_message(contents: Contents) -> dict[str, Any]:
    """Return who recorded which episodes."""
    return {
        "run": contents.run_id,
        "players": [
            {
                "worker": player.worker,
                "agent": player.agent,
                "title": player.title,
                "episode": [entry.number for entry in entries],
                "steps": [entry.steps for entry in entries],
                "frames": [entry.frames for entry in entries],
                "total": [entry.total for entry in entries],
            }
            for player, entries in contents.episodes.items()
        ],
    }


def tape_message(tape: Tape) -> dict[str, Any]:
    """Return one episode, step by step. Frames' ids are texts: JavaScript's numbers are shorter."""
    ids, places = np.unique(tape.frame_ids, return_inverse=True)
    return {
        "worker": tape.player.worker,
        "agent": tape.player.agent,
        "episode": tape.episode,
        "step": tape.step.tolist(),
        "reward": _numbers(tape.reward),
        "total": _numbers(tape.total),
        "action": ["" if text is None else text.decode("utf-8", "replace") for text in tape.action],
        "seconds": tape.timeline.seconds.tolist(),
        "remarks": tape.timeline.remarks(),
        "ending": tape.ending,
        "frames": [str(number) if number else None for number in ids.tolist()],
        "frameOfStep": places.tolist(),
    }


def _numbers(values: npt.NDArray[np.float64]) -> list[float | None]:
    """Return floats as JSON can tell them: null where one is not known."""
    return [value if value == value else None for value in values.tolist()]


def _position(row: Any) -> int:
    position: int = row.position
    return position
