"""What the window knows of a run: every finished episode, and the newest steps of each agent."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lanekit.slow.display_rows import EpisodeBlock, StepRow
from lanekit.viewer.live.growing import GrowingArray
from lanekit.viewer.live.series import Series

LIVE_STEP_QUEUE_SIZE = 64
RECENT_REWARDS = 2000
"""How many of an agent's last rewards there is a curve of."""


@dataclass(slots=True)
class AgentHistory:
    """One agent of a run."""

    returns: Series = field(default_factory=Series)
    lengths: Series = field(default_factory=Series)
    places: GrowingArray[np.int64] = field(default_factory=lambda: GrowingArray(np.int64))
    """Where its episodes are among the run's."""
    rewards: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))
    """Of its last steps, every one."""
    newest_steps: deque[StepRow] = field(default_factory=lambda: deque(maxlen=LIVE_STEP_QUEUE_SIZE))
    steps: int = 0
    """How many came since the run is followed."""


class RunHistory:
    """Grows as the run goes on: some 100 bytes for each episode, nothing for each step."""

    def __init__(self) -> None:
        self.agents: dict[str, AgentHistory] = {}
        self.agent_names: list[str] = []
        """In the order in which they were first seen."""
        self.agent_index = GrowingArray(np.int32)
        """Of each episode, the place of its agent among the names."""
        self.episode = GrowingArray(np.int64)
        self.returns = GrowingArray(np.float64)
        self.length = GrowingArray(np.int64)
        self.ending = GrowingArray(np.uint8)

    @property
    def episodes(self) -> int:
        """How many finished episodes there are."""
        return len(self.episode)

    @property
    def steps(self) -> int:
        """How many steps came since the run is followed."""
        return sum(agent.steps for agent in self.agents.values())

    def agent(self, name: str) -> AgentHistory:
        """Return one agent's part, which begins empty."""
        if name not in self.agents:
            self.agents[name] = AgentHistory()
            self.agent_names.append(name)
        return self.agents[name]

    def add_steps(
        self, name: str, count: int, newest: list[StepRow], rewards: NDArray[np.float64]
    ) -> None:
        """Take in an agent's next steps; of `count` the newest are given, and their rewards."""
        agent = self.agent(name)
        agent.steps += count
        agent.newest_steps.extend(newest)
        agent.rewards = np.concatenate((agent.rewards, rewards))[-RECENT_REWARDS:]

    def add_episodes(self, block: EpisodeBlock) -> None:
        """Take in the run's next episodes."""
        first = self.episodes
        names = dict.fromkeys(block.agents)
        for name in names:
            self.agent(name)
        numbers = {name: self.agent_names.index(name) for name in names}
        agents = np.array([numbers[name] for name in block.agents], np.int32)
        self.agent_index.extend(agents)
        self.episode.extend(block.episode)
        self.returns.extend(block.returns)
        self.length.extend(block.length)
        self.ending.extend(block.ending)
        for name, number in numbers.items():
            places = np.flatnonzero(agents == number)
            agent = self.agents[name]
            agent.places.extend(places + first)
            agent.returns.extend(block.returns[places])
            agent.lengths.extend(block.length[places])

    def mean_return(self, last: int) -> float | None:
        """Return the mean of the last so many returns that are known."""
        returns = self.returns.values[-last:]
        known = returns[~np.isnan(returns)]
        return float(known.mean()) if len(known) else None
