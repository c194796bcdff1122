"""What is shown of steps and episodes, and how it comes out of the daemon's messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lanekit.slow.proto import telemetry_pb2 as pb

LONGEST_TEXT = 240
"""Of an action or observation, which may be a whole image, a table keeps the beginning."""

TERMINATED = 1
TRUNCATED = 2


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step as people read it."""

    position: int
    """Its place among the run's committed steps, from 0 on."""
    agent_id: str
    episode: int
    step: int
    reward: float | None
    terminated: bool
    truncated: bool
    action: str
    observation: str


@dataclass(frozen=True, slots=True)
class AgentSteps:
    """One agent's steps of a batch."""

    count: int
    newest: list[StepRow]
    """The last of them, the oldest first."""
    rewards: NDArray[np.float64]
    """Of all of them and of those that are not counted; NaN where none was given."""


@dataclass(frozen=True, slots=True)
class EpisodeBlock:
    """Finished episodes, in the order of their commits."""

    agents: list[str]
    episode: NDArray[np.int64]
    returns: NDArray[np.float64]
    """NaN where none was given."""
    length: NDArray[np.int64]
    ending: NDArray[np.uint8]
    """TERMINATED, TRUNCATED, both, or 0."""

    def __len__(self) -> int:
        return len(self.agents)


def steps_by_agent(
    columns: pb.StepColumns, first: int, most: int, counted_from: int = 0
) -> dict[str, AgentSteps]:
    """Take a batch apart whose first step has the position `first`.

    At most `most` steps of each agent become rows: a batch holds many, a screen shows some. Of
    those before the position `counted_from` only the rewards are taken.
    """
    if not columns.rows:
        return {}
    rewards = (
        np.array(columns.reward, np.float64)
        if columns.reward
        else np.full(columns.rows, np.nan, np.float64)
    )
    found = {}
    for agent, rows in _rows_by_agent(columns).items():
        counted = rows[rows >= counted_from - first]
        newest = [_step_row(columns, int(row), agent, first, rewards) for row in counted[-most:]]
        found[agent] = AgentSteps(len(counted), newest, rewards[rows])
    return found


def episode_block(episodes: Sequence[pb.Episode]) -> EpisodeBlock:
    """Return episodes as columns."""
    return EpisodeBlock(
        [each.agent_id for each in episodes],
        np.array([each.episode for each in episodes], np.int64),
        np.array(
            [
                each.episode_return if each.HasField("episode_return") else np.nan
                for each in episodes
            ],
            np.float64,
        ),
        np.array([each.length for each in episodes], np.int64),
        np.array(
            [TERMINATED * each.terminated + TRUNCATED * each.truncated for each in episodes],
            np.uint8,
        ),
    )


def ending_text(terminated: bool, truncated: bool) -> str:
    """Return how an episode ended, in a word; nothing while it goes on."""
    words = ["terminated"] * terminated + ["truncated"] * truncated
    return ", ".join(words)


def _rows_by_agent(columns: pb.StepColumns) -> dict[str, NDArray[np.intp]]:
    if not columns.agent_index:
        return {"": np.arange(columns.rows)}
    agents = np.array(columns.agent_index, np.int64)
    order = np.argsort(agents, kind="stable")
    borders = np.flatnonzero(np.diff(agents[order])) + 1
    return {
        columns.names[int(agents[rows[0]])]: rows for rows in np.split(order, borders) if len(rows)
    }


def _step_row(
    columns: pb.StepColumns, row: int, agent: str, first: int, rewards: NDArray[np.float64]
) -> StepRow:
    reward = float(rewards[row])
    return StepRow(
        first + row,
        agent,
        columns.episode[row] if columns.episode else 0,
        columns.step[row] if columns.step else 0,
        None if np.isnan(reward) else reward,
        bool(columns.terminated) and columns.terminated[row],
        bool(columns.truncated) and columns.truncated[row],
        _short(columns.action_json[row]) if columns.action_json else "",
        _short(columns.observation_json[row]) if columns.observation_json else "",
    )


def _short(text: bytes) -> str:
    if len(text) <= LONGEST_TEXT:
        return text.decode("utf-8", "replace")
    # A letter that the cut goes through is left out.
    return text[:LONGEST_TEXT].decode("utf-8", "ignore") + "…"
