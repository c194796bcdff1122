"""What a table shows of a step or an episode, and how it comes out of a batch."""

from __future__ import annotations

from dataclasses import dataclass

from lanekit.slow.proto import telemetry_pb2 as pb


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step as people read it."""

    agent_id: str
    episode: int
    step: int
    reward: float | None
    terminated: bool
    truncated: bool
    action: str
    observation: str
    wall_time_ns: int


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One finished episode."""

    agent_id: str
    episode: int
    episode_return: float | None
    length: int
    terminated: bool
    truncated: bool
    wall_time_ns: int


def newest_steps(columns: pb.StepColumns, most: int) -> dict[str, list[StepRow]]:
    """Return each agent's last steps of a batch, the oldest first.

    Only these are taken apart: a batch may hold thousands, a screen shows some.
    """
    rows: dict[str, list[StepRow]] = {}
    for index in range(columns.rows - 1, -1, -1):
        agent = columns.names[columns.agent_index[index]] if columns.agent_index else ""
        kept = rows.setdefault(agent, [])
        if len(kept) < most:
            kept.append(_step_row(columns, index, agent))
    for kept in rows.values():
        kept.reverse()
    return rows


def steps_per_agent(columns: pb.StepColumns) -> dict[str, int]:
    """Return how many steps of each agent a batch holds."""
    if not columns.agent_index:
        return {"": columns.rows} if columns.rows else {}
    counts: dict[int, int] = {}
    for agent in columns.agent_index:
        counts[agent] = counts.get(agent, 0) + 1
    return {columns.names[agent]: count for agent, count in counts.items()}


def episode_row(episode: pb.Episode) -> EpisodeRow:
    """Return an episode as a table shows it."""
    known = episode.HasField("episode_return")
    return EpisodeRow(
        episode.agent_id,
        episode.episode,
        episode.episode_return if known else None,
        episode.length,
        episode.terminated,
        episode.truncated,
        episode.wall_time_ns,
    )


def _step_row(columns: pb.StepColumns, index: int, agent: str) -> StepRow:
    reward = columns.reward[index] if columns.reward else None
    return StepRow(
        agent,
        columns.episode[index] if columns.episode else 0,
        columns.step[index] if columns.step else 0,
        None if reward is None or reward != reward else reward,  # NaN: none was given
        bool(columns.terminated) and columns.terminated[index],
        bool(columns.truncated) and columns.truncated[index],
        columns.action_json[index].decode("utf-8", "replace") if columns.action_json else "",
        columns.observation_json[index].decode("utf-8", "replace")
        if columns.observation_json
        else "",
        columns.wall_time_ns[index] if columns.wall_time_ns else 0,
    )
