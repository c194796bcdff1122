"""Watch PettingZoo environments: where agents act in turn (AEC), and where all act at once.

The reward shown is the sum of all agents' rewards; an episode is over when no agent is left.
Telemetry hears of each agent by its name.
"""

from __future__ import annotations

import functools
import os
from collections import defaultdict
from typing import Any

from pettingzoo.utils.env import AECEnv, ParallelEnv
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from lanekit.integrations.gymnasium_env import RUN_ID_VARIABLES
from lanekit.integrations.showing.demand import Demand
from lanekit.integrations.showing.expecting import expect_game
from lanekit.integrations.showing.frames import Frame, to_frame
from lanekit.integrations.showing.painter import why_not_drawable
from lanekit.integrations.showing.publisher import CAPACITY, Plan, Publisher, Telemetry, View
from lanekit.integrations.showing.surfaces import tame_sdl
from lanekit.integrations.teller import Teller

_AEC_EXAMPLE = "from pettingzoo.classic import rps_v2; rps_v2.env()"
_PARALLEL_EXAMPLE = "from pettingzoo.classic import rps_v2; rps_v2.parallel_env()"


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


class AgentTellers:
    """Numbers the steps and episodes of each agent, and hands them on."""

    def __init__(self, telemetry: Telemetry | None) -> None:
        self._telemetry = telemetry
        self._tellers: dict[Any, Teller] = {}
        self._untold: defaultdict[Any, float] = defaultdict(float)
        self._acted: set[Any] = set()

    def begin_episode(self) -> None:
        """Start anew; what is under way ends unfinished."""
        for teller in self._tellers.values():
            teller.begin_episode()
        self._untold.clear()
        self._acted.clear()

    def after_step(self, agent: Any, reward: Any, terminated: bool, truncated: bool) -> None:
        """Hand one agent's step on."""
        if self._telemetry is None:
            return
        if agent not in self._tellers:
            self._tellers[agent] = Teller(self._telemetry, str(agent))
        self._tellers[agent].after_step(reward, terminated, truncated)

    def after_turn(self, agent: Any, env: AECEnv[Any, Any, Any]) -> None:
        """Hand on what is complete after an agent's turn.

        What an action brings comes with the others' turns, too. So an agent's step is complete when
        it is its turn again, or when it is out.
        """
        if self._telemetry is None:
            return
        self._acted.add(agent)
        for name, reward in env.rewards.items():
            self._untold[name] += reward
        for name in env.agents:
            out = env.terminations[name] or env.truncations[name]
            if name in self._acted and (out or name == env.agent_selection):
                self._acted.discard(name)
                self.after_step(
                    name, self._untold.pop(name, 0.0), env.terminations[name], env.truncations[name]
                )


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
        telemetry: Telemetry | None = None,
    ) -> None:
        expect_game(env, AECEnv, _AEC_EXAMPLE)
        super().__init__(env)
        self.tellers = AgentTellers(telemetry)
        self.publisher = _publisher(env, run_id, Demand(max_hz, every_step), capacity)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Reset; an episode under way ends unfinished."""
        self.publisher.begin_episode()
        self.tellers.begin_episode()
        super().reset(seed=seed, options=options)

    def step(self, action: Any) -> None:
        """Step the agent whose turn it is, and show the result if somebody watches."""
        agent = self.env.agent_selection
        dead = self.env.terminations[agent] or self.env.truncations[agent]
        super().step(action)
        # The step of an agent that is out only takes it away: its rewards were counted before.
        reward = 0.0 if dead else sum(self.env.rewards.values())
        self.publisher.after_step(reward, not self.env.agents)
        if not dead:
            self.tellers.after_turn(agent, self.env)

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
        telemetry: Telemetry | None = None,
    ) -> None:
        expect_game(env, ParallelEnv, _PARALLEL_EXAMPLE)
        super().__init__(env)
        self.tellers = AgentTellers(telemetry)
        self.publisher = _publisher(env, run_id, Demand(max_hz, every_step), capacity)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, dict[str, Any]]]:
        """Reset; an episode under way ends unfinished."""
        self.publisher.begin_episode()
        self.tellers.begin_episode()
        return self.env.reset(seed=seed, options=options)  # type: ignore[no-any-return]

    def step(self, actions: dict[Any, Any]) -> tuple[Any, ...]:
        """Step all agents, and show the result if somebody watches."""
        result: tuple[Any, ...] = self.env.step(actions)
        self.publisher.after_step(sum(result[1].values()), not self.env.agents)
        for agent, reward in result[1].items():
            self.tellers.after_step(agent, reward, result[2][agent], result[3][agent])
        return result

    def close(self) -> None:
        """Leave the lane and close the environment. May be called twice."""
        self.publisher.close()
        super().close()
