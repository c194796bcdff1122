"""Watch PettingZoo environments: where agents act in turn (AEC), and where all act at once.

The reward shown is the sum of all agents' rewards; an episode is over when no agent is left.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from pettingzoo.utils.env import AECEnv, ParallelEnv
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from lanekit.integrations.gymnasium_env import RUN_ID_VARIABLES
from lanekit.integrations.showing.demand import Demand
from lanekit.integrations.showing.frames import Frame, to_frame
from lanekit.integrations.showing.painter import why_not_drawable
from lanekit.integrations.showing.publisher import CAPACITY, Plan, Publisher, View
from lanekit.integrations.showing.surfaces import tame_sdl


def _publisher(env: Any, run_id: str | None, demand: Demand, capacity: int) -> Publisher:
    return Publisher(functools.partial(_plan_for, env, run_id or _run_id_of(env), demand, capacity))


def _run_id_of(env: Any) -> str:
    for variable in RUN_ID_VARIABLES:
        if os.environ.get(variable):
            return os.environ[variable]
    return str(env.metadata.get("name", type(env.unwrapped).__name__))


def _plan_for(env: Any, run_id: str, demand: Demand, capacity: int) -> Plan:
    tame_sdl()
    why_not = why_not_drawable(env)
    paint = None if why_not else functools.partial(_paint, env)
    return Plan(run_id, (View(run_id, paint, why_not or ""),), None, demand, capacity)


def _paint(env: Any) -> Frame:
    return to_frame(env.render())


class FastLaneAECWrapper(BaseWrapper[Any, Any, Any]):
    """Publishes an AEC environment's pictures while somebody watches."""

    def __init__(
        self,
        env: AECEnv[Any, Any, Any],
        run_id: str | None = None,
        *,
        max_hz: float = 60.0,
        every_step: bool = False,
        capacity: int = CAPACITY,
    ) -> None:
        super().__init__(env)
        self.publisher = _publisher(env, run_id, Demand(max_hz, every_step), capacity)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Reset; an episode under way ends unfinished."""
        self.publisher.begin_episode()
        super().reset(seed=seed, options=options)

    def step(self, action: Any) -> None:
        """Step the agent whose turn it is, and show the result if somebody watches."""
        agent = self.env.agent_selection
        dead = self.env.terminations[agent] or self.env.truncations[agent]
        super().step(action)
        # The step of an agent that is out only takes it away: its rewards were counted before.
        reward = 0.0 if dead else sum(self.env.rewards.values())
        self.publisher.after_step(reward, not self.env.agents)

    def close(self) -> None:
        """Leave the lane and close the environment. May be called twice."""
        self.publisher.close()
        super().close()


class FastLaneParallelWrapper(BaseParallelWrapper[Any, Any, Any]):
    """Publishes a parallel environment's pictures while somebody watches."""

    def __init__(
        self,
        env: ParallelEnv[Any, Any, Any],
        run_id: str | None = None,
        *,
        max_hz: float = 60.0,
        every_step: bool = False,
        capacity: int = CAPACITY,
    ) -> None:
        super().__init__(env)
        self.publisher = _publisher(env, run_id, Demand(max_hz, every_step), capacity)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, dict[str, Any]]]:
        """Reset; an episode under way ends unfinished."""
        self.publisher.begin_episode()
        return self.env.reset(seed=seed, options=options)  # type: ignore[no-any-return]

    def step(self, actions: dict[Any, Any]) -> tuple[Any, ...]:
        """Step all agents, and show the result if somebody watches."""
        result: tuple[Any, ...] = self.env.step(actions)
        self.publisher.after_step(sum(result[1].values()), not self.env.agents)
        return result

    def close(self) -> None:
        """Leave the lane and close the environment. May be called twice."""
        self.publisher.close()
        super().close()
