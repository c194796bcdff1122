"""The numbers beside the picture: returns of the last episodes, steps per second."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from lanekit.fast import FastLaneMetrics

EPISODES = 100
"""How many finished episodes the rolling return is the mean of."""

_RATE_WINDOW_NS = 1_000_000_000


class Tally:
    """Counts what a run does."""

    def __init__(self) -> None:
        self.steps = 0
        self.episodes = 0
        self.episode_return = 0.0
        self.last_reward = 0.0
        self.returns: deque[float] = deque(maxlen=EPISODES)
        self._rate = 0.0
        self._counted: deque[tuple[int, int]] = deque()

    def end_episode(self) -> None:
        """Note that the episode is over."""
        self.episodes += 1
        self.returns.append(_number(self.episode_return))
        self.episode_return = 0.0

    @property
    def rolling_return(self) -> float:
        """The mean return of the last episodes; of the one under way while none has ended."""
        if not self.returns:
            return _number(self.episode_return)
        return sum(self.returns) / len(self.returns)

    def step_rate(self, now_ns: int) -> float:
        """Return the steps per second, over about the last second."""
        counted = self._counted
        counted.append((now_ns, self.steps))
        while len(counted) > 2 and now_ns - counted[1][0] >= _RATE_WINDOW_NS:
            counted.popleft()
        then_ns, then_steps = counted[0]
        if now_ns > then_ns:
            self._rate = (self.steps - then_steps) * 1e9 / (now_ns - then_ns)
        return self._rate

    def metrics(self, now_ns: int) -> FastLaneMetrics:
        """Return what a viewer shows now."""
        return FastLaneMetrics(
            _number(self.last_reward), self.rolling_return, self.step_rate(now_ns)
        )


def _number(reward: Any) -> float:
    """Return a reward as one number; one with several parts (multi-objective) is added up."""
    try:
        return float(reward)
    except TypeError:
        return float(np.sum(reward))


class BatchTally(Tally):
    """Counts for many environments that step together."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._under_way = np.zeros(count)

    def add(self, rewards: Any, over: Any, shown: int | None, taken: int | None = None) -> None:
        """Take one step of each; `shown` is whose reward counts as the last one, None for all.

        `taken`: how many of them really took a step; the others were reset, or are still at it.
        """
        self._under_way += rewards
        self.steps += len(self._under_way) if taken is None else taken
        self.last_reward = float(np.mean(rewards) if shown is None else rewards[shown])
        if np.any(over):
            for index in np.flatnonzero(over):
                self.episode_return = float(self._under_way[index])
                self.end_episode()
            self._under_way[np.asarray(over, bool)] = 0.0
        self.episode_return = float(self._under_way[shown or 0])

    def begin_episodes(self, which: Any = None) -> None:
        """Start anew where `which` is true, None for all; what was under way does not count."""
        self._under_way[... if which is None else np.asarray(which, bool)] = 0.0
